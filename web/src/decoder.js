/**
 * The page's side of the library's worker: boots it (host.js) when it is first needed, and replaces
 * it when it has died.
 *
 * One worker serves any number of streams. When it dies, its calls reject, its answers end with an
 * error, and the next call of Python gets a new worker.
 */

import { DetokError, asDetokError } from "./errors.js";
import { start } from "./host.js";
import { checked } from "./options.js";

export { DetokError, asDetokError } from "./errors.js";
export { base, socketUrl } from "./host.js";

/**
 * @typedef {object} RuntimeOptions  Which Python decodes, and where its files are.
 * @property {"micropython" | "pyodide"} [runtime]  Which Python decodes. Default "micropython",
 *   which is 0.3 MB; Pyodide is 4 MB, in the package detok-web-pyodide. They decode alike.
 * @property {"core" | "micropip"} [install]  How Pyodide gets detok_py. Default "core": a standard
 *   library cut down to it. "micropip" installs the wheel in the runtime's folder, as a bridge has
 *   it.
 * @property {string | URL} [runtimeUrl]  The folder of the runtime's files. Default: `../runtime/`
 *   beside this module; for Pyodide, the folder of detok-web-pyodide beside that of detok-web.
 * @property {string | false} [cache]  The cache in Cache Storage where Pyodide's memory is kept for
 *   the next visit (12 MB), or false. Default "detok".
 * @property {number} [timeout]  Milliseconds without progress after which booting is given up.
 *   Default 30000; Infinity waits for 25 days.
 *
 * @typedef {import("./messages.js").Progress} Progress
 *
 * @typedef {object} RuntimeInfo  The Python that was started, and what that cost.
 * @property {string} runtime  "micropython" or "pyodide".
 * @property {string} python   Its name and version.
 * @property {string} detok    The version of detok_py.
 * @property {boolean} kept    Whether Python began with the memory of an earlier visit.
 * @property {number} milliseconds  How long the worker took to boot.
 * @property {number} bytes    What it read for that, compressed, the browser's cache included.
 * @property {number} transferred  The part of it that came over the network, with its headers.
 *
 * @typedef {object} Listener  The calls of a worker to a stream.
 * @property {(batch: import("./socket.js").Batch) => void} take
 * @property {(error: DetokError) => void} fail
 */

/** A worker with Python in it. */
export class DecoderWorker {
  /** The open answers (link.js). @type {Map<number, WeakRef<Listener>>} */
  streams = new Map();
  /** Vocabularies that this worker has, by SHA-256. @type {Map<string, Promise<unknown>>} */
  vocabularies = new Map();
  /** @type {Set<(progress: Progress) => void>} */
  watchers = new Set();
  /** @type {Set<(error: DetokError) => void>} */
  goneListeners = new Set();
  /** @type {DetokError | undefined} */
  dead;
  booted = false;

  /** @param {RuntimeOptions} options */
  constructor(options) {
    const [worker, calls, ready] = start(this, options);
    this.worker = worker;
    this.calls = calls;
    this.ready = ready;
    this.ready.catch(() => {}); // avoids an unhandled rejection
  }

  /** Call the worker once it is ready. @param {string} name @param {unknown[]} args */
  async call(name, ...args) {
    await this.ready;
    return this.calls.call(name, ...args).catch((error) => {
      throw asDetokError(error);
    });
  }

  /** Call a function of detok_py/page/streams.py. @param {string} name @param {unknown[]} args */
  ask(name, ...args) {
    return this.call("ask", name, ...args);
  }

  /** @param {import("./vocabulary.js").Vocabulary | undefined} vocabulary */
  async keep(vocabulary) {
    if (!vocabulary) return;
    const { sha256, bytes } = vocabulary;
    let kept = this.vocabularies.get(sha256);
    if (!kept) this.vocabularies.set(sha256, (kept = this.ask("keep_vocabulary", bytes)));
    await kept;
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

/** The workers that streams share, by runtime. @type {Map<string, DecoderWorker>} */
const shared = new Map();

/**
 * The worker that streams with these options share, new if the last one died.
 * @param {RuntimeOptions} [options]
 */
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
export async function warmUp(options = {}) {
  const { onProgress = () => {}, onGone, ...runtime } = checked(options);
  const worker = decoderWorker(runtime);
  worker.watchers.add(onProgress);
  try {
    const info = await worker.ready;
    if (onGone) worker.goneListeners.add(onGone);
    return info;
  } finally {
    worker.watchers.delete(onProgress);
  }
}

/** End the shared workers. Streams that are still open fail; a later stream starts a new worker. */
export function shutDown() {
  for (const worker of shared.values())
    worker.die(new DetokError("The decoding worker was shut down.", { kind: "runtime" }));
  shared.clear();
}
