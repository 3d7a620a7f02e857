/**
 * The page's side of the library's worker: boot it when it is first needed, replace it when it has died, let go of what nobody reads.
 *
 * One worker serves any number of streams. When it dies, everything that waits for it rejects, every stream of it ends with an error,
 * and the next stream gets a new worker: nothing waits for ever.
 */

import { makeCalls, whenGone } from "./messages.js";

/**
 * @typedef {object} RuntimeOptions
 * @property {"micropython" | "pyodide"} [runtime]  Which Python decodes; MicroPython unless said otherwise. MicroPython is 0.3 MB, Pyodide 4 MB; they decode alike.
 * @property {string | URL} [runtimeUrl]  The folder of the runtime's files. Default: `../runtime/` beside this module.
 * @property {string | false} [cache]  Name of the cache in Cache Storage where Pyodide's memory is kept for the next visit (12 MB), or false. Default "detok".
 * @property {number} [timeout]  Milliseconds without progress after which booting is given up. Default 30000.
 *
 * @typedef {import("./messages.js").Progress} Progress
 * @typedef {{runtime: string, python: string, detok: string}} RuntimeInfo
 *
 * @typedef {object} Listener  What a worker tells a stream.
 * @property {(batch: any) => void} take
 * @property {(error: DetokError) => void} fail
 */

/** What this library says when something went wrong: one sentence, and a close code of detok.v1 where there is one. */
export class DetokError extends Error {
  /**
   * @param {string} message
   * @param {{code?: number, retry?: boolean, cause?: unknown}} [options]
   */
  constructor(message, { code, retry = false, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "DetokError";
    this.code = code;
    this.retry = retry;
  }
}

/** What relative addresses are relative to. */
export const base = () => globalThis.document?.baseURI ?? globalThis.location?.href;

/** @param {unknown} error @returns {DetokError} */
export function asDetokError(error) {
  if (error instanceof DetokError) return error;
  const message = error instanceof Error ? error.message : String(error);
  // Of a Python traceback the last line says what happened.
  const said = message.trim().split("\n").map((line) => line.trim()).filter(Boolean).at(-1) ?? "It failed without a word.";
  return new DetokError(said.replace(/^[\w.]*Error: /, ""), { cause: error });
}

/** @type {{createScriptURL(url: string): unknown} | undefined} */
let policy;

/** @returns {Worker} */
function startWorker() {
  // Bundlers find a file by this form, and move it: the packaged worker is one file that works wherever it lies.
  const url = new URL("./decoder-worker.js", import.meta.url);
  const { trustedTypes } = /** @type {any} */ (globalThis);
  policy ??= trustedTypes?.createPolicy("detok-library", { createScriptURL: (/** @type {string} */ url) => url });
  try {
    return new Worker(/** @type {any} */ (policy?.createScriptURL(url.href) ?? url), { type: "module", name: "detok" });
  } catch (error) {
    throw asDetokError(error); // a sandboxed frame, say
  }
}

/** MicroPython's files beside this module, each written out for the same reason. */
const ownFiles = () => ({
  "micropython.mjs": new URL("../runtime/micropython.mjs", import.meta.url).href,
  "micropython.wasm": new URL("../runtime/micropython.wasm", import.meta.url).href,
  "detok_micropython.bin": new URL("../runtime/detok_micropython.bin", import.meta.url).href,
});

/** A worker with Python in it. */
export class DecoderWorker {
  /** @param {RuntimeOptions} options */
  constructor({ runtime = "micropython", runtimeUrl, cache = "detok", timeout = 30_000 } = {}) {
    if (typeof Worker === "undefined") throw new DetokError("detok decodes in a Worker, and there is none here: call it in a browser.");
    const files = runtimeUrl === undefined ? ownFiles() : undefined;
    const folder = files ? new URL("./", files["micropython.mjs"]) : new URL(String(runtimeUrl).replace(/\/*$/, "/"), base());
    this.runtime = runtime;
    /** @type {Map<number, WeakRef<Listener>>} */
    this.streams = new Map();
    /** @type {Map<string, Promise<unknown>>} Vocabularies that this worker has, by SHA-256. */
    this.vocabularies = new Map();
    /** @type {Set<(progress: Progress) => void>} */
    this.watchers = new Set();
    /** @type {DetokError | undefined} */
    this.dead = undefined;
    this.worker = startWorker();
    const lock = `detok ${Math.random()}`;
    let noted = false;
    let step = "starting the worker";
    /** @type {ReturnType<typeof setTimeout>} */
    let timer;
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.die(new DetokError(
        `Python could not be loaded: nothing came for ${timeout / 1000} s at “${step}”. Check that ${folder} is served and that the page's ` +
        "Content-Security-Policy allows 'wasm-unsafe-eval'.", { retry: true })), timeout);
    };
    this.calls = makeCalls(this.worker, (name, value) => {
      if (name === "batch") this.streams.get(value.stream)?.deref()?.take(value);
      else {
        if (!noted) whenGone(lock, () => this.die(new DetokError("The decoding worker is gone.", { retry: true })));
        noted = true;
        step = value.step;
        if (!this.booted) wait();
        for (const watch of this.watchers) watch(value);
      }
    });
    this.booted = false;
    this.worker.addEventListener("error", (event) => this.die(new DetokError(`The decoding worker stopped${event.message ? `: ${event.message}` : ""}.`, { retry: true })));
    this.worker.addEventListener("messageerror", () => this.die(new DetokError("The decoding worker sent what cannot be read.", { retry: true })));
    wait();
    /** @type {Promise<RuntimeInfo>} */
    this.ready = this.calls.call("boot", { runtime, runtimeUrl: folder.href, files, cache, lock }).then(
      (info) => {
        this.booted = true;
        clearTimeout(timer);
        return info;
      },
      (error) => {
        clearTimeout(timer);
        const failure = this.dead ?? new DetokError(`Python could not be loaded: ${asDetokError(error).message}`, { cause: error, retry: true });
        this.die(failure);
        throw failure;
      },
    );
    // Whoever wants to know awaits it; nobody has to.
    this.ready.catch(() => {});
  }

  /**
   * Call the worker once it is ready.
   * @param {string} name
   * @param {unknown[]} args
   */
  async call(name, ...args) {
    await this.ready;
    try {
      return await this.calls.call(name, ...args);
    } catch (error) {
      throw asDetokError(error);
    }
  }

  /** @param {import("./vocabulary.js").Vocabulary | undefined} vocabulary */
  async keep(vocabulary) {
    if (!vocabulary) return;
    let kept = this.vocabularies.get(vocabulary.sha256);
    if (!kept) {
      kept = this.call("keepVocabulary", vocabulary.bytes);
      this.vocabularies.set(vocabulary.sha256, kept);
    }
    await kept;
  }

  /**
   * Give a stream its number. It is let go of when `listener` is garbage.
   * @param {Listener} listener
   */
  add(listener) {
    if (this.dead) throw this.dead;
    const stream = ++lastStream;
    this.streams.set(stream, new WeakRef(listener));
    dropped?.register(listener, { worker: this, stream }, listener);
    return stream;
  }

  /** @param {number} stream @param {Listener} listener */
  remove(stream, listener) {
    dropped?.unregister(listener);
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
    const streams = [...this.streams.values()];
    this.streams.clear();
    for (const stream of streams) stream.deref()?.fail(error);
  }
}

let lastStream = 0;

/** @type {FinalizationRegistry<{worker: DecoderWorker, stream: number}> | undefined} */
const dropped = typeof FinalizationRegistry === "undefined" ? undefined : new FinalizationRegistry(({ worker, stream }) => worker.forget(stream));

/** The workers that streams share, by runtime. @type {Map<string, DecoderWorker>} */
const shared = new Map();

/**
 * The worker that streams with these options share; a new one where there is none yet, or where the last one died.
 * @param {RuntimeOptions} [options]
 */
export function decoderWorker(options = {}) {
  const key = `${options.runtime ?? "micropython"} ${options.runtimeUrl ?? ""}`;
  let worker = shared.get(key);
  if (!worker || worker.dead) shared.set(key, (worker = new DecoderWorker(options)));
  return worker;
}

/**
 * Boot the runtime before the first stream needs it. Resolves when it is ready; rejects with a DetokError that says what is wrong.
 * @param {RuntimeOptions & {onProgress?: (progress: Progress) => void}} [options]
 * @returns {Promise<RuntimeInfo>}
 */
export async function warmUp({ onProgress, ...options } = {}) {
  const worker = decoderWorker(options);
  if (onProgress) worker.watchers.add(onProgress);
  try {
    return await worker.ready;
  } finally {
    if (onProgress) worker.watchers.delete(onProgress);
  }
}

/**
 * End the shared workers. Streams that are still open fail; a later stream starts a new worker.
 */
export function shutDown() {
  for (const worker of shared.values()) worker.die(new DetokError("The decoding worker was shut down."));
  shared.clear();
}
