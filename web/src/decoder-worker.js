/**
 * The library's worker: one Python for many streams, and their sockets.
 *
 * Answers the calls of decoder.js; posts the notes `progress` and `batch`. What frames and options
 * mean is decided in Python (detok_py/page/streams.py).
 */

import { bootPython } from "./boot-micropython.js";
import { answerCalls, holdWhileAlive, postNote } from "./messages.js";
import { EngineSocket } from "./socket.js";

/** @typedef {import("./boot-micropython.js").Python} Python */

const scope = /** @type {import("./messages.js").Port} */ (/** @type {unknown} */ (globalThis));

/** @type {Promise<Python> | undefined} */
let booted;
/** @type {Python} */
let python;
/** @type {Map<number, EngineSocket>} */
const sockets = new Map();

/**
 * Call a function of detok_py/page/streams.py. A Python exception concerns one stream. Anything
 * else (no memory, a trap) is the end of Python: it is thrown again where nothing catches it, so
 * that the page gets this worker's `error` event and replaces the worker.
 * @param {string} name @param {unknown[]} args
 */
function ask(name, ...args) {
  try {
    return python.streams[name](...args);
  } catch (error) {
    if (/** @type {Error} */ (error).name !== "PythonError")
      setTimeout(() => {
        throw error;
      });
    throw error;
  }
}

answerCalls(scope, {
  /** @param {{runtime: string, booter?: string, runtimeUrl: string, lock: string, [option: string]: any}} options */
  async boot({ runtime, booter, runtimeUrl, lock, ...options }) {
    const began = performance.now();
    const boot = booter
      ? import(/* webpackIgnore: true */ /* @vite-ignore */ booter)
      : Promise.resolve({ bootPython });
    boot.catch(() => {}); // awaited below
    await holdWhileAlive(lock);
    booted ??= boot.then(({ bootPython }) =>
      bootPython(
        runtimeUrl,
        (/** @type {unknown} */ progress) => postNote(scope, "progress", progress),
        options,
      ),
    );
    python = await booted;
    const read = /** @type {PerformanceResourceTiming[]} */ (
      performance.getEntriesByType("resource")
    );
    return {
      runtime,
      ...JSON.parse(python.streams.about()),
      kept: python.kept,
      milliseconds: performance.now() - began,
      bytes: read.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0),
      transferred: read.reduce((sum, { transferSize }) => sum + transferSize, 0),
    };
  },

  /** Call a function of detok_py/page/streams.py. @param {string} name @param {unknown[]} args */
  ask: (name, ...args) =>
    JSON.parse(
      ask(name, ...args.map((arg) => (arg instanceof Uint8Array ? python.fill(arg) : arg))),
    ),
  /** @param {string} name @param {Blob} file */
  packTokenizer: (name, file) => python.pack?.(name.replace(/[^\w.-]/g, "_"), file),

  /** @param {number} stream @param {string} url @param {string} request  JSON. @param {string} [token] */
  connect(stream, url, request, token) {
    ask("open_answer", stream, request);
    const socket = new EngineSocket(
      url,
      (method, ...args) => {
        try {
          return ask("ask_answer", stream, method, ...args);
        } catch (error) {
          const lines = String(/** @type {Error} */ (error).message)
            .trim()
            .split("\n");
          const failed = { code: 1011, message: lines.at(-1), retry: false };
          return JSON.stringify({ events: [{ type: "failed", ...failed, deltas: [] }] });
        }
      },
      (bytes) => python.fill(bytes),
      (batch, over) => {
        if (over) {
          sockets.delete(stream);
          ask("release", stream);
        }
        postNote(scope, "batch", { stream, ...batch });
      },
      token,
    );
    sockets.set(stream, socket);
    socket.connect();
  },
  /** @param {number} stream @param {string} method @param {unknown[]} args */
  tell: (stream, method, ...args) => sockets.get(stream)?.tell(method, ...args),
  /** Forget a stream; its engine is stopped. @param {number} stream */
  release(stream) {
    sockets.get(stream)?.giveUp();
    if (python) ask("release", stream);
  },
});
