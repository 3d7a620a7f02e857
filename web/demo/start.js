/**
 * Starts Python while the rest of the page is still loading: the page's first module, which needs
 * none of the page's elements.
 *
 * Out: what was started, and `optionsFor`, the library's options for a runtime.
 */

import { warmUp } from "../src/decoder.js";
import { address } from "./dom.js";
import { isSite } from "./site.js";

/** @typedef {"pyodide" | "micropython"} Runtime */

/**
 * On a bridge's page Pyodide installs detok_py from its wheel, as in any page. On a static site its
 * library contains detok_py, which takes a third of the bytes.
 * @param {Runtime} runtime
 */
export function optionsFor(runtime) {
  const timeout = Number(address.get("boot-timeout")) || 30_000;
  const install = isSite ? /** @type {const} */ ("core") : /** @type {const} */ ("micropip");
  return runtime === "pyodide"
    ? /** @type {const} */ ({ runtime: "pyodide", install, timeout })
    : /** @type {const} */ ({ runtime: "micropython", timeout });
}

/** The runtime that the address names. @type {Runtime} */
export const firstRuntime = address.get("runtime") === "micropython" ? "micropython" : "pyodide";
export const firstStart = performance.now();
warmUp(optionsFor(firstRuntime)).catch(() => {}); // `loadRuntime` waits for it
