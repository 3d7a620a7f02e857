/**
 * host.js for the single file. The worker is a Blob that contains MicroPython, so nothing is
 * loaded, and the file may come from another origin than the page.
 */

import { script } from "detok:worker";
import { DetokError, asDetokError } from "../src/errors.js";
import { makeCalls, whenGone } from "../src/messages.js";
import { startWorker } from "../src/worker-start.js";

/** The base of relative addresses. */
export const base = () => globalThis.document?.baseURI ?? globalThis.location?.href;

/** socket.js has no URL here: the worker contains it. */
export const socketUrl = () => "";

/** The URL of the worker's Blob. @type {string | undefined} */
let url;

/**
 * Start a worker, and boot Python in it.
 * @param {import("../src/decoder.js").DecoderWorker} decoder  Receives batches and progress.
 * @param {import("../src/decoder.js").RuntimeOptions} options
 * @returns {[worker: Worker, calls: import("../src/messages.js").Calls,
 *   ready: Promise<import("../src/decoder.js").RuntimeInfo>]}
 */
export function start(decoder, { runtime = "micropython", runtimeUrl, timeout = 30_000 }) {
  if (runtime !== "micropython" || runtimeUrl !== undefined)
    throw new DetokError(
      "The single file has MicroPython inside and takes no other runtime: take the package detok-web for " +
        "Pyodide, and pack tokenizer files with `detok pack`.",
      { kind: "option" },
    );
  const lock = `detok ${Math.random()}`;
  let noted = false;
  let refused = "";
  const { document } = globalThis;
  const note = (/** @type {SecurityPolicyViolationEvent} */ { effectiveDirective }) =>
    (refused = effectiveDirective);
  document?.addEventListener("securitypolicyviolation", note);
  /**
   * @param {string} sentence
   * @param {unknown} [cause]
   * @param {import("../src/errors.js").ErrorKind} [kind]
   */
  const fail = (sentence, cause, kind = "runtime") =>
    decoder.die(new DetokError(sentence, { kind, retry: kind === "runtime", cause }));
  url ??= URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const worker = startWorker(url);
  const calls = makeCalls(worker, (name, value) => {
    if (name === "batch") return decoder.streams.get(value.stream)?.deref()?.take(value);
    if (!noted) whenGone(lock, () => fail("The decoding worker is gone."));
    noted = true;
    for (const watch of decoder.watchers) watch(value);
  });
  worker.addEventListener("error", async ({ message }) => {
    if (decoder.booted) return fail(`The decoding worker stopped${message ? `: ${message}` : ""}.`);
    await new Promise((resolve) => setTimeout(resolve, 50)); // the event of a violation may come later
    fail(
      `Python could not be loaded: the worker of the single file does not start${message ? ` (${message})` : ""}; ` +
        `${refused || "worker-src"} of the page's Content-Security-Policy must allow blob:.`,
      undefined,
      "policy",
    );
  });
  const timer = setTimeout(
    () => fail(`Python could not be loaded: it did not start within ${timeout / 1000} s.`),
    timeout,
  );
  const ready = calls
    .call("boot", lock)
    .then(
      (info) => {
        decoder.booted = true;
        return info;
      },
      (error) => {
        const { message } = asDetokError(error);
        if (/unsafe-eval|Content.Security|CSP|wasm fetching/i.test(message))
          fail(
            "Python could not be loaded: the page's Content-Security-Policy forbids WebAssembly: script-src must have 'wasm-unsafe-eval'.",
            error,
            "policy",
          );
        else fail(`Python could not be loaded: ${message}`, error);
        throw decoder.dead;
      },
    )
    .finally(() => {
      clearTimeout(timer);
      document?.removeEventListener("securitypolicyviolation", note);
    });
  return [worker, calls, ready];
}
