/**
 * An answer as the state of a user interface, for any framework: what react.js, vue.js and
 * svelte.js share.
 *
 * In: a prompt or messages, by `send`; or any answer, by a function. Out: text, reasoning and tool
 * calls so far; listeners are called at most once a frame. Held: one answer.
 */

import { Answer } from "./connect.js";
import { DetokError, asDetokError } from "./decoder.js";
import { callReader, toolCallOf } from "./tool-calls.js";

/**
 * @template Request
 * @typedef {(request: Request, context: AskContext) => Deltas | Promise<Deltas> | string | URL}
 *   Ask Answers a request without a bridge: with `readAnswer`, or a stream through `DetokStream`.
 *   `request` is what `send` was given. It may return the address of a bridge instead.
 */
/**
 * @template Request
 * @typedef {object} Asking  What asks and stops.
 * @property {(request: Request) => Promise<AnswerEnd>} send  Asks with a prompt, or what `connect`
 *   takes; without a bridge, with what the function takes. Cancels an unfinished answer. Resolves
 *   with how the new one ended; never rejects.
 * @property {() => void} stop  Stops the answer that is coming; what came of it stays.
 */
/**
 * @typedef {import("./detok-stream.js").Delta | string} DeltaOrText  A string is content.
 * @typedef {AsyncIterable<DeltaOrText> | ReadableStream<DeltaOrText>} Deltas  Any answer.
 *
 * @typedef {object} AskContext  What a function that answers is given beside the request.
 * @property {AbortSignal} signal  Aborted by `stop`, by the next `send` and when the component
 *   ends.
 *
 * @typedef {Partial<Omit<import("./connect.js").Finish, "reason">>} EndDetails  Of a bridge's
 *   answer, `tokens`, `text`, `note`; and `error`.
 * @typedef {object} EndOfAnswer  Why and when an answer ended.
 * @property {EndReason} reason  Why it ended.
 * @property {number} at         When, in milliseconds since 1970.
 * @typedef {EndDetails & EndOfAnswer} AnswerEnd  How an answer ended.
 * @typedef {import("./connect.js").Finish["reason"] | "end" | (string & {})} EndReason  Without a
 *   bridge: the engine's word if `readAnswer` has one; else "end", "cancelled" or "error".
 *
 * @typedef {object} AnswerState  An answer as a page shows it.
 * @property {string} text       The content so far.
 * @property {string} reasoning  The reasoning so far.
 * @property {import("./tool-calls.js").ToolCall[]} toolCalls  The tool calls so far; the last may
 *   be unfinished.
 * @property {import("./create-decoder.js").Held} held  What waits for later tokens, where a bridge
 *   answers; nothing for other answers.
 * @property {"ready" | "submitted" | "streaming" | "reconnecting" | "error"} status  "ready" to
 *   ask, also after an answer.
 * @property {Error | undefined} error  Why the last answer failed.
 * @property {AnswerEnd | undefined} finish  How the last answer ended.
 *
 * @typedef {import("./connect.js").AnswerOptions} AnswerOptions
 * @typedef {import("./tool-calls.js").ToolCall} ToolCall
 */

/** @type {AnswerState} */
const NOTHING = Object.freeze({
  text: "",
  reasoning: "",
  toolCalls: [],
  held: { bytes: 0, text: "" },
  status: "ready",
  error: undefined,
  finish: undefined,
});

/**
 * The answer of one component. Listeners are called at most once a frame.
 * @template [Request=string | AnswerOptions]
 */
export class AnswerStore {
  /**
   * @param {string | URL | Ask<Request>} [source]  The bridge's WebSocket, or a function that
   *   answers.
   * @param {AnswerOptions} [options]  For a bridge. Those of `send` overrule them.
   */
  constructor(source = "", options = {}) {
    /** The source of the next answer. */
    this.source = source;
    /** The options of the next answer. */
    this.options = options;
  }

  #state = NOTHING;
  #shown = NOTHING;
  /** Aborts the answer that is coming. Changes by an earlier answer are ignored. */
  #ended = new AbortController();
  /** @type {number | undefined} */
  #frame;
  /** @type {Set<() => void>} */
  #listeners = new Set();

  /**
   * Call a listener when the state has changed. Returns a function that ends this.
   * @param {() => void} listener
   */
  subscribe = (listener) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** The state: the same object until something changes. */
  read = () => this.#shown;

  /**
   * Ask. Cancels an unfinished answer. Resolves with how the new one ended; never rejects.
   * @param {Request} request  A prompt, or what `connect` takes; without a bridge, what the
   *   function takes.
   * @returns {Promise<AnswerEnd>}
   */
  send = async (request) => {
    this.stop();
    const ended = (this.#ended = new AbortController());
    /** @param {Partial<AnswerState>} change @param {boolean} [now] */
    const tell = (change, now) => ended === this.#ended && this.#tell(change, now);
    tell({ ...NOTHING, status: "submitted" });
    const take = this.#taker(tell);
    const given = this.#given(request, ended.signal);
    const end = await (typeof given === "string" || given instanceof URL
      ? this.#askBridge(given, /** @type {any} */ (request), ended.signal, take, tell)
      : readThrough(given, ended.signal, take));
    const error = end.reason === "error" ? end.error : undefined;
    tell({ status: error ? "error" : "ready", error, finish: end, held: NOTHING.held }, true);
    return end;
  };

  /** What the source gives for a request. @param {Request} request @param {AbortSignal} signal */
  #given(request, signal) {
    try {
      return typeof this.source === "function" ? this.source(request, { signal }) : this.source;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * A function that adds a delta to the state.
   * @param {(change: Partial<AnswerState>) => void} tell
   * @returns {(delta: import("./detok-stream.js").Delta) => void}
   */
  #taker(tell) {
    /** @type {import("./detok-stream.js").Call[]} */
    const calls = [];
    const read = callReader();
    return ({ channel, text, call, ...more }) => {
      /** @type {Partial<AnswerState>} */
      let change;
      if (call !== undefined) {
        const before = calls[call] ?? { call, id: null, name: "", arguments: "", complete: false };
        calls[call] = { ...before, ...more, arguments: before.arguments + text };
        change = { toolCalls: calls.map(toolCallOf) };
      } else if (channel === "content") change = { text: this.#state.text + text };
      else if (channel === "reasoning") change = { reasoning: this.#state.reasoning + text };
      else change = { toolCalls: read(text) };
      tell({ ...change, status: "streaming" });
    };
  }

  /**
   * @param {string | URL} url
   * @param {string | AnswerOptions} request
   * @param {AbortSignal} signal
   * @param {(delta: import("./detok-stream.js").Delta) => void} take
   * @param {(change: Partial<AnswerState>) => void} tell
   * @returns {Promise<AnswerEnd>}
   */
  #askBridge(url, request, signal, take, tell) {
    const answer = new Answer(url, {
      ...this.options,
      ...(typeof request === "string" ? { prompt: request } : request),
    });
    signal.addEventListener("abort", () => answer.cancel());
    answer.addEventListener("delta", ({ detail }) => take(detail));
    answer.addEventListener("held", ({ detail }) => tell({ held: detail }));
    answer.addEventListener("resume", () => tell({ status: "reconnecting" }));
    answer.addEventListener("start", () => tell({ status: "streaming" }));
    return new Promise((resolve) =>
      answer.addEventListener("finish", ({ detail }) => resolve(detail)),
    );
  }

  /** Stop the answer that is coming; what came of it stays. */
  stop = () => this.#ended.abort();

  /** @param {Partial<AnswerState>} change @param {boolean} [now] */
  #tell(change, now = false) {
    this.#state = { ...this.#state, ...change };
    if (now) this.#show();
    else this.#frame ??= nextFrame(() => this.#show());
  }

  #show() {
    if (this.#frame !== undefined) dropFrame(this.#frame);
    this.#frame = undefined;
    this.#shown = this.#state;
    for (const listener of this.#listeners)
      try {
        listener();
      } catch (error) {
        // As with listeners of events: the answer goes on.
        (globalThis.reportError ?? console.error)(error);
      }
  }
}

// Node, Deno and Bun have no frames.
/** @param {() => void} show @returns {number} */
const nextFrame = (show) => (globalThis.requestAnimationFrame ?? setTimeout)(show);
/** @param {number} frame */
const dropFrame = (frame) => (globalThis.cancelAnimationFrame ?? clearTimeout)(frame);

/**
 * Read an answer that does not come from a bridge.
 * @param {Deltas | Promise<Deltas>} answer
 * @param {AbortSignal} signal
 * @param {(delta: import("./detok-stream.js").Delta) => void} take
 * @returns {Promise<AnswerEnd>}
 */
async function readThrough(answer, signal, take) {
  /** @param {string} reason @param {EndDetails} [why] @returns {AnswerEnd} */
  const end = (reason, why) => ({ reason, at: performance.timeOrigin + performance.now(), ...why });
  /** @type {() => void} */
  let wake = () => {};
  signal.addEventListener("abort", () => wake());
  /**
   * What a promise gives; undefined once the signal aborts. `Promise.race` with one promise for the
   * whole answer would keep every delta until its end.
   * @template T
   * @param {T | Promise<T>} promise
   * @returns {Promise<T | undefined>}
   */
  const unlessAborted = (promise) =>
    new Promise((resolve, reject) => {
      wake = () => resolve(undefined);
      if (signal.aborted) wake();
      Promise.resolve(promise).then(resolve, reject);
    });
  try {
    const given = await unlessAborted(answer);
    if (signal.aborted) {
      Promise.resolve(answer)
        .then((late) => reading(late)[1]())
        .catch(() => {});
      return end("cancelled");
    }
    if (!given)
      throw new DetokError(
        `The function that answers returned ${given}, and must return an answer.`,
        { kind: "option" },
      );
    const [next, leave] = reading(given);
    for (;;) {
      const part = await unlessAborted(next());
      if (!part || signal.aborted) {
        leave()?.catch(() => {});
        return end("cancelled");
      }
      if (part.done) return end(typeof part.value === "string" ? part.value : "end");
      take(typeof part.value === "string" ? { channel: "content", text: part.value } : part.value);
    }
  } catch (error) {
    return signal.aborted ? end("cancelled") : end("error", { error: asDetokError(error) });
  }
}

/**
 * Functions that read the next delta and that end reading. Safari cannot iterate a stream.
 * @param {Deltas} deltas
 * @returns {[next: () => Promise<IteratorResult<DeltaOrText, unknown>>,
 *   leave: () => Promise<unknown> | undefined]}
 */
function reading(deltas) {
  if (deltas instanceof ReadableStream) {
    const reader = deltas.getReader();
    return [() => reader.read(), () => reader.cancel()];
  }
  const iterator = deltas[Symbol.asyncIterator]();
  return [() => iterator.next(), () => iterator.return?.()];
}
