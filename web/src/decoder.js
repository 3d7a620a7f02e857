/**
 * The page's side of the library's worker: boots it when it is first needed, replaces it when it has
 * died, and forgets answers that are no longer referenced.
 *
 * One worker serves any number of streams. When it dies, everything that waits for it rejects, every
 * answer of it ends with an error, and whoever needs Python next gets a new worker.
 */

import { makeCalls, whenGone } from "./messages.js";

/**
 * @typedef {object} RuntimeOptions
 * @property {"micropython" | "pyodide"} [runtime]  Which Python decodes. Default "micropython", which
 *   is 0.3 MB; Pyodide is 4 MB. They decode alike.
 * @property {"core" | "micropip"} [install]  How Pyodide gets detok_py. Default "core": a standard
 *   library cut down to it. "micropip" installs the wheel in the runtime's folder, as a bridge has it.
 * @property {string | URL} [runtimeUrl]  The folder of the runtime's files. Default: `../runtime/`
 *   beside this module.
 * @property {string | false} [cache]  The cache in Cache Storage where Pyodide's memory is kept for
 *   the next visit (12 MB), or false. Default "detok".
 * @property {number} [timeout]  Milliseconds without progress after which booting is given up.
 *   Default 30000.
 *
 * @typedef {import("./messages.js").Progress} Progress
 *
 * @typedef {object} RuntimeInfo
 * @property {string} runtime
 * @property {string} python   Its name and version.
 * @property {string} detok    The version of detok_py.
 * @property {boolean} kept    Whether Python began with the memory of an earlier visit.
 * @property {number} milliseconds  How long the worker took to boot.
 * @property {number} bytes    What it read for that, compressed, the browser's cache included.
 * @property {number} transferred  The part of it that came over the network, with its headers.
 *
 * @typedef {object} Listener  What a worker tells a stream.
 * @property {(batch: import("./socket.js").Batch) => void} take
 * @property {(error: DetokError) => void} fail
 */

/** What went wrong: one sentence, and a close code of detok.v1 if there is one. */
export class DetokError extends Error {
  /** @param {string} message @param {{code?: number, retry?: boolean, cause?: unknown}} [options] */
  constructor(message, { code, retry = false, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "DetokError";
    this.code = code;
    this.retry = retry;
  }
}

/** The base of relative addresses. */
export const base = () => globalThis.document?.baseURI ?? globalThis.location?.href;

/** @param {unknown} error @returns {DetokError} */
export function asDetokError(error) {
  if (error instanceof DetokError) return error;
  const message = error instanceof Error ? error.message : String(error);
  // The last line of a Python traceback says what happened.
  const said =
    message
      .trim()
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean)
      .at(-1) ?? "It failed without a message.";
  return new DetokError(said.replace(/^[\w.]*Error: /, ""), { cause: error });
}

/** @type {{createScriptURL(url: string): unknown} | undefined} */
let policy;

/** @returns {Worker} */
function startWorker() {
  // Bundlers find a file by this form, and move it.
  const url = new URL("./decoder-worker.js", import.meta.url);
  const { trustedTypes } = /** @type {any} */ (globalThis);
  policy ??= trustedTypes?.createPolicy("detok-library", {
    createScriptURL: (/** @type {string} */ url) => url,
  });
  try {
    return new Worker(/** @type {any} */ (policy?.createScriptURL(url.href) ?? url), {
      type: "module",
      name: "detok",
    });
  } catch (error) {
    throw asDetokError(error); // a sandboxed frame, say
  }
}

/** MicroPython's files beside this module, each written out so that bundlers find it. */
const ownFiles = () => ({
  "micropython.mjs": new URL("../runtime/micropython.mjs", import.meta.url).href,
  "micropython.wasm": new URL("../runtime/micropython.wasm", import.meta.url).href,
  "detok_micropython.bin": new URL("../runtime/detok_micropython.bin", import.meta.url).href,
});

/** A worker with Python in it. */
export class DecoderWorker {
  /** @param {RuntimeOptions} options */
  constructor(options = {}) {
    const { runtime = "micropython", install, runtimeUrl } = options;
    const { cache = "detok", timeout = 30_000 } = options;
    if (typeof Worker === "undefined")
      throw new DetokError("detok decodes in a Worker; there is none here. Call it in a browser.");
    const files = runtimeUrl === undefined ? ownFiles() : undefined;
    // Files of their own, which a page with the other runtime does not download.
    const booter =
      runtime === "pyodide" ? new URL("./boot-pyodide.js", import.meta.url).href : undefined;
    const installer =
      install === "micropip" ? new URL("./micropip.js", import.meta.url).href : undefined;
    const folder = files
      ? new URL("./", files["micropython.mjs"])
      : new URL(String(runtimeUrl).replace(/\/*$/, "/"), base());
    /** @type {Map<number, WeakRef<Listener>>} */
    this.streams = new Map();
    /** @type {Map<string, Promise<unknown>>} Vocabularies that this worker has, by SHA-256. */
    this.vocabularies = new Map();
    /** @type {Set<(progress: Progress) => void>} */
    this.watchers = new Set();
    /** @type {Set<(error: DetokError) => void>} */
    this.goneListeners = new Set();
    /** @type {DetokError | undefined} */
    this.dead = undefined;
    this.worker = startWorker();
    const lock = `detok ${Math.random()}`;
    let noted = false;
    let step = "starting the worker";
    /** @type {ReturnType<typeof setTimeout>} */
    let timer;
    const fail = (/** @type {string} */ sentence, /** @type {unknown} */ cause = undefined) =>
      this.die(new DetokError(sentence, { retry: true, cause }));
    const wait = () => {
      clearTimeout(timer);
      const seconds = timeout / 1000;
      const sentence = () =>
        `Python could not be loaded: nothing came for ${seconds} s at “${step}”. Check that ${folder}` +
        " is served and that the page's Content-Security-Policy allows 'wasm-unsafe-eval'.";
      timer = setTimeout(() => fail(sentence()), timeout);
    };
    this.calls = makeCalls(this.worker, (name, value) => {
      if (name === "batch") return this.streams.get(value.stream)?.deref()?.take(value);
      if (!noted) whenGone(lock, () => fail("The decoding worker is gone."));
      noted = true;
      step = value.step;
      if (!this.booted) wait();
      for (const watch of this.watchers) watch(value);
    });
    this.booted = false;
    this.worker.addEventListener("error", ({ message }) =>
      fail(`The decoding worker stopped${message ? `: ${message}` : ""}.`),
    );
    this.worker.addEventListener("messageerror", () =>
      fail("The decoding worker sent a message that cannot be read."),
    );
    wait();
    /** @type {Promise<RuntimeInfo>} */
    this.ready = this.calls
      .call("boot", { runtime, booter, installer, runtimeUrl: folder.href, files, cache, lock })
      .then(
        (info) => {
          this.booted = true;
          return info;
        },
        (error) => {
          fail(`Python could not be loaded: ${asDetokError(error).message}`, error);
          throw this.dead;
        },
      )
      .finally(() => clearTimeout(timer));
    this.ready.catch(() => {}); // avoids an unhandled rejection
  }

  /** Call the worker once it is ready. @param {string} name @param {unknown[]} args */
  async call(name, ...args) {
    await this.ready;
    try {
      return await this.calls.call(name, ...args);
    } catch (error) {
      throw asDetokError(error);
    }
  }

  /** Call a function of detok_py/page/streams.py. @param {string} name @param {unknown[]} args */
  ask(name, ...args) {
    return this.call("ask", name, ...args);
  }

  /** @param {import("./vocabulary.js").Vocabulary | undefined} vocabulary */
  async keep(vocabulary) {
    if (!vocabulary) return;
    let kept = this.vocabularies.get(vocabulary.sha256);
    if (!kept) {
      kept = this.ask("keep_vocabulary", vocabulary.bytes);
      this.vocabularies.set(vocabulary.sha256, kept);
    }
    await kept;
  }

  /** Give a stream its number. It is forgotten when `listener` is garbage. @param {Listener} listener */
  add(listener) {
    if (this.dead) throw this.dead;
    const stream = ++lastStream;
    this.streams.set(stream, new WeakRef(listener));
    dropped.register(listener, { worker: this, stream }, listener);
    return stream;
  }

  /** @param {number} stream @param {Listener} listener */
  remove(stream, listener) {
    dropped.unregister(listener);
    this.forget(stream);
  }

  /** @param {number} stream */
  forget(stream) {
    if (!this.streams.delete(stream) || this.dead) return;
    this.calls.call("release", stream).catch(() => {});
  }

  /** End the worker and everything that waits for it. @param {DetokError} error */
  die(error) {
    if (this.dead) return;
    this.dead = error;
    this.worker.terminate();
    this.calls.end(error);
    for (const listener of this.goneListeners) listener(error);
    const streams = [...this.streams.values()];
    this.streams.clear();
    for (const stream of streams) stream.deref()?.fail(error);
  }
}

let lastStream = 0;

/** @type {FinalizationRegistry<{worker: DecoderWorker, stream: number}>} */
const dropped = new FinalizationRegistry(({ worker, stream }) => worker.forget(stream));

/** The workers that streams share, by runtime. @type {Map<string, DecoderWorker>} */
const shared = new Map();

/** The worker that streams with these options share, new if the last one died. @param {RuntimeOptions} [options] */
export function decoderWorker(options = {}) {
  const { runtime = "micropython", install = "core", runtimeUrl = "" } = options;
  const key = `${runtime} ${runtime === "pyodide" && install} ${runtimeUrl}`;
  let worker = shared.get(key);
  if (!worker || worker.dead) shared.set(key, (worker = new DecoderWorker(options)));
  return worker;
}

/**
 * Boot the runtime before the first stream needs it. Rejects with a DetokError that says what is
 * wrong. `onGone` is called once if the worker ends later, before its streams fail.
 * @param {RuntimeOptions & {onProgress?: (progress: Progress) => void,
 *   onGone?: (error: DetokError) => void}} [options]
 * @returns {Promise<RuntimeInfo>}
 */
export async function warmUp({ onProgress, onGone, ...options } = {}) {
  const worker = decoderWorker(options);
  if (onProgress) worker.watchers.add(onProgress);
  try {
    const info = await worker.ready;
    if (onGone) worker.goneListeners.add(onGone);
    return info;
  } finally {
    if (onProgress) worker.watchers.delete(onProgress);
  }
}

/** End the shared workers. Streams that are still open fail; a later stream starts a new worker. */
export function shutDown() {
  for (const worker of shared.values())
    worker.die(new DetokError("The decoding worker was shut down."));
  shared.clear();
}
