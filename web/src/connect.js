/**
 * One answer of a detok bridge: `for await (const { channel, text } of connect(url, { prompt }))`.
 *
 * In: the bridge's address and a request. Out: deltas, as an async iterable and as streams, and
 * events. Lost connections are resumed. Whatever happens, `finish` fires once, as the last event.
 */

import { DetokError, asDetokError, base, decoderWorker } from "./decoder.js";
import { readable } from "./detok-stream.js";
import { shaper } from "./graphemes.js";
import { checked } from "./options.js";

/** @typedef {import("./detok-stream.js").Delta} Delta */

/**
 * @typedef {object} AnswerRequest  What to ask, and how the answer comes.
 * @property {string} [prompt]  A text to go on with.
 * @property {Message[]} [messages]  A chat, for the model's template.
 * @property {string} [resume]  Instead of both: the `id` of an earlier answer's `start`. That
 *   answer comes again from its beginning, and goes on.
 * @property {string} [id]  The name of this run: 16 to 64 characters, never used before.
 * @property {Record<string, unknown>} [params]  `max_tokens`, `temperature`, `seed`, `top_p`…
 * @property {"ids" | "bytes" | "both"} [want]  What the bridge sends. Default "both".
 * @property {import("./vocabulary.js").Vocabulary} [vocabulary]  Insist on this one. Without it the
 *   bridge's own is fetched.
 * @property {boolean} [details]  `token` events have a row for each token. Without a format the
 *   text is content only, unless `reasoning`, `tools` or `trimArtifacts` are given; no token id
 *   ends it, as the engine decides when the answer is over.
 * @property {boolean} [singleBytes]  Each raw byte is a row of its own.
 * @property {string} [token]  Of the bridge, if it wants one (`--allow-origin` and `--host`).
 * @property {AbortSignal} [signal]  Cancels the answer, and ends the loop with its reason.
 *
 * @typedef {AnswerRequest & import("./detok-stream.js").TextOptions &
 *   import("./decoder.js").RuntimeOptions} AnswerOptions  All that `connect` takes.
 *
 * @typedef {object} Message  A message of a chat.
 * @property {string} role     "system", "user", "assistant"…
 * @property {string} content  Its text.
 * @property {unknown[]} [tool_calls]  Of an assistant: its calls, as in OpenAI's API.
 * @property {string} [tool_call_id]  Of a tool: the call that it answers.
 *
 * @typedef {Required<Pick<AnswerRequest, "prompt">> | Required<Pick<AnswerRequest, "messages">> |
 *   Required<Pick<AnswerRequest, "resume">>} Question  One of these must be asked.
 *
 * @typedef {object} Finish  How an answer ended.
 * @property {"eos" | "stop" | "length" | "tool_calls" | "cancelled" | "error"} reason  Why: the
 *   model ended it, a stop string, `max_tokens`, a call at the end of the turn, the reader, or a
 *   fault.
 * @property {number} tokens   Tokens that came (bytes, if the engine knows only those).
 * @property {string} text     What was held, and became text when nothing more came.
 * @property {string | null} [note]  What the engine itself lost, in one sentence.
 * @property {DetokError | DOMException} [error]  What went wrong; after an abort the reason of the
 *   signal, which is a DOMException unless another was given to `abort`.
 * @property {number} at  When, in milliseconds since 1970.
 *
 * @typedef {object} AnswerEvents  The `detail` of each type of event. `at` is when it arrived, in
 *   milliseconds since 1970, with fractions.
 * @property {HelloEvent} hello  The bridge is there, and says what it serves.
 * @property {StartEvent} start  The engine has begun.
 * @property {Delta} delta  Text that has become certain.
 * @property {TokenEvent} token  Tokens have come.
 * @property {import("./create-decoder.js").Held} held  What waits for later tokens has changed.
 * @property {ResumeEvent} resume  The connection was lost, and is tried again.
 * @property {NoticeEvent} notice  A sentence to show; the answer goes on.
 * @property {ErrorEvent} error  Why it failed.
 * @property {Finish} finish  Once, always, and last.
 *
 * @typedef {object} HelloEvent  The `detail` of `hello`.
 * @property {Record<string, unknown>} engine  Its name, version, model and fidelity.
 * @property {object | null} vocabulary  The vocabulary's address and SHA-256.
 * @property {string | null} format  The name of the format that the model speaks; null where it is
 *   not known.
 * @property {number} at  When it arrived.
 *
 * @typedef {object} StartEvent  The `detail` of `start`.
 * @property {string} id  What `resume` takes.
 * @property {"ids" | "bytes" | "both"} data  What the bridge sends.
 * @property {number} position  Where the stream begins: 0, or later after a lost connection.
 * @property {string | null} format  The name of the format that the answer is read in; null: pairs
 *   of tags, or nothing.
 * @property {"content" | "reasoning" | "header" | ""} start  What the answer begins in, as the end
 *   of the prompt says; "" where the bridge does not know it.
 * @property {number} at  When it arrived.
 *
 * @typedef {object} TokenEvent  The `detail` of `token`.
 * @property {number} count   Tokens of this batch (bytes, if the engine knows only those).
 * @property {number} tokens  Tokens in all.
 * @property {number} at      When they arrived.
 * @property {import("./rows.js").TokenRow[]} [rows]  With `details`: a row for each token.
 * @property {number} [spent]  With `details`: the microseconds that decoding them took.
 *
 * @typedef {object} ResumeEvent  The `detail` of `resume`.
 * @property {number} seconds  After how long the connection is tried again.
 * @property {number} code     The close code of the lost one.
 *
 * @typedef {object} NoticeEvent  The `detail` of `notice`.
 * @property {number} code     A code of detok.v1.
 * @property {string} message  The sentence.
 * @property {number} at       When it arrived.
 *
 * @typedef {object} ErrorEvent  The `detail` of `error`.
 * @property {DetokError} error  What went wrong.
 */

/** Characters that may wait for a slow reader before the engine is made to wait. */
const MOST_WAITING = 1 << 16;

/**
 * Answers that are waited for; without this they could be garbage-collected.
 * @type {Set<Answer>}
 */
const awaited = new Set();

/** An answer while it comes. Its events are those of {@link AnswerEvents}. */
export class Answer extends EventTarget {
  /** @param {string | URL} url @param {AnswerOptions} request */
  constructor(url, request) {
    super();
    this.#shape = shaper(request.granularity, this.calls);
    this.#open(url, request).catch((error) =>
      this.#end({ reason: "error", error: asDetokError(error) }),
    );
  }

  /** The calls so far, in a format. @type {import("./detok-stream.js").Call[]} */
  calls = [];
  #shape;
  /** @type {AbortSignal | undefined} */
  #signal;
  /** @type {(finish: Finish) => void} */
  #resolve = () => {};
  /** @type {Promise<Finish>} */
  #finished = new Promise((resolve) => (this.#resolve = resolve));
  #watched = false;
  /** @type {import("./link.js").Link | undefined} */
  #link;
  /** Deltas that are not read yet, and the count of their characters. @type {Delta[]} */
  #waiting = [];
  #size = 0;
  /** Whether a slow reader, or the program, makes the engine wait. */
  #full = false;
  /** Whether deltas are being given. */
  #saying = false;
  #paused = false;
  #claimed = false;
  /** @type {(() => void) | undefined} */
  #wake;
  /** @type {Finish | undefined} */
  #finish;
  #abort = () => this.#end({ reason: "cancelled", error: this.#signal?.reason });
  /**
   * The worker holds this weakly, and nothing else here.
   * @type {import("./link.js").Listener}
   */
  #listener = {
    take: (batch) => this.#link?.take(batch),
    fail: (error) => this.#end({ reason: "error", error }),
    say: (deltas) => this.#say(deltas, false),
    emit: (type, detail) => this.#emit(type, detail),
    end: (finish) => this.#end(finish),
  };

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
  /**
   * @override
   * @param {string} type
   * @param {any} listener
   * @param {boolean | AddEventListenerOptions} [options]
   */
  addEventListener(type, listener, options) {
    this.#watch();
    super.addEventListener(type, listener, options);
  }

  /** Keep the answer alive until its end. */
  #watch() {
    this.#watched = true;
    if (!this.#finish) awaited.add(this);
  }

  /** Whether it is over. */
  get done() {
    return !!this.#finish;
  }

  /** End now: the engine is cancelled, and the iteration ends without an error. */
  cancel() {
    this.#end({ reason: "cancelled" });
  }

  /** Ask the engine to stop. What it has sent already still comes, and then the end. */
  stop() {
    if (this.#link?.asked) this.#tell("cancel");
    else this.cancel();
  }

  /** Let the engine wait: the bridge gets no more credit. */
  pause() {
    this.#hold((this.#paused = true));
  }

  /** Let the engine go on. */
  resume() {
    this.#paused = false;
    this.#hold(this.#full);
  }

  /**
   * The deltas as they come; adjacent deltas of one channel are joined if the reader is slow.
   * Rejects when the answer fails or its signal is aborted. Leaving the loop cancels the engine.
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
          if (this.#full && this.#size < MOST_WAITING / 2) {
            this.#full = false;
            this.#hold(this.#paused);
          }
          yield delta;
        } else if (this.#finish) {
          if (this.#finish.error) throw this.#finish.error;
          return;
        } else {
          awaited.add(this);
          await new Promise(
            (/** @type {(value?: unknown) => void} */ resolve) => (this.#wake = resolve),
          );
          if (!this.#watched) awaited.delete(this);
        }
      }
    } finally {
      this.cancel();
    }
  }

  /** The deltas as a ReadableStream. @returns {ReadableStream<Delta>} */
  get deltas() {
    return this.#stream((delta) => delta);
  }

  /**
   * The text of the content, without reasoning and tool calls.
   * @returns {ReadableStream<string>}
   */
  get text() {
    return this.#stream(({ channel, text }) => channel === "content" && text);
  }

  /**
   * A stream of what `pick` gives for the deltas, if anything.
   * @param {(delta: Delta) => any} pick
   */
  #stream(pick) {
    const from = this[Symbol.asyncIterator]();
    return readable({
      async pull(controller) {
        let part;
        while (!part) {
          const { done, value } = await from.next();
          if (done) return controller.close();
          part = pick(value);
        }
        controller.enqueue(part);
      },
      cancel: () => this.cancel(),
    });
  }

  /** @param {string | URL} url @param {AnswerOptions} given */
  async #open(url, given) {
    await null; // the caller can add listeners first
    const request = checked(given);
    this.#signal = request.signal;
    if (this.#signal?.aborted) return this.#abort();
    this.#signal?.addEventListener("abort", this.#abort);
    const worker = decoderWorker(request); // at once: `shutDown` ends what has been asked for
    const { Link } = await import("./link.js");
    if (this.#finish) return;
    this.#link = new Link(request, this.#listener, worker);
    const address = new URL(url, base()).href.replace(/^http/, "ws");
    await this.#link.open(address, () => this.#paused);
  }

  /** @param {import("./step-table.js").Said[]} deltas @param {boolean} over */
  #say(deltas, over) {
    this.#saying = true;
    for (const delta of this.#shape(deltas, over)) if (!this.#finish) this.#give(delta);
    this.#saying = false;
  }

  /** @param {Delta} delta */
  #give(delta) {
    const last = this.#waiting.at(-1);
    if (last?.channel === delta.channel && delta.call === undefined && !last.complete)
      Object.assign(last, delta, { text: last.text + delta.text });
    else this.#waiting.push({ ...delta });
    this.#size += delta.text.length;
    if (this.#claimed && this.#size > MOST_WAITING && !this.#full) {
      this.#full = true;
      this.#hold(true);
    }
    this.#wake?.();
    this.#emit("delta", delta);
  }

  /** @param {boolean} paused */
  #hold(paused) {
    this.#tell("pause", paused);
  }

  /** Tell the worker something about this stream. @param {string} name @param {unknown[]} args */
  #tell(name, ...args) {
    if (!this.#finish) this.#link?.tell(name, ...args);
  }

  /** @param {Partial<Finish> & Pick<Finish, "reason">} finish */
  #end(finish) {
    // A listener may end the answer before it has been given all: what is held lies behind that.
    if (!this.#finish && !this.#saying) this.#say([], true);
    if (this.#finish) return; // a listener may have ended it
    const whole = (this.#finish = {
      tokens: this.#link?.tokens ?? 0,
      text: "",
      at: performance.timeOrigin + performance.now(),
      ...finish,
    });
    this.#signal?.removeEventListener("abort", this.#abort);
    this.#link?.close();
    this.#wake?.();
    if (whole.reason === "error") this.#emit("error", { error: whole.error });
    this.#emit("finish", whole);
    this.#resolve(whole);
    awaited.delete(this);
  }

  /** @param {string} type @param {unknown} detail */
  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

/**
 * Ask a bridge for an answer.
 *
 * Reasoning, tool calls and template markers are told apart in the format of the model; where it is
 * not known, by the tags `<think>` and `<tool_call>`.
 * @param {string | URL} url  The bridge's WebSocket: `ws://…/stream`, or `/stream` on its own
 *   pages.
 * @param {AnswerOptions & Question} request
 * @returns {Answer}
 */
export function connect(url, request) {
  return new Answer(url, request);
}
