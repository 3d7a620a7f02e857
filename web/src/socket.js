/**
 * The socket of one answer: opens a WebSocket, opens another when Python says so, and passes frames
 * both ways.
 *
 * Frames that arrive within one task of the browser go to Python in one call. The outcome
 * (detok_py/page/answer.py) is applied in order. Every batch of events has the time at which its
 * first frame arrived.
 */

/**
 * @typedef {object} Batch
 * @property {number} at     When its first frame arrived: milliseconds since 1970, with fractions.
 * @property {any[]} events  As detok_py/page/answer.py gives them.
 * @property {{seconds: number, code: number}} [retry]  The socket closed with this code, and the
 *   next one opens after these seconds.
 *
 * @typedef {object} Outcome
 * @property {any[]} events
 * @property {string[]} [send]
 * @property {[code: number, reason: string]} [close]
 * @property {{url: string, sha256: string, size: number}} [fetch]
 * @property {number} [retry]
 */

const SUBPROTOCOL = "detok.v1";
/**
 * Milliseconds without a frame after which a ping is sent. After twice as many the socket is dead.
 */
const QUIET_MS = 20_000;
/** Milliseconds that a socket has to answer a ping after its page has been away. */
const AWAY_MS = 3_000;

const encoder = new TextEncoder();

/** Milliseconds since 1970, with the same zero in a page and its workers. */
const epochNow = () => performance.timeOrigin + performance.now();

/** The connection of a stream to the bridge. */
export class EngineSocket {
  /** @type {(string | ArrayBuffer)[]} */
  frames = [];
  arrived = 0;
  over = false;
  /** @type {WebSocket | undefined} */
  socket;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  timer;
  heard = 0;
  /** When the next try is due. */
  due = 0;
  /** Whether the socket that is being opened is a try before `due`. */
  early = false;

  /**
   * @param {string} url
   * @param {(method: string, ...args: unknown[]) => string} ask  Calls a method of Python's Answer.
   * @param {(bytes: Uint8Array) => number | string} fill
   * @param {(batch: Batch, over: boolean) => void} onBatch
   * @param {string} [token]  Of the bridge. A page can't set headers of a WebSocket, so it goes as
   *   a subprotocol.
   */
  constructor(url, ask, fill, onBatch, token) {
    this.url = url;
    this.ask = ask;
    this.fill = fill;
    this.onBatch = onBatch;
    this.token = token;
    // A message to itself runs after the frames that already wait, and sooner than a timer.
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => this.#drain();
    this.port = port2;
  }

  /** Open the socket. */
  connect() {
    if (this.over) return;
    const socket = (this.socket = new WebSocket(
      this.url,
      [SUBPROTOCOL].concat(this.token ? `detok.token.${this.token}` : []),
    ));
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.heard = epochNow();
      this.#watch();
      this.tell("opened");
    };
    socket.onmessage = ({ data }) => {
      if (socket !== this.socket) return;
      this.early = false;
      if (!this.frames.length) {
        this.arrived = epochNow();
        this.port.postMessage(0);
      }
      this.frames.push(data);
    };
    socket.onclose = ({ code, reason }) => {
      if (socket === this.socket) this.#lost(code, reason);
    };
  }

  /**
   * Reconnect or ping at once when the page or the network is back: timers may have slept. An early
   * try that fails does not count.
   */
  wake() {
    const { socket } = this;
    if (this.over) return;
    if (!socket) {
      clearTimeout(this.timer);
      this.early = true;
      this.connect();
    } else if (socket.readyState === WebSocket.OPEN) {
      const asked = epochNow();
      this.tell("ping");
      setTimeout(() => {
        if (socket === this.socket && this.heard < asked) this.#hangUp(socket);
      }, AWAY_MS);
    }
  }

  /** End the stream now; closing with 1000 stops the engine. */
  giveUp() {
    this.#drain();
    this.tell("give_up");
  }

  /** Give all waiting frames to Python in one call. */
  #drain() {
    if (!this.frames.length || this.over) return;
    const batch = packBatch(this.frames);
    this.frames = [];
    this.heard = this.arrived;
    this.#obey(this.ask("receive", this.fill(batch)), this.arrived);
  }

  /**
   * Call a method of Python's Answer, unless it has ended. `cancel` asks the engine to stop, on the
   * next socket if there is none now. What was already sent still arrives.
   * @param {string} method
   * @param {unknown[]} args
   */
  tell(method, ...args) {
    if (method === "wake") return this.wake();
    if (!this.over) this.#obey(this.ask(method, ...args), epochNow());
  }

  /**
   * Apply an outcome of Python.
   * @param {string} json
   * @param {number} at
   * @param {number} [code] of the close
   */
  #obey(json, at, code = 1006) {
    /** @type {Outcome} */
    const { events, send = [], close, fetch: vocabulary, retry } = JSON.parse(json);
    for (const frame of send)
      if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(frame);
    const over = events.some(({ type }) => type === "finished" || type === "failed");
    if (retry !== undefined) this.#wait(at + retry * 1000);
    if (over) this.#end(close ?? [1000, ""]);
    if (events.length || retry !== undefined) {
      const lost = retry === undefined ? {} : { retry: { seconds: retry, code } };
      this.onBatch({ at, events, ...lost }, over);
    }
    if (vocabulary && !over) void this.#fetchVocabulary(vocabulary.url);
  }

  /** Open the next socket at a time. @param {number} due */
  #wait(due) {
    this.due = due;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), Math.max(0, due - epochNow()));
  }

  /** @param {string} url */
  async #fetchVocabulary(url) {
    let data;
    try {
      const response = await fetch(new URL(url, this.url.replace(/^ws/, "http")), {
        headers: this.token ? { authorization: `Bearer ${this.token}` } : {},
      });
      if (!response.ok) throw `HTTP ${response.status}`;
      data = new Uint8Array(await response.arrayBuffer());
    } catch (error) {
      return this.tell("no_vocabulary", String(error));
    }
    this.#drain(); // what has arrived is older, also by its time
    if (!this.over) this.tell("vocabulary", this.fill(data));
  }

  /** @param {number} code @param {string} reason */
  #lost(code, reason) {
    this.#drain();
    if (this.over) return;
    this.socket = undefined;
    if (this.early) {
      this.early = false;
      return this.#wait(this.due);
    }
    this.#obey(this.ask("lost", code, reason, Math.random()), epochNow(), code);
  }

  /** Don't wait for the other side to close. @param {WebSocket} socket */
  #hangUp(socket) {
    socket.close();
    this.#lost(1006, "");
  }

  /** Detect a socket that has stopped receiving. */
  #watch() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (this.over || !this.socket) return;
      const quiet = epochNow() - this.heard;
      if (quiet > 2 * QUIET_MS) return this.#hangUp(this.socket);
      if (quiet >= QUIET_MS) this.tell("ping");
      this.#watch();
    }, QUIET_MS);
  }

  /** @param {[code: number, reason: string]} close */
  #end([code, reason]) {
    this.over = true;
    clearTimeout(this.timer);
    this.port.close(); // an open one keeps Node running
    // A page may close with 1000 and 3000 to 4999 only (WebSockets Standard, close()).
    this.socket?.close(code < 3000 ? 1000 : code, reason.replace(/[^ -~]/g, "?").slice(0, 100));
    this.socket = undefined;
  }
}

// For bundlers (stream-calls.js).
if ("WorkerGlobalScope" in globalThis) Object.assign(globalThis, { detokSocket: EngineSocket });

/**
 * Put the frames of a batch into one buffer: for each frame one byte (0 text, 1 binary), its length
 * as 4 bytes, lowest first, and the frame.
 * @param {(string | ArrayBuffer)[]} frames
 */
export function packBatch(frames) {
  const parts = frames.flatMap((frame) => {
    const text = typeof frame === "string";
    const part = text ? encoder.encode(frame) : new Uint8Array(frame);
    const size = part.length;
    return [Uint8Array.of(text ? 0 : 1, size, size >> 8, size >> 16, size >> 24), part];
  });
  const batch = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    batch.set(part, at);
    at += part.length;
  }
  return batch;
}
