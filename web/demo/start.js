/**
 * Starts Python while the rest of the page is still on its way: the page's first module, which
 * needs no element of it.
 *
 * Out: what was started, and `optionsFor`, what the library is told of a runtime.
 */

import { warmUp } from "../src/decoder.js";
import { address } from "./dom.js";
import { isSite } from "./site.js";

/** @typedef {"pyodide" | "micropython"} Runtime */

/**
 * Pyodide installs detok_py from its wheel, as anybody's page does; on a static site it comes with
 * it, which is a third of the bytes.
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
