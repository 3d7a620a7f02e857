/**
 * Finds out why the worker or its Python could not be loaded, and names the URL or the policy that
 * failed.
 *
 * Loaded only after a failure. Requests the files again, one after another. A policy is recognised
 * by the event that the browser fires, or by the header of the worker's file.
 */

import { DetokError } from "./errors.js";
import { FOLDER } from "./pyodide-package.js";
import { startWorker } from "./worker-start.js";

const SECONDS = 5;
const MICROPYTHON = ["micropython.mjs", "micropython.wasm", "detok_micropython.bin"];
const PYODIDE = ["pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_core.json"];

/**
 * Find the cause of a failed start.
 * @param {string} sentence  What is known already.
 * @param {boolean} ran      Whether the worker has sent a message, so its file exists.
 * @param {string} script    The URL of the worker.
 * @param {URL} folder       The folder of the runtime.
 * @param {Record<string, string>} [own]  MicroPython's files, if the page named no folder.
 * @param {string} [booter]  The URL of the module that starts Pyodide, if the page uses it.
 * @param {string} [installer]  The URL of the module that installs the wheel; without it Pyodide
 *   has a smaller library.
 * @returns {Promise<DetokError | undefined>}  Undefined if nothing wrong is found.
 */
export async function why(sentence, ran, script, folder, own, booter, installer) {
  const place = booter && own ? new URL(FOLDER, folder) : folder;
  const library = installer ? [] : ["python_core.zip"];
  const files = (booter ? [...PYODIDE, ...library] : MICROPYTHON).map(
    (name) => new URL((!booter && own?.[name]) || name, place).href,
  );
  /** Where a missing file of Pyodide should come from. @param {string} url */
  const source = (url) =>
    booter && files.includes(url) && FOLDER !== "./"
      ? ". Pyodide is a package of its own: npm install detok-web-pyodide, and serve it beside detok-web or name its folder with runtimeUrl"
      : "";
  /** @type {SecurityPolicyViolationEvent | undefined} */
  let violation;
  const note = (/** @type {SecurityPolicyViolationEvent} */ event) => (violation = event);
  const { document } = globalThis;
  document?.addEventListener("securitypolicyviolation", note);
  const refused = (/** @type {string} */ url) =>
    violation &&
    told(
      "policy",
      `The page's Content-Security-Policy refuses ${url}: ${violation.effectiveDirective} must allow it`,
    );
  try {
    let policy = "";
    for (const url of [script, booter, installer, ...files]) {
      if (!url) continue;
      let answer;
      try {
        answer = await fetch(url, { signal: AbortSignal.timeout(SECONDS * 1000) });
      } catch (error) {
        await new Promise((resolve) => setTimeout(resolve)); // the event follows the error
        const late = error instanceof DOMException && error.name === "TimeoutError";
        const how = navigator.onLine === false ? "the browser is offline" : String(error);
        const what = late ? `did not answer within ${SECONDS} s` : `could not be reached (${how})`;
        return refused(url) ?? told("network", `${url} ${what}`);
      }
      void answer.body?.cancel();
      if (!answer.ok)
        return told("network", `${url} could not be read (HTTP ${answer.status})${source(url)}`);
      const type = answer.headers.get("content-type") ?? "no type";
      const { pathname } = new URL(url);
      // Pyodide compiles WebAssembly while it arrives, which needs its own type.
      const [right, must] = /js$/.test(pathname)
        ? [/(java|ecma)script/.test(type), "; a module must be text/javascript"]
        : booter && /wasm$/.test(pathname)
          ? [/wasm/.test(type), "; WebAssembly must be application/wasm"]
          : [!/html/.test(type), ", which is a page and not that file"];
      if (!right)
        return told(
          "policy",
          `${url} is served as ${type}${must}${/html/.test(type) ? source(url) : ""}`,
        );
      if (url === script) policy = answer.headers.get("content-security-policy") ?? "";
    }
    if (!ran) {
      const again = startWorker(script);
      await new Promise((resolve) => {
        again.addEventListener("error", () => setTimeout(resolve, 50));
        again.addEventListener("message", resolve);
        document?.addEventListener("securitypolicyviolation", resolve, { once: true });
        setTimeout(resolve, 1000);
      });
      again.terminate();
      return (
        refused(script) ??
        told(
          "policy",
          `The browser does not start the worker ${script}, though it is served: check worker-src of the page's ` +
            "Content-Security-Policy, and that a page with Cross-Origin-Embedder-Policy serves it with the same header",
        )
      );
    }
    if (
      /unsafe-eval|Content.Security|CSP/i.test(sentence) ||
      (policy && !/unsafe-eval/.test(policy))
    )
      return told(
        "policy",
        `The Content-Security-Policy of the worker ${script} forbids WebAssembly: script-src must have 'wasm-unsafe-eval'`,
      );
    return undefined;
  } catch (error) {
    return error instanceof DetokError ? error : undefined;
  } finally {
    document?.removeEventListener("securitypolicyviolation", note);
  }
}

/** @param {"network" | "policy"} kind @param {string} sentence */
const told = (kind, sentence) =>
  new DetokError(`Python could not be loaded: ${sentence}.`, { kind, retry: kind === "network" });
