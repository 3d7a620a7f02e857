/**
 * The client library's worker: one Python for many streams, and their sockets.
 *
 * Answers the calls of decoder.js; posts the notes `progress` and `batch`. What anything means is decided in Python (detok_embed.py).
 */

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
 * Call a function of detok_embed.py. An exception of Python's concerns one stream. Anything else (no memory, a trap) is the end of Python:
 * thrown where nobody catches it, it reaches the page as this worker's `error` event, and the page replaces the worker.
 * @param {string} name @param {unknown[]} args
 */
function ask(name, ...args) {
  try {
    return python.embed[name](...args);
  } catch (error) {
    if (/** @type {Error} */ (error).name !== "PythonError") setTimeout(() => { throw error; });
    throw error;
  }
}

/** The methods of a session that EngineSocket calls, for the stream of this number. @param {number} stream */
function sessionOf(stream) {
  /** @param {string} method */
  const asks = (method) => (/** @type {unknown[]} */ ...args) => {
    try {
      return ask("ask", stream, method, ...args);
    } catch (error) {
      const message = String(/** @type {Error} */ (error).message).trim().split("\n").at(-1);
      return JSON.stringify({ events: [{ type: "failed", code: 1011, message, retry: false, position: 0 }] });
    }
  };
  const methods = ["opened", "receive", "vocabulary", "no_vocabulary", "lost", "cancel", "give_up", "pause", "ping"];
  return { ...Object.fromEntries(methods.map((method) => [method, asks(method)])), destroy: () => ask("release", stream) };
}

answerCalls(scope, {
  /** @param {{runtime: string, runtimeUrl: string, files?: Record<string, string>, cache: string | false, lock: string}} options */
  async boot({ runtime, runtimeUrl, files, cache, lock }) {
    const boot = runtime === "pyodide" ? import("./boot-pyodide.js") : import("./boot-micropython.js");
    boot.catch(() => {}); // on its way while the lock is asked for, and heard below
    await holdWhileAlive(lock);
    booted ??= boot.then(({ bootPython }) => bootPython(runtimeUrl, (progress) => postNote(scope, "progress", progress), files, cache));
    python = await booted;
    return { runtime, ...JSON.parse(python.embed.about()) };
  },

  /** @param {Uint8Array} bytes */
  keepVocabulary: (bytes) => JSON.parse(ask("keep_vocabulary", python.fill(bytes))),
  /** @param {string} name @param {Blob} file */
  packTokenizer: (name, file) => /** @type {NonNullable<Python["pack"]>} */ (python.pack)(name.replace(/[^\w.-]/g, "_"), file),

  /** @param {number} stream @param {object} options */
  openText: (stream, options) => void ask("open_text", stream, JSON.stringify(options)),
  /** @param {number} stream @param {Uint8Array | number[]} data */
  feed: (stream, data) => JSON.parse(Array.isArray(data) ? ask("feed_ids", stream, JSON.stringify(data)) : ask("feed_bytes", stream, python.fill(data))),
  /** @param {number} stream */
  flush: (stream) => JSON.parse(ask("flush", stream)),
  openStreams: () => ask("open_streams"),

  /** @param {number} stream @param {string} url @param {object} request */
  connect(stream, url, request) {
    ask("open_answer", stream, JSON.stringify(request));
    const socket = new EngineSocket(url, sessionOf(stream), (bytes) => python.fill(bytes), (batch, over) => {
      if (over) sockets.delete(stream);
      postNote(scope, "batch", { stream, ...batch });
    });
    sockets.set(stream, socket);
    socket.connect();
  },
  /** @param {number} stream @param {boolean} paused */
  pause: (stream, paused) => sockets.get(stream)?.pause(paused),
  /** Forget a stream; its engine is stopped. @param {number} stream */
  release(stream) {
    sockets.get(stream)?.giveUp();
    if (python) ask("release", stream);
  },
});
