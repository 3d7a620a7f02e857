/**
 * An answer as the state of a user interface, for any framework: what react.js, vue.js and
 * svelte.js share.
 *
 * In: a prompt or messages, by `send`. Out: text, reasoning and tool calls so far; listeners are
 * called at most once a frame. Held: one answer.
 */

import { Answer } from "./connect.js";
import { readToolCalls, toolCallOf } from "./tool-calls.js";

/**
 * @typedef {object} AnswerState  An answer as a page shows it.
 * @property {string} text       The content so far.
 * @property {string} reasoning  The reasoning so far.
 * @property {import("./tool-calls.js").ToolCall[]} toolCalls  The tool calls so far; the last may
 *   be unfinished.
 * @property {import("./create-decoder.js").Held} held  What waits for later tokens.
 * @property {"ready" | "submitted" | "streaming" | "reconnecting" | "error"} status  "ready" to
 *   ask, also after an answer.
 * @property {Error | undefined} error  Why the last answer failed.
 * @property {import("./connect.js").Finish | undefined} finish  How the last answer ended.
 *
 * @typedef {import("./connect.js").AnswerOptions} AnswerOptions
 * @typedef {import("./tool-calls.js").ToolCall} ToolCall
 *
 * @typedef {object} Asking  What asks and stops.
 * @property {AnswerStore["send"]} send  Asks with a prompt, or what `connect` takes.
 * @property {() => void} stop  Stops the answer that is coming; what came of it stays.
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

/** The answer of one component. Listeners are called at most once a frame. */
export class AnswerStore {
  /**
   * @param {string | URL} [url]  The bridge's WebSocket.
   * @param {AnswerOptions} [options]  Those of `send` overrule them.
   */
  constructor(url = "", options = {}) {
    /** The bridge's WebSocket, of the next answer. */
    this.url = url;
    /** Those of the next answer. */
    this.options = options;
  }

  #state = NOTHING;
  #shown = NOTHING;
  #tool = "";
  /** @type {import("./connect.js").Answer | undefined} */
  #answer;
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
   * @param {string | AnswerOptions} request  A prompt, or what `connect` takes.
   */
  send = (request) => {
    this.#answer?.cancel();
    const answer = new Answer(this.url, {
      ...this.options,
      ...(typeof request === "string" ? { prompt: request } : request),
    });
    this.#answer = answer;
    this.#tool = "";
    this.#tell({ ...NOTHING, status: "submitted" });
    /** @param {string} type @param {(detail: any) => void} take */
    const on = (type, take) =>
      answer.addEventListener(type, (event) => {
        if (answer === this.#answer) take(/** @type {CustomEvent} */ (event).detail);
      });
    on("delta", ({ channel, text, call }) => {
      if (call !== undefined)
        this.#tell({ toolCalls: answer.calls.map(toolCallOf), status: "streaming" });
      else if (channel === "content")
        this.#tell({ text: this.#state.text + text, status: "streaming" });
      else if (channel === "reasoning")
        this.#tell({ reasoning: this.#state.reasoning + text, status: "streaming" });
      else this.#tell({ toolCalls: readToolCalls((this.#tool += text)), status: "streaming" });
    });
    on("held", (held) => this.#tell({ held }));
    on("resume", () => this.#tell({ status: "reconnecting" }));
    on("start", () => this.#tell({ status: "streaming" }));
    on("finish", (finish) => {
      this.#tell(
        {
          status: finish.reason === "error" ? "error" : "ready",
          error: finish.reason === "error" ? finish.error : undefined,
          finish,
          held: NOTHING.held,
        },
        true,
      );
    });
    return answer.finished;
  };

  /** Stop the answer that is coming; what came of it stays. */
  stop = () => this.#answer?.cancel();

  /** @param {Partial<AnswerState>} change @param {boolean} [now] */
  #tell(change, now = false) {
    this.#state = { ...this.#state, ...change };
    if (now) this.#show();
    else this.#frame ??= requestAnimationFrame(() => this.#show());
  }

  #show() {
    if (this.#frame !== undefined) cancelAnimationFrame(this.#frame);
    this.#frame = undefined;
    this.#shown = this.#state;
    for (const listener of this.#listeners) listener();
  }
}
