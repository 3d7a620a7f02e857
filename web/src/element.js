/**
 * `<detok-text src="/stream" prompt="…">`: an answer as it comes, in an element.
 *
 * In: the attributes `src` (a bridge's WebSocket) and `prompt`; or the property `request`, as for
 * `connect`; or the property `stream`, an async iterable or ReadableStream of strings or deltas.
 * Out: a text node in the element, without a shadow root; the events `delta`, `held`, `finish`,
 * `error`; the attribute `data-state`: idle, streaming, finished, error.
 */

import { Answer } from "./connect.js";
import { asDetokError } from "./decoder.js";

/** @typedef {import("./detok-stream.js").Delta} Delta */
/** @typedef {import("./connect.js").AnswerOptions} AnswerOptions */

/** The element. Servers, which have no HTMLElement, can import it too. */
export class DetokText
  extends /** @type {typeof HTMLElement} */ (globalThis.HTMLElement ?? Object)
{
  /** The attributes that ask again when they change. */
  static observedAttributes = ["src", "prompt"];

  #text = /** @type {Text | undefined} */ (undefined);
  /** The stream that is being shown. @type {{cancel(): void} | undefined} */
  #source;
  /** @type {AnswerOptions | undefined} */
  #request;
  #waiting = false;
  /** Whether the stream that is being shown has ended. */
  #ended = false;
  /** Whether what to ask has changed outside of a page. */
  #stale = false;

  /** Called by the browser when the element is in a page: asks. */
  connectedCallback() {
    // Attributes that the page has set stay. A log is not read out with every token by default.
    for (const [name, value] of Object.entries({
      role: "log",
      "aria-live": "off",
      dir: "auto",
      "data-state": "idle",
    })) {
      if (!this.hasAttribute(name)) this.setAttribute(name, value);
    }
    this.style.whiteSpace ||= "pre-wrap";
    if (this.#stale || (!this.#source && !this.#ended)) this.#startSoon();
  }

  /** Called by the browser when the element has left its page: stops. */
  disconnectedCallback() {
    // An element that was only moved is connected again by then.
    queueMicrotask(() => {
      if (this.isConnected) return;
      this.stop();
      this.#ended = false; // it asks again when it is put back
    });
  }

  /**
   * Called by the browser when an attribute has been set: asks again if it has changed.
   * @param {string} name
   * @param {string | null} before
   * @param {string | null} value
   */
  attributeChangedCallback(name, before, value) {
    if (value !== before) this.#changed();
  }

  /** A request, instead of a prompt alone. @returns {AnswerOptions | undefined} */
  get request() {
    return this.#request;
  }

  /** Set it to ask. */
  set request(request) {
    this.#request = request;
    this.#changed();
  }

  /**
   * Show this instead of asking a bridge.
   * @param {ReadableStream<string | Delta> | AsyncIterable<string | Delta>} stream
   */
  set stream(stream) {
    const from = "getReader" in stream ? readerOf(stream) : stream[Symbol.asyncIterator]();
    const source = {
      cancel: () => {
        Promise.resolve(from.return?.()).catch(() => {}); // it is not wanted any more
        if (source === this.#source) this.#finish({ reason: "cancelled" });
      },
    };
    this.#begin(source);
    (async () => {
      try {
        for (let part = await from.next(); !part.done; part = await from.next()) {
          if (source !== this.#source) return;
          this.#show(
            typeof part.value === "string" ? { channel: "content", text: part.value } : part.value,
          );
        }
        if (source === this.#source) this.#finish({ reason: "end" });
      } catch (error) {
        if (source === this.#source) this.#finish({ reason: "error", error: asDetokError(error) });
      }
    })();
  }

  /** The text so far. */
  get text() {
    return this.#text?.data ?? "";
  }

  /** Ask again, from the beginning. */
  start() {
    const url = this.getAttribute("src");
    const prompt = this.getAttribute("prompt");
    const request = this.#request ?? (prompt === null ? undefined : { prompt });
    if (!url || !request) return;
    const answer = new Answer(url, request);
    this.#begin(answer);
    /** @param {string} type @param {(detail: any) => void} take */
    const on = (type, take) =>
      answer.addEventListener(type, (event) => {
        if (answer === this.#source) take(/** @type {CustomEvent} */ (event).detail);
      });
    on("delta", (delta) => this.#show(delta));
    on("held", (held) => this.#tell("held", held));
    on("finish", (finish) => this.#finish(finish));
  }

  /** Stop, and keep the text. */
  stop() {
    this.#source?.cancel();
  }

  /** Ask again, outside of a page once it is in one; a stream that was given is shown first. */
  #changed() {
    if (this.isConnected) this.#startSoon();
    else this.#stale = !this.#source || this.#source instanceof Answer;
  }

  /** Start once for several changed attributes. */
  #startSoon() {
    if (this.#waiting) return;
    this.#waiting = true;
    queueMicrotask(() => {
      this.#waiting = false;
      if (this.isConnected) this.start();
    });
  }

  /** @param {{cancel(): void}} source */
  #begin(source) {
    const last = this.#source;
    this.#source = source;
    last?.cancel();
    this.#ended = this.#stale = false;
    this.replaceChildren((this.#text = document.createTextNode("")));
    this.dataset.state = "streaming";
  }

  /** @param {Delta} delta */
  #show(delta) {
    if (delta.channel === "content") this.#text?.appendData(delta.text);
    this.#tell("delta", delta);
  }

  /** @param {{reason: string, error?: Error}} finish */
  #finish(finish) {
    this.#source = undefined;
    this.#ended = true;
    this.dataset.state = finish.reason === "error" ? "error" : "finished";
    if (finish.reason === "error") this.#tell("error", { error: finish.error });
    this.#tell("finish", finish);
  }

  /** @param {string} type @param {unknown} detail */
  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

/**
 * Make `<detok-text>` an element of this page. Does nothing on a server, or if the name is already
 * defined.
 * @param {string} [name]
 */
export function define(name = "detok-text") {
  // A class can have only one name, so define a subclass.
  if (globalThis.customElements && !customElements.get(name))
    customElements.define(name, class extends DetokText {});
}

/**
 * A stream as an iterator, which Safari's streams are not.
 * @param {ReadableStream<string | Delta>} stream
 * @returns {AsyncIterator<string | Delta>}
 */
function readerOf(stream) {
  const reader = stream.getReader();
  return {
    next: () => /** @type {Promise<IteratorResult<string | Delta>>} */ (reader.read()),
    return: async () => {
      await reader.cancel().catch(() => {});
      return { done: true, value: undefined };
    },
  };
}
