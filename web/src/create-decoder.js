/**
 * Token ids or bytes to text, one call after another, for a loop of your own:
 * `for (const id of ids) bubble.append(decoder.push(id))`.
 */

import { asBytes, asIds } from "./chunks.js";
import { DetokError } from "./decoder.js";
import { shaper } from "./graphemes.js";
import { checked } from "./options.js";
import { contentOf, find, decode, fromHex, plain, stepTable } from "./step-table.js";

/**
 * @typedef {import("./step-table.js").Options} Options
 * @typedef {import("./step-table.js").Sym} Sym
 *
 * @typedef {Sym | DetokError} Given  A symbol, or an error in the place of one.
 *
 * @typedef {object} Held  What waits for later tokens.
 * @property {number} bytes  Bytes of an unfinished character.
 * @property {string} text   Text that may become a stop string, a tag or a marker.
 */

/**
 * @template {"text" | "deltas" | undefined} [Output="text"]
 * @typedef {Output extends "deltas" ? import("./detok-stream.js").Delta[] : string} Shown  What a
 *   call returns.
 */

/**
 * @template {"text" | "deltas" | undefined} [Output="text"]
 * @typedef {object} Late  How text comes that was late.
 * @property {Output} [output]  Strings of the content, or deltas of all channels.
 * @property {(given: Shown<Output>) => void} [onText]  Is given text that was not known when its
 *   token was pushed, as soon as it is known. No call returns it then.
 */

/**
 * @template {"text" | "deltas" | undefined} [Output="text"]
 * @typedef {Omit<import("./detok-stream.js").StreamOptions, "output"> &
 *   import("./decoder.js").RuntimeOptions & Late<Output>} DecoderOptions  Those of `createDecoder`.
 */

/** Bytes that are decoded at a time, and symbols that one question to Python has at most. */
const PIECE = 1 << 16;
const SYMBOLS_A_CALL = 1 << 12;

/**
 * Make a decoder. With a vocabulary, stops, tags or markers it waits for the runtime, and rejects
 * with a DetokError where that cannot be had; bytes alone need none.
 * @template {"text" | "deltas" | undefined} [Output="text"]
 * @param {DecoderOptions<Output>} [options]
 * @returns {Promise<Decoder<Output>>}
 * @example
 * const decoder = await createDecoder({ vocabulary, stop: ["</s>"] });
 * for (const id of ids) bubble.append(decoder.push(id));
 * bubble.append(decoder.flush() + (await decoder.ready()));
 */
export async function createDecoder(options) {
  /** @type {Decoder<Output>} */
  const decoder = new Decoder(options);
  const signal = options?.signal;
  signal?.throwIfAborted();
  await new Promise((resolve, reject) => {
    const onAbort = () => reject(signal?.reason);
    signal?.addEventListener("abort", onAbort);
    decoder.begun.then(resolve, reject).then(() => signal?.removeEventListener("abort", onAbort));
  });
  return decoder;
}

/**
 * A stream without streams. A call returns what has become certain and was not returned yet: a
 * string, or deltas with `output: "deltas"`. What a step does is learned once, from Python: where
 * this page has not met it before, its text comes with a later call, or with `ready`; never wrong,
 * never out of order. Bytes become text by the browser's TextDecoder, which gives with each feed
 * what the core gives, so without stops, tags and a vocabulary nothing is asked for.
 * @template {"text" | "deltas" | undefined} [Output="text"]
 */
export class Decoder {
  #shape;
  #onText;
  #deltas;
  /** Whether a step's text can be returned as it is. */
  #direct;
  #table;
  #utf8;
  /** The last bytes. */
  #tail = new Uint8Array();
  #state;
  /** Symbols whose steps are not known yet, and errors between them. @type {Given[]} */
  #queue = [];
  /** What came of them and was not returned yet. @type {import("./step-table.js").Said[]} */
  #late = [];
  /** @type {Promise<void> | undefined} */
  #filling;
  /** @type {unknown} */
  #failed;
  /** The calls so far, in a format. @type {import("./detok-stream.js").Call[]} */
  calls = [];

  /** @param {DecoderOptions<Output>} [given] */
  constructor(given = {}) {
    const options = checked(/** @type {Options} */ (given));
    const { output, vocabulary, granularity, fatal } = options;
    this.#onText = given.onText;
    this.#shape = shaper(granularity, this.calls);
    this.#deltas = output === "deltas";
    this.#direct = granularity !== "grapheme" && !this.#deltas;
    this.#table = stepTable(options);
    this.#utf8 = vocabulary ? undefined : new TextDecoder("utf-8", { fatal, ignoreBOM: true });
    this.#state = this.#table?.start ?? plain;
    /**
     * Why the text has ended: null, then "end", "stop", "eos", or "tool_calls" where a call ended
     * the turn.
     * @type {import("./step-table.js").Reason}
     */
    this.finishReason = null;
    /** Resolves when the decoder can begin. */
    this.begun = this.#begin();
    this.begun.catch(() => {}); // whoever feeds it is told
  }

  async #begin() {
    if (!this.#state.json) this.#state = /** @type {any} */ (await this.#table?.begun);
  }

  /** How many symbols wait for Python, or behind an error that was not thrown yet. */
  get waiting() {
    return this.#queue.length + (this.#failed ? 1 : 0);
  }

  /**
   * What is held: bytes of an unfinished character, and text that may become a stop, a tag or a
   * marker.
   * @returns {Held}
   */
  get held() {
    const { held, text } = this.#state;
    return { bytes: (held || decode(this.#tail)[1]).length / 2, text };
  }

  /** Take one id: the quickest way. @param {number} id @returns {Shown<Output>} */
  push(id) {
    const text = typeof id === "number" && this.#isFree() ? this.#pass(id) : undefined;
    return /** @type {Shown<Output>} */ (text ?? this.feed(id));
  }

  /** Whether the text of a known step can be returned at once. */
  #isFree() {
    return this.#direct && !this.#utf8 && !this.waiting && !this.#late.length && !this.finishReason;
  }

  /** Take an id whose step is only text; undefined if it is not. @param {number} id */
  #pass(id) {
    const text = this.#state.texts[id];
    if (text !== undefined) return text;
    const step = find(this.#state, id);
    if (typeof step !== "object") return step;
    if (step.text !== undefined) this.#state = step.next;
    return step.text;
  }

  /**
   * Take ids (a number, an array, a typed array), or bytes where there is no vocabulary. An id that
   * is refused is a DetokError, and so is a byte with `fatal`: it alone is left out, and the error
   * is thrown behind all text before it; from this call if there is none, else from the next one.
   * @param {unknown} chunk
   * @returns {Shown<Output>}
   */
  feed(chunk) {
    if (!this.#utf8) return this.#takeIds(asIds(chunk));
    const bytes = asBytes(chunk);
    /** @type {Given[]} */
    const symbols = [];
    for (let at = 0; at < bytes.length; at += PIECE)
      this.#read(bytes.subarray(at, at + PIECE), symbols);
    // The bytes that the TextDecoder holds are a negative number. They limit what text can come
    // next, so they may make held text certain.
    const half = this.#table && decode(this.#tail)[1];
    if (half) symbols.push(-parseInt(half, 16));
    return this.#take(symbols);
  }

  /** End the text; return what was held. What is fed later is dropped. @returns {Shown<Output>} */
  flush() {
    /** @type {Given[]} */
    const symbols = [null];
    try {
      const rest = this.#utf8?.decode();
      if (rest) symbols.unshift(rest);
    } catch {
      symbols.unshift(notUtf8());
    }
    this.#tail = new Uint8Array();
    return this.#take(symbols);
  }

  /**
   * Wait until all that was given is decoded; resolves to what has not been returned yet, up to an
   * error. While something is `waiting` behind it, call it again.
   * @template [Taken=Shown<Output>]
   * @param {(given: Shown<Output>) => Taken} [take]  Takes it before anything that comes later is
   *   returned.
   * @returns {Promise<Taken>}
   */
  async ready(take) {
    if (!this.#filling) this.#drain();
    while (this.#filling) await this.#filling;
    const given = this.#take([]);
    return take ? take(given) : /** @type {any} */ (given);
  }

  /** Append the text of bytes. @param {Uint8Array} bytes @param {Given[]} symbols */
  #read(bytes, symbols) {
    try {
      const text = this.#utf8?.decode(bytes, { stream: true });
      if (text) symbols.push(text);
      this.#tail = Uint8Array.of(...this.#tail, ...bytes.subarray(-3)).slice(-3);
    } catch {
      this.#utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
      this.#utf8.decode(fromHex(decode(this.#tail)[1]), { stream: true });
      if (bytes.length === 1) symbols.push(notUtf8());
      else for (const byte of bytes) this.#read(Uint8Array.of(byte), symbols);
    }
  }

  /** Take ids; as long as nothing waits, without queues. @param {number[]} ids */
  #takeIds(ids) {
    let text = "";
    let at = 0;
    if (this.#isFree()) {
      for (; at < ids.length; at++) {
        const more = this.#pass(/** @type {number} */ (ids[at]));
        if (more === undefined) break;
        text += more;
      }
      if (at === ids.length) return /** @type {Shown<Output>} */ (text);
    }
    if (text) this.#late.push(["content", text]);
    return this.#take(ids.slice(at));
  }

  /** @param {Given[]} symbols @returns {Shown<Output>} */
  #take(symbols) {
    for (const symbol of symbols) this.#queue.push(symbol);
    if (!this.#filling) this.#drain();
    const { length } = this.#late;
    if (this.#failed && !length) {
      const error = this.#failed;
      this.#failed = undefined;
      throw error;
    }
    return this.#given();
  }

  /** What has come and was not returned yet. @returns {any} */
  #given() {
    const shown = this.#shape(this.#late.splice(0), !!this.finishReason);
    return this.#deltas ? shown : contentOf(shown.map(({ channel, text }) => [channel, text]));
  }

  /** Take the steps that are known, up to an error. */
  #drain() {
    const queue = this.#queue;
    let at = 0;
    while (at < queue.length && !this.#failed && !this.finishReason) {
      const symbol = /** @type {Given} */ (queue[at]);
      const step =
        symbol instanceof DetokError ? void (this.#failed = symbol) : find(this.#state, symbol);
      if (step !== undefined) this.#apply(step);
      else if (!this.#failed) break;
      at++;
    }
    queue.splice(0, this.finishReason ? queue.length : at);
    if (queue.length && !this.#failed) this.#filling ??= this.#fill();
  }

  /** @param {import("./step-table.js").Step | string} step */
  #apply(step) {
    if (typeof step === "string") this.#late.push(["content", step]);
    else if (step.error) this.#failed = new DetokError(step.error);
    else {
      this.#late.push(...step.deltas);
      this.#state = step.next;
      this.finishReason = step.reason;
    }
  }

  /** Ask for steps until no symbol waits. Never rejects: a later call tells what went wrong. */
  async #fill() {
    const queue = this.#queue;
    try {
      await this.#begin();
      for (this.#drain(); queue.length && !this.#failed; this.#drain()) {
        const end = queue.findIndex((symbol) => symbol instanceof DetokError);
        const symbols = /** @type {Sym[]} */ (queue.slice(0, end < 0 ? SYMBOLS_A_CALL : end));
        for (const step of (await this.#table?.walk(this.#state, symbols)) ?? []) {
          this.#apply(step);
          queue.shift();
          if (this.#failed) break;
        }
        if (this.#late.length) this.#onText?.(this.#given());
      }
    } catch (error) {
      this.#failed = error;
    }
    this.#filling = undefined;
  }
}

const notUtf8 = () =>
  new DetokError("These bytes are not UTF-8; without `fatal` they are shown as U+FFFD.");
