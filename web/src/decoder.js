/**
 * The page's side of the library's worker: boots it when it is first needed, replaces it when it has
 * died, and forgets answers that are no longer referenced.
 *
 * One worker serves any number of streams. When it dies, everything that waits for it rejects, every
 * answer of it ends with an error, and whoever needs Python next gets a new worker.
 */

import { makeCalls, whenGone } from "./messages.js";
import { checked } from "./options.js";

/**
 * @typedef {object} RuntimeOptions  Which Python decodes, and where its files are.
 * @property {"micropython" | "pyodide"} [runtime]  Which Python decodes. Default "micropython", which
 *   is 0.3 MB; Pyodide is 4 MB, in the package detok-web-pyodide. They decode alike.
 * @property {"core" | "micropip"} [install]  How Pyodide gets detok_py. Default "core": a standard
 *   library cut down to it. "micropip" installs the wheel in the runtime's folder, as a bridge has it.
 * @property {string | URL} [runtimeUrl]  The folder of the runtime's files. Default: `../runtime/`
 *   beside this module; for Pyodide, the folder of detok-web-pyodide beside that of detok-web.
 * @property {string | false} [cache]  The cache in Cache Storage where Pyodide's memory is kept for
 *   the next visit (12 MB), or false. Default "detok".
 * @property {number} [timeout]  Milliseconds without progress after which booting is given up.
 *   Default 30000.
 *
 * @typedef {import("./messages.js").Progress} Progress
 *
 * @typedef {object} RuntimeInfo  What booting gave, and what it cost.
 * @property {string} runtime  "micropython" or "pyodide".
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

/**
 * @typedef {"option" | "data" | "network" | "policy" | "runtime" | "bridge" | "server"} ErrorKind  An
 *   option is wrong; what is decoded is; a file or server cannot be reached; the page or a server forbids
 *   it; Python could not start, or is gone; the bridge says so; an HTTP server does.
 */

/** What went wrong: one sentence, its kind, and a close code of detok.v1 or an HTTP status if there is one. */
export class DetokError extends Error {
  /** @param {string} message @param {{code?: number, kind?: ErrorKind, retry?: boolean, cause?: unknown}} [options] */
  constructor(message, { code, kind, retry = false, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    /** A close code of detok.v1, or an HTTP status. */
    this.code = code;
    /** What kind of thing went wrong. @type {ErrorKind} */
    this.kind = kind ?? (code ? (code < 1000 ? "server" : "bridge") : "data");
    /** Whether asking again may help. */
    this.isRetryable = retry;
  }

  // On the prototype, so that stacks begin with it; a minifier renames the class.
  /** "DetokError". @override */
  get name() {
    return "DetokError";
  }

  /** @deprecated Use `isRetryable`. */
  get retry() {
    return this.isRetryable;
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

/** A file beside this module; some bundlers give the path only. @param {URL} url */
export const fileUrl = (url) => new URL(url.href, base()).href;

/** @param {string} url @returns {Worker} */
export function startWorker(url) {
  try {
    policy ??= /** @type {any} */ (globalThis).trustedTypes?.createPolicy("detok-library", {
      createScriptURL: (/** @type {string} */ url) => url,
    });
    return new Worker(/** @type {any} */ (policy?.createScriptURL(url) ?? url), {
      type: "module",
      name: "detok",
    });
  } catch (error) {
    // A sandboxed frame, or a policy for scripts that has no such name.
    const { message } = asDetokError(error);
    throw new DetokError(`The page does not let a worker start: ${message}`, {
      kind: "policy",
      cause: error,
    });
  }
}

/**
 * MicroPython's files beside this module, each written out so that bundlers find it.
 * @returns {Record<string, string>}
 */
const ownFiles = () => ({
  "micropython.mjs": fileUrl(new URL("../runtime/micropython.mjs", import.meta.url)),
  "micropython.wasm": fileUrl(new URL("../runtime/micropython.wasm", import.meta.url)),
  "detok_micropython.bin": fileUrl(new URL("../runtime/detok_micropython.bin", import.meta.url)),
});

/** A worker with Python in it. */
export class DecoderWorker {
  /** @param {RuntimeOptions} options */
  constructor(options = {}) {
    const { runtime = "micropython", install, runtimeUrl } = options;
    const { cache = "detok", timeout = 30_000 } = options;
    if (typeof Worker === "undefined")
      throw new DetokError("detok decodes in a Worker; there is none here. Call it in a browser.", {
        kind: "runtime",
      });
    const files = runtimeUrl === undefined ? ownFiles() : undefined;
    // Files of their own, which a page with the other runtime does not download.
    const booter =
      runtime === "pyodide" ? fileUrl(new URL("./boot-pyodide.js", import.meta.url)) : undefined;
    const installer =
      install === "micropip" ? fileUrl(new URL("./micropip.js", import.meta.url)) : undefined;
    const folder = files
      ? new URL("./", files["micropython.wasm"])
      : new URL(String(runtimeUrl).replace(/\/*$/, "/"), base());
    // Bundlers find a file by this form, and move it.
    const script = fileUrl(new URL("./decoder-worker.js", import.meta.url));
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
    this.worker = startWorker(script);
    const lock = `detok ${Math.random()}`;
    let noted = false;
    let step = "starting the worker";
    /** @type {ReturnType<typeof setTimeout>} */
    let timer;
    /** End the worker; one that has not booted yet once it is known why. @param {string} sentence @param {unknown} [cause] */
    const fail = async (sentence, cause) => {
      /** @type {DetokError | undefined} */
      let found;
      if (!this.booted && !this.dead) {
        found = await import("./why.js").then(
          ({ why }) => why(sentence, noted, script, folder, files, booter, installer),
          // That file cannot be reached either.
          ({ message }) =>
            new DetokError(`${sentence} ${message}`, { kind: "network", retry: true, cause }),
        );
      }
      this.die(found ?? new DetokError(sentence, { kind: "runtime", retry: true, cause }));
    };
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(
        () =>
          fail(`Python could not be loaded: nothing came for ${timeout / 1000} s at “${step}”.`),
        timeout,
      );
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
      fail(`The decoding worker ${script} stopped${message ? `: ${message}` : ""}.`),
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
        async (error) => {
          await fail(`Python could not be loaded: ${asDetokError(error).message}`, error);
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
  checked(options);
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
    worker.die(new DetokError("The decoding worker was shut down.", { kind: "runtime" }));
  shared.clear();
}
