/**
 * What the decoder needs from its host: the base of relative addresses, and a worker with Python.
 *
 * The package has two more forms of this file: web/hosts/server.js for Node, Deno and Bun, where
 * Python runs in the process, and web/hosts/single.js for the single file, which has the worker and
 * Python inside.
 */

import { DetokError, asDetokError } from "./errors.js";
import { makeCalls, whenGone } from "./messages.js";
import { startWorker } from "./worker-start.js";

/** The base of relative addresses. */
export const base = () => globalThis.document?.baseURI ?? globalThis.location?.href;

/** The absolute URL of a file; some bundlers leave only its path. @param {URL} url */
const fileUrl = (url) => new URL(url.href, base()).href;

/** Where socket.js is, which the worker loads for `connect`. */
export const socketUrl = () => fileUrl(new URL("./socket.js", import.meta.url));

/**
 * MicroPython's files; each URL is written out so that bundlers find it.
 * @returns {Record<string, string>}
 */
const ownFiles = () => ({
  "micropython.mjs": fileUrl(new URL("../runtime/micropython.mjs", import.meta.url)),
  "micropython.wasm": fileUrl(new URL("../runtime/micropython.wasm", import.meta.url)),
  "detok_micropython.bin": fileUrl(new URL("../runtime/detok_micropython.bin", import.meta.url)),
});

/**
 * Start a worker, and boot Python in it.
 * @param {import("./decoder.js").DecoderWorker} decoder  Receives batches and progress.
 * @param {import("./decoder.js").RuntimeOptions} options
 * @returns {[worker: {terminate(): void}, calls: import("./messages.js").Calls,
 *   ready: Promise<import("./decoder.js").RuntimeInfo>]}
 */
export function start(decoder, options) {
  const {
    runtime = "micropython",
    install,
    runtimeUrl,
    cache = "detok",
    timeout = 30_000,
  } = options;
  const files = runtimeUrl === undefined ? ownFiles() : undefined;
  // Separate files, so that a page with MicroPython does not download them.
  const booter =
    runtime === "pyodide" ? fileUrl(new URL("./boot-pyodide.js", import.meta.url)) : undefined;
  const installer =
    install === "micropip" ? fileUrl(new URL("./micropip.js", import.meta.url)) : undefined;
  const folder = files
    ? new URL("./", files["micropython.wasm"])
    : new URL(String(runtimeUrl).replace(/\/*$/, "/"), base());
  // Bundlers recognise this expression, and copy the file.
  const script = fileUrl(new URL("./decoder-worker.js", import.meta.url));
  const worker = startWorker(script);
  const lock = `detok ${Math.random()}`;
  let noted = false;
  let step = "starting the worker";
  /** @type {ReturnType<typeof setTimeout>} */
  let timer;
  /**
   * End the worker. If it has not booted, first find out why.
   * @param {string} sentence
   * @param {unknown} [cause]
   * @param {boolean} [late]  Whether it may still boot meanwhile.
   */
  const fail = async (sentence, cause, late) => {
    /** @type {DetokError | undefined} */
    let found;
    if (!decoder.booted && !decoder.dead) {
      found = await import("./why.js").then(
        ({ why }) => why(sentence, noted, script, folder, files, booter, installer),
        // why.js is not reachable either.
        ({ message }) =>
          new DetokError(`${sentence} ${message}`, { kind: "network", retry: true, cause }),
      );
    }
    if (late && decoder.booted) return;
    decoder.die(found ?? new DetokError(sentence, { kind: "runtime", retry: true, cause }));
  };
  const wait = () => {
    clearTimeout(timer);
    const late = () =>
      fail(
        `Python could not be loaded: nothing came for ${timeout / 1000} s at “${step}”.`,
        undefined,
        true,
      );
    timer = setTimeout(late, timeout);
  };
  const calls = makeCalls(worker, (name, value) => {
    if (name === "batch") return decoder.streams.get(value.stream)?.deref()?.take(value);
    if (!noted) whenGone(lock, () => fail("The decoding worker is gone."));
    noted = true;
    step = value.step;
    if (!decoder.booted) wait();
    for (const watch of decoder.watchers) watch(value);
  });
  const stopped = (/** @type {any} */ { message }) =>
    fail(`The decoding worker ${script} stopped${message ? `: ${message}` : ""}.`);
  worker.addEventListener("error", stopped);
  worker.addEventListener("messageerror", stopped); // a message that cannot be read
  wait();
  const ready = calls
    .call("boot", { runtime, booter, installer, runtimeUrl: folder.href, files, cache, lock })
    .then(
      (info) => {
        decoder.booted = true;
        return info;
      },
      async (error) => {
        await fail(`Python could not be loaded: ${asDetokError(error).message}`, error);
        throw decoder.dead;
      },
    )
    .finally(() => clearTimeout(timer));
  return [worker, calls, ready];
}
