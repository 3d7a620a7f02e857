/**
 * One answer of a detok bridge: `for await (const { channel, text } of connect(url, { prompt }))`.
 *
 * In: the bridge's address and a request. Out: deltas, as an async iterable and as streams, and events. Lost connections are taken up again
 * where they broke. Whatever happens, `finish` fires once, as the last event.
 */

import { DetokError, asDetokError, base, decoderWorker } from "./decoder.js";
import { forPython, iterable, shaper } from "./detok-stream.js";

/** @typedef {import("./detok-stream.js").Delta} Delta */

/**
 * @typedef {object} AnswerRequest
 * @property {string} [prompt]
 * @property {{role: string, content: string}[]} [messages]
 * @property {string} [resume]  Instead of both: the `id` that an earlier answer's `start` told. It comes again from its beginning, and goes on.
 * @property {Record<string, unknown>} [params]  `max_tokens`, `temperature`, `seed`, `top_p`, `top_k`…
 * @property {"ids" | "bytes" | "both"} [want]  What the bridge sends. Default "both".
 * @property {import("./vocabulary.js").Vocabulary} [vocabulary]  Insist on this one. Without it the bridge's own is fetched.
 * @property {AbortSignal} [signal]
 *
 * @typedef {object} Finish
 * @property {"eos" | "stop" | "length" | "cancelled" | "error"} reason
 * @property {number} tokens   Tokens that came (bytes, where the engine knows only those).
 * @property {string | null} [note]  What the engine itself lost, in one sentence.
 * @property {DetokError} [error]
 *
 * @typedef {object} AnswerEvents  What `detail` is, by the type of the event.
 * @property {{id: string, data: "ids" | "bytes" | "both", position: number}} start
 * @property {Delta} delta
 * @property {{count: number, tokens: number}} token
 * @property {{bytes: number, text: string}} held
 * @property {{seconds: number, code: number}} resume
 * @property {{code: number, message: string}} notice
 * @property {{error: DetokError}} error
 * @property {Finish} finish
 */

/** Characters that may wait for a slow reader before the engine is made to wait. */
const MOST_WAITING = 1 << 16;

/** Answers that somebody waits for: a browser may forget what only a promise or a listener of its own holds. @type {Set<Answer>} */
const awaited = new Set();

/**
 * An answer while it comes. Events, each a CustomEvent with `detail`: `start` {id, data}, `delta` {channel, text}, `token` {count, tokens},
 * `held` {bytes, text}, `resume` {seconds, code}, `notice` {code, message}, `error` {error}, and, once and last, `finish` {@link Finish}.
 */
export class Answer extends EventTarget {
  /**
   * @param {string | URL} url
   * @param {AnswerRequest & import("./detok-stream.js").TextOptions & import("./decoder.js").RuntimeOptions} request
   */
  constructor(url, request) {
    super();
    this.#shape = shaper(request.unit ?? "character");
    this.#signal = request.signal;
    this.#open(url, request).catch((error) => this.#end({ reason: "error", error: asDetokError(error) }));
  }

  /** @type {(deltas: [string, string][], over: boolean) => Delta[]} */
  #shape;
  /** @type {AbortSignal | undefined} */
  #signal;
  /** @type {(finish: Finish) => void} */
  #tellFinished = () => {};
  /** @type {Promise<Finish>} */
  #finished = new Promise((resolve) => (this.#tellFinished = resolve));
  #watched = false;
  /** @type {import("./decoder.js").DecoderWorker | undefined} */
  #worker;
  #stream = 0;
  #tokens = 0;
  #held = "";
  /** @type {Delta[]} */
  #waiting = [];
  #size = 0;
  #paused = false;
  #claimed = false;
  /** @type {(() => void) | undefined} */
  #wake;
  /** @type {Finish | undefined} */
  #finish;
  #abort = () => this.#end({ reason: "cancelled", error: this.#signal?.reason });
  /** The worker has a weak hold of it, and of nothing else here. @type {import("./decoder.js").Listener} */
  #listener = { take: (batch) => this.#take(batch), fail: (error) => this.#end({ reason: "error", error }) };

  /** How it ended; never rejects. @returns {Promise<Finish>} */
  get finished() {
    this.#watch();
    return this.#finished;
  }

  /**
   * @template {keyof AnswerEvents} Type
   * @overload
   * @param {Type} type
   * @param {(event: CustomEvent<AnswerEvents[Type]>) => void} listener
   * @param {boolean | AddEventListenerOptions} [options]
   * @returns {void}
   */
  /**
   * @overload
   * @param {string} type
   * @param {EventListenerOrEventListenerObject | null} listener
   * @param {boolean | AddEventListenerOptions} [options]
   * @returns {void}
   */
  /** @override @param {string} type @param {any} listener @param {boolean | AddEventListenerOptions} [options] */
  addEventListener(type, listener, options) {
    this.#watch();
    super.addEventListener(type, listener, options);
  }

  /** Somebody waits for its end, whether they keep hold of it or not. */
  #watch() {
    this.#watched = true;
    if (!this.#finish) awaited.add(this);
  }

  /** Whether it is over. */
  get over() {
    return this.#finish !== undefined;
  }

  /** Stop: the engine is cancelled, and the iteration ends without an error. */
  cancel() {
    this.#end({ reason: "cancelled" });
  }

  /**
   * The deltas as they come; neighbours of one channel are one delta when the reader was slow. Rejects when the answer fails or its signal
   * is aborted. Leaving the loop early cancels the engine.
   * @returns {AsyncGenerator<Delta, void, void>}
   */
  async *[Symbol.asyncIterator]() {
    if (this.#claimed) throw new DetokError("This answer is read by someone else already.");
    this.#claimed = true;
    try {
      for (;;) {
        const delta = this.#waiting.shift();
        if (delta) {
          this.#size -= delta.text.length;
          if (this.#paused && this.#size < MOST_WAITING / 2) this.#pause(false);
          yield delta;
        } else if (this.#finish) {
          if (this.#finish.error) throw this.#finish.error;
          return;
        } else {
          awaited.add(this);
          await new Promise((/** @type {(value?: unknown) => void} */ resolve) => (this.#wake = resolve));
          if (!this.#watched) awaited.delete(this);
        }
      }
    } finally {
      this.cancel();
    }
  }

  /** The deltas as a ReadableStream. @returns {ReadableStream<Delta>} */
  get deltas() {
    const from = this[Symbol.asyncIterator]();
    return iterable(new ReadableStream({
      async pull(controller) {
        const { done, value } = await from.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: async () => {
        this.cancel();
      },
    }, { highWaterMark: 0 }));
  }

  /** The text of the content, without reasoning and tool calls, as a ReadableStream. @returns {ReadableStream<string>} */
  get text() {
    return iterable(this.deltas.pipeThrough(new TransformStream({
      transform({ channel, text }, controller) {
        if (channel === "content") controller.enqueue(text);
      },
    })));
  }

  /**
   * @param {string | URL} url
   * @param {AnswerRequest & import("./detok-stream.js").TextOptions & import("./decoder.js").RuntimeOptions} request
   */
  async #open(url, request) {
    await null; // whoever asked can add listeners first
    if (this.#signal?.aborted) return this.#abort();
    this.#signal?.addEventListener("abort", this.#abort, { once: true });
    const { prompt, messages, resume, params, want, vocabulary } = request;
    const worker = (this.#worker = decoderWorker(request));
    const stream = (this.#stream = worker.add(this.#listener));
    await worker.keep(vocabulary);
    await worker.ready;
    if (this.#finish) return;
    const address = new URL(url, base()).href.replace(/^http/, "ws");
    await worker.calls.call("connect", stream, address, { ...forPython({ reasoning: true, tools: true, trimArtifacts: true, ...request }), prompt, messages, resume, params, want, vocabulary: vocabulary?.sha256 });
  }

  /** @param {{events: any[], retry?: {seconds: number, code: number}}} batch */
  #take({ events, retry }) {
    for (const event of events) {
      if (this.#finish) return;
      if (event.type === "started") this.#tell("start", event);
      else if (event.type === "notice") this.#tell("notice", event);
      else if (event.type === "deltas") this.#takeDeltas(event);
      else if (event.type === "finished") this.#end({ reason: event.reason, note: event.note });
      else if (event.type === "failed") this.#end({ reason: event.code === 4499 ? "cancelled" : "error", error: new DetokError(event.message, event) });
    }
    if (retry) this.#tell("resume", retry);
  }

  /** @param {{deltas: [string, string][], count: number, position: number, held: number, waiting: string}} event */
  #takeDeltas({ deltas, count, position, held, waiting }) {
    this.#tokens = position;
    for (const delta of this.#shape(deltas, false)) this.#give(delta);
    if (count) this.#tell("token", { count, tokens: position });
    const state = `${held} ${waiting}`;
    if (state !== this.#held) this.#tell("held", { bytes: held, text: waiting });
    this.#held = state;
  }

  /** @param {Delta} delta */
  #give(delta) {
    const last = this.#waiting.at(-1);
    if (last?.channel === delta.channel) last.text += delta.text;
    else this.#waiting.push({ ...delta });
    this.#size += delta.text.length;
    if (this.#claimed && this.#size > MOST_WAITING) this.#pause(true);
    this.#wake?.();
    this.#tell("delta", delta);
  }

  /** @param {boolean} paused */
  #pause(paused) {
    if (this.#paused === paused || this.#finish) return;
    this.#paused = paused;
    this.#worker?.calls.call("pause", this.#stream, paused).catch(() => {});
  }

  /** @param {Omit<Finish, "tokens">} finish */
  #end(finish) {
    if (this.#finish) return;
    for (const delta of this.#shape([], true)) this.#give(delta);
    this.#finish = { tokens: this.#tokens, ...finish };
    this.#signal?.removeEventListener("abort", this.#abort);
    this.#worker?.remove(this.#stream, this.#listener);
    this.#wake?.();
    if (finish.reason === "error") this.#tell("error", { error: finish.error });
    this.#tell("finish", this.#finish);
    this.#tellFinished(this.#finish);
    awaited.delete(this);
  }

  /** @param {string} type @param {unknown} detail */
  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

/**
 * Ask a bridge for an answer.
 *
 * Reasoning (`<think>`), tool calls and template markers are told apart unless the options say otherwise.
 * @param {string | URL} url  The bridge's WebSocket: `ws://…/stream`, or `/stream` on the bridge's own pages.
 * @param {AnswerRequest & import("./detok-stream.js").TextOptions & import("./decoder.js").RuntimeOptions} request
 * @returns {Answer}
 */
export function connect(url, request) {
  return new Answer(url, request);
}
