/**
 * One stream's socket: opens it, opens it again where Python says so, and passes frames both ways.
 *
 * Frames that arrive within one task of the browser go to Python in one call; what Python answers is done in order: send,
 * close, fetch a vocabulary, connect again. Every batch of events is handed on with the time at which its first frame arrived.
 */

/**
 * @typedef {object} Batch
 * @property {number} at       When its first frame arrived: milliseconds since 1970, with fractions.
 * @property {any[]} events    As detok_py/browser.py gives them.
 * @property {{seconds: number, code: number}} [retry]  The socket was lost with this code and is opened again after so long.
 *
 * @typedef {object} Outcome
 * @property {any[]} events
 * @property {string[]} [send]
 * @property {[number, string]} [close]
 * @property {{url: string, sha256: string, size: number}} [fetch]
 * @property {number} [retry]
 */

const SUBPROTOCOL = "detok.v1";
/** Without a frame for so long the bridge is asked for a sign of life; without one for twice as long the socket is dead. */
const QUIET_MS = 20_000;

const encoder = new TextEncoder();

/** Milliseconds since 1970, with the same zero in a page and its workers. */
export function epochNow() {
  return performance.timeOrigin + performance.now();
}

/**
 * Run `task` in a task of its own, after the messages that wait already, and sooner than a timer would.
 * @param {() => void} task
 */
function makeSoon(task) {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = task;
  return () => port2.postMessage(null);
}

/** A stream's way to the bridge. */
export class EngineSocket {
  /**
   * @param {string} url
   * @param {any} session   A `PageStream` of detok_py/browser.py. Destroyed when the stream is over.
   * @param {(bytes: Uint8Array) => number} fillInbox
   * @param {(batch: Batch, over: boolean) => void} onBatch
   */
  constructor(url, session, fillInbox, onBatch) {
    this.url = url;
    this.session = session;
    this.fillInbox = fillInbox;
    this.onBatch = onBatch;
    /** @type {(string | ArrayBuffer)[]} */
    this.frames = [];
    this.arrived = 0;
    this.over = false;
    /** @type {WebSocket | undefined} */
    this.socket = undefined;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.heard = 0;
    this.drainSoon = makeSoon(() => this.#drain());
  }

  /** Open the socket. */
  connect() {
    if (this.over) return;
    const socket = (this.socket = new WebSocket(this.url, SUBPROTOCOL));
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.heard = epochNow();
      this.#watch();
      this.#ask("opened");
    };
    socket.onmessage = ({ data }) => {
      if (socket !== this.socket) return;
      if (!this.frames.length) {
        this.arrived = epochNow();
        this.drainSoon();
      }
      this.frames.push(data);
    };
    socket.onclose = ({ code, reason }) => {
      if (socket === this.socket) this.#lost(code, reason);
    };
  }

  /** Ask the engine to stop; what it sent already still arrives. */
  cancel() {
    if (this.socket?.readyState === WebSocket.OPEN) this.#ask("cancel");
    else this.giveUp();
  }

  /** End the stream here and now; closing with 1000 stops the engine. */
  giveUp() {
    this.#drain();
    this.#ask("give_up");
  }

  /** @param {boolean} paused */
  pause(paused) {
    this.#ask("pause", paused);
  }

  /** Give all waiting frames to Python in one call. */
  #drain() {
    if (!this.frames.length || this.over) return;
    const frames = this.frames;
    this.frames = [];
    this.heard = this.arrived;
    this.#do(this.session.receive(this.fillInbox(packBatch(frames))), this.arrived);
  }

  /** @param {string} method @param {unknown[]} args */
  #ask(method, ...args) {
    if (!this.over) this.#do(this.session[method](...args), epochNow());
  }

  /**
   * Do what Python says.
   * @param {string} json
   * @param {number} at
   * @param {number} [code]  With which the socket closed, if it did.
   */
  #do(json, at, code = 1006) {
    /** @type {Outcome} */
    const { events, send = [], close, fetch: vocabulary, retry } = JSON.parse(json);
    for (const frame of send) if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(frame);
    const over = events.some(({ type }) => type === "finished" || type === "failed");
    if (retry !== undefined) this.timer = setTimeout(() => this.connect(), retry * 1000);
    if (over) this.#end(close ?? [1000, ""]);
    if (events.length || retry !== undefined) {
      this.onBatch({ at, events, ...(retry === undefined ? {} : { retry: { seconds: retry, code } }) }, over);
    }
    if (vocabulary && !over) void this.#fetchVocabulary(vocabulary);
  }

  /** @param {{url: string, size: number}} vocabulary */
  async #fetchVocabulary({ url }) {
    let data;
    try {
      const address = new URL(url, this.url.replace(/^ws/, "http"));
      const response = await fetch(address);
      if (!response.ok) throw new Error(`HTTP ${response.status}`);
      data = new Uint8Array(await response.arrayBuffer());
    } catch (error) {
      this.#ask("no_vocabulary", error instanceof Error ? error.message : String(error));
      return;
    }
    if (!this.over) this.#ask("vocabulary", this.fillInbox(data));
  }

  /** @param {number} code @param {string} reason */
  #lost(code, reason) {
    this.#drain();
    if (this.over) return;
    this.socket = undefined;
    this.#do(this.session.lost(code, reason, Math.random()), epochNow(), code);
  }

  /** Watch for a socket that says nothing any more. */
  #watch() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (this.over || !this.socket) return;
      const quiet = epochNow() - this.heard;
      if (quiet > 2 * QUIET_MS) {
        const dead = this.socket;
        this.socket = undefined;
        dead.close();
        this.#lost(1006, "");
        return;
      }
      if (quiet >= QUIET_MS) this.#ask("ping");
      this.#watch();
    }, QUIET_MS);
  }

  /** @param {[number, string]} close */
  #end([code, reason]) {
    this.over = true;
    clearTimeout(this.timer);
    this.session.destroy();
    const socket = this.socket;
    this.socket = undefined;
    // A page may close with 1000 and 3000 to 4999 only (WebSockets Standard, close()).
    if (socket && socket.readyState <= WebSocket.OPEN) socket.close(code === 1000 || code >= 3000 ? code : 1000, reason.slice(0, 100));
  }
}

/**
 * The frames of a batch in one buffer: for each one byte (0 text, 1 binary), its length as 4 bytes, lowest first, and itself.
 * @param {(string | ArrayBuffer)[]} frames
 * @returns {Uint8Array}
 */
export function packBatch(frames) {
  const parts = frames.map((frame) => (typeof frame === "string" ? encoder.encode(frame) : new Uint8Array(frame)));
  const batch = new Uint8Array(parts.reduce((sum, part) => sum + 5 + part.length, 0));
  const numbers = new DataView(batch.buffer);
  let at = 0;
  parts.forEach((part, n) => {
    batch[at] = typeof frames[n] === "string" ? 0 : 1;
    numbers.setUint32(at + 1, part.length, true);
    batch.set(part, at + 5);
    at += 5 + part.length;
  });
  return batch;
}
