/**
 * The client library's worker: one Python for many streams, and their sockets.
 *
 * Answers the calls of decoder.js; posts the notes `progress` and `batch`. What anything means is decided in Python (detok_embed.py).
 */

import { answerCalls, postNote } from "./messages.js";
import { EngineSocket } from "./socket.js";

/** @typedef {import("./boot-micropython.js").Python} Python */

const scope = /** @type {import("./messages.js").Port} */ (/** @type {unknown} */ (globalThis));

/** @type {Promise<Python> | undefined} */
let booted;
/** @type {Python} */
let python;
/** @type {Map<number, EngineSocket>} */
const sockets = new Map();

/** The methods of a session that EngineSocket calls, for the stream of this number. @param {number} stream */
function sessionOf(stream) {
  /** @param {string} method */
  const asks = (method) => (/** @type {unknown[]} */ ...args) => python.embed.ask(stream, method, ...args);
  const methods = ["opened", "receive", "vocabulary", "no_vocabulary", "lost", "cancel", "give_up", "pause", "ping"];
  return { ...Object.fromEntries(methods.map((method) => [method, asks(method)])), destroy: () => python.embed.release(stream) };
}

answerCalls(scope, {
  /** @param {{runtime: string, runtimeUrl: string, files?: Record<string, string>}} options */
  async boot({ runtime, runtimeUrl, files }) {
    booted ??= (runtime === "pyodide" ? import("./boot-pyodide.js") : import("./boot-micropython.js")).then(({ bootPython }) =>
      bootPython(runtimeUrl, (progress) => postNote(scope, "progress", progress), files),
    );
    python = await booted;
    return { runtime, ...JSON.parse(python.embed.about()) };
  },

  /** @param {Uint8Array} bytes */
  keepVocabulary: (bytes) => JSON.parse(python.embed.keep_vocabulary(python.fill(bytes))),
  /** @param {string} name @param {Uint8Array} bytes */
  packTokenizer: (name, bytes) => /** @type {NonNullable<Python["pack"]>} */ (python.pack)(name, bytes),

  /** @param {number} stream @param {object} options */
  openText: (stream, options) => void python.embed.open_text(stream, JSON.stringify(options)),
  /** @param {number} stream @param {Uint8Array | number[]} data */
  feed: (stream, data) =>
    JSON.parse(Array.isArray(data) ? python.embed.feed_ids(stream, JSON.stringify(data)) : python.embed.feed_bytes(stream, python.fill(data))),
  /** @param {number} stream */
  flush: (stream) => JSON.parse(python.embed.flush(stream)),
  /** @param {number} stream */
  release: (stream) => void python.embed.release(stream),
  openStreams: () => python.embed.open_streams(),

  /** @param {number} stream @param {string} url @param {object} request */
  connect(stream, url, request) {
    python.embed.open_answer(stream, JSON.stringify(request));
    const socket = new EngineSocket(url, sessionOf(stream), (bytes) => python.fill(bytes), (batch, over) => {
      if (over) sockets.delete(stream);
      postNote(scope, "batch", { stream, ...batch });
    });
    sockets.set(stream, socket);
    socket.connect();
  },
  /** @param {number} stream */
  giveUp: (stream) => sockets.get(stream)?.giveUp(),
  /** @param {number} stream @param {boolean} paused */
  pause: (stream, paused) => sockets.get(stream)?.pause(paused),
});
