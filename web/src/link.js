/**
 * Connects an answer to the worker: asks the engine, and reads the batches that come. Forgets
 * answers that are no longer referenced. The first call of `connect` loads this module.
 */

import { BACK } from "./back.js";
import { DetokError, socketUrl } from "./decoder.js";
import { rowOf } from "./rows.js";

/**
 * @typedef {object} Own  What an answer does with its events.
 * @property {(deltas: import("./step-table.js").Said[]) => void} say
 * @property {(type: string, detail: unknown) => void} emit
 * @property {(finish: Partial<import("./connect.js").Finish> &
 *   Pick<import("./connect.js").Finish, "reason">) => void} end
 *
 * @typedef {import("./decoder.js").Listener & Own} Listener
 */

let lastStream = 0;

/** @type {FinalizationRegistry<{worker: import("./decoder.js").DecoderWorker, stream: number}>} */
const dropped = new FinalizationRegistry(({ worker, stream }) => forget(worker, stream));

/** @param {import("./decoder.js").DecoderWorker} worker @param {number} stream */
function forget(worker, stream) {
  if (!worker.streams.delete(stream) || worker.dead) return;
  worker.calls.call("release", stream).catch(() => {});
}

/** One answer's connection to the worker. */
export class Link {
  /** Whether the engine has been asked. */
  asked = false;
  over = false;
  tokens = 0;
  /** The last state that `held` told: bytes, and text. */
  held = "0 ";
  ended = new AbortController();

  /**
   * @param {import("./connect.js").AnswerOptions} request
   * @param {Listener} listener
   * @param {import("./decoder.js").DecoderWorker} worker
   */
  constructor(request, listener, worker) {
    this.request = request;
    this.listener = listener;
    this.worker = worker;
    if (worker.dead) throw worker.dead;
    const stream = (this.stream = ++lastStream);
    worker.streams.set(stream, new WeakRef(listener));
    dropped.register(listener, { worker, stream }, listener);
    // The page must not keep an answer that nobody holds.
    const link = new WeakRef(this);
    const wake = () => globalThis.document?.hidden || link.deref()?.tell("wake");
    const { signal } = this.ended;
    for (const type of BACK) globalThis.addEventListener?.(type, wake, { signal });
  }

  /** @param {string} address @param {() => boolean} paused  Whether the engine is to wait. */
  async open(address, paused) {
    const { request, stream, worker } = this;
    const { vocabulary, token } = request;
    const socket = worker.calls.call("prepare", socketUrl());
    await Promise.all([worker.keep(vocabulary), worker.ready, socket]);
    if (this.over) return;
    this.asked = true;
    const told = JSON.stringify({ ...request, vocabulary: vocabulary?.sha256 });
    const connected = worker.calls.call("connect", stream, address, told, token);
    if (paused()) this.tell("pause", true);
    await connected;
  }

  /** Call a method of this stream's socket. @param {string} name @param {unknown[]} args */
  tell(name, ...args) {
    this.worker.calls.call("tell", this.stream, name, ...args).catch(() => {});
  }

  close() {
    this.over = true;
    this.ended.abort();
    dropped.unregister(this.listener);
    forget(this.worker, this.stream);
  }

  /** @param {import("./socket.js").Batch} batch */
  take({ at, events, retry }) {
    const { end } = this.listener;
    for (const { type, ...event } of events) {
      if (this.over) return;
      if (type === "text") this.#takeText(event, at);
      else if (type === "finished" || type === "failed") {
        this.#takeText(event, at);
        const { deltas, note, code, message } = event;
        const text = deltas.map((/** @type {string[]} */ said) => said[1]).join("");
        const reason = event.reason ?? (code === 4499 ? "cancelled" : "error");
        const why = event.reason ? { note } : { error: new DetokError(message, event) };
        end({ text, at, reason, ...why });
      } else if (type !== "pong") this.#emit(type === "started" ? "start" : type, { ...event, at });
    }
    if (retry) this.#emit("resume", retry);
  }

  /**
   * Emit an event, unless a listener has ended the answer.
   * @param {string} type
   * @param {unknown} detail
   */
  #emit(type, detail) {
    if (!this.over) this.listener.emit(type, detail);
  }

  /** @param {any} event  Of detok_py/page/answer.py. @param {number} at */
  #takeText({ deltas, rows, count = 0, position, held = 0, waiting = "", spent }, at) {
    this.tokens = position ?? this.tokens;
    this.listener.say(deltas ?? rows.flatMap((/** @type {any[]} */ row) => row[2]));
    if (count) this.#emit("token", { count, tokens: position, at, rows: rows?.map(rowOf), spent });
    const state = `${held} ${waiting}`;
    if (state !== this.held) this.#emit("held", { bytes: held, text: waiting });
    this.held = state;
  }
}
