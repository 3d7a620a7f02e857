/**
 * The worker: owns Python and the sockets. JavaScript moves frames; what they mean is decided by detok_py/browser.py.
 *
 * Answers the calls of web/src/client.js: `boot`, `open`, `cancel`, `giveUp`, `pause`, `captureRows`, `captureText`. Posts the notes `progress` and `batch`.
 */

import { answerCalls, holdWhileAlive, postNote } from "./messages.js";
import { bootPython } from "./runtime.js";
import { EngineSocket } from "./socket.js";

/** @typedef {import("./messages.js").Port} Port */

const scope = /** @type {Port} */ (/** @type {unknown} */ (globalThis));

/** @type {Promise<{python: any, browser: any}> | undefined} */
let booted;

/** @type {Map<number, EngineSocket>} */
const sockets = new Map();

/** @param {number} stream */
function socketOf(stream) {
  const socket = sockets.get(stream);
  if (!socket) throw new Error("This stream is over.");
  return socket;
}

/** @type {{proxy: any, buffer: any} | undefined} The inbox of detok_py/browser.py, and a view of its memory. */
let inbox;

/**
 * Copy `bytes` into Python's inbox and return their count. The view is kept from call to call; it has to be asked for again
 * when the heap has grown (which detaches every view of it: length 0) or when the inbox is too small.
 * @param {any} browser
 * @param {Uint8Array} bytes
 */
function fillInbox(browser, bytes) {
  if (!inbox || inbox.buffer.data.length < bytes.length) {
    inbox?.buffer.release();
    inbox?.proxy.destroy();
    const proxy = browser.inbox(bytes.length);
    inbox = { proxy, buffer: proxy.getBuffer("u8") };
  }
  inbox.buffer.data.set(bytes);
  return bytes.length;
}

answerCalls(scope, {
  /** @param {{runtimeUrl: string, lock: string}} options */
  async boot({ runtimeUrl, lock }) {
    await holdWhileAlive(lock);
    booted ??= bootPython(runtimeUrl, (progress) => postNote(scope, "progress", progress)).then((python) => ({
      python,
      browser: python.pyimport("detok_py.browser"),
    }));
    const { python, browser } = await booted;
    return { python: python.version, detok: python.runPython("import detok_py; detok_py.__version__"), functions: Boolean(browser) };
  },

  /**
   * Open a stream: from here on its batches come as notes.
   * @param {number} stream
   * @param {string} url
   * @param {object} request
   */
  async open(stream, url, request) {
    if (!booted) throw new Error("Python is not running in this worker yet: call boot first.");
    const { browser } = await booted;
    const session = browser.PageStream(JSON.stringify(request));
    const socket = new EngineSocket(url, session, (bytes) => fillInbox(browser, bytes), (batch, over) => {
      if (over) sockets.delete(stream);
      postNote(scope, "batch", { stream, ...batch });
    });
    sockets.set(stream, socket);
    socket.connect();
  },

  /** @param {number} stream */
  cancel: (stream) => sockets.get(stream)?.cancel(),
  /** @param {number} stream */
  giveUp: (stream) => sockets.get(stream)?.giveUp(),
  /**
   * Decode a recorded stream again. Its vocabulary is asked of the bridge where it isn't known yet; without it the tokens' own bytes do.
   * @param {string} text
   * @param {string} vocabularies  URL of the bridge's vocabularies, ending in "/".
   */
  async captureRows(text, vocabularies) {
    if (!booted) throw new Error("Python is not running in this worker yet: call boot first.");
    const { browser } = await booted;
    const sha256 = browser.capture_vocabulary(text);
    if (sha256) {
      const response = await fetch(new URL(`${encodeURIComponent(sha256)}.detok`, vocabularies)).catch(() => undefined);
      if (response?.ok) {
        const data = new Uint8Array(await response.arrayBuffer());
        browser.keep_captured_vocabulary(fillInbox(browser, data), sha256);
      }
    }
    return JSON.parse(browser.capture_rows(text));
  },
  /** @param {object} recording */
  async captureText(recording) {
    if (!booted) throw new Error("Python is not running in this worker yet: call boot first.");
    return (await booted).browser.capture_text(JSON.stringify(recording));
  },

  /** @param {number} stream @param {boolean} paused */
  pause: (stream, paused) => socketOf(stream).pause(paused),
});
