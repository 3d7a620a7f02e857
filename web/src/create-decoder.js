/**
 * Token ids or bytes to text, one call after another, for a loop of your own:
 * `for (const id of ids) bubble.append(decoder.push(id))`.
 */

import { asBytes, asIds } from "./chunks.js";
import { DetokError } from "./decoder.js";
import { shaper } from "./graphemes.js";
import { checked } from "./options.js";
import { State, contentOf, find, halfSymbol, plain, stepTable } from "./step-table.js";

/**
 * @typedef {import("./step-table.js").Options} Options
 * @typedef {import("./step-table.js").Sym} Sym
 *
 * @typedef {object} Held  What waits for later tokens.
 * @property {number} bytes  Bytes of an unfinished character.
 * @property {string} text   Text that may become a stop string, a tag or a marker.
 */

/** Bytes that are decoded at a time, and symbols that one question to Python has at most. */
const PIECE = 1 << 16;
const SYMBOLS_A_CALL = 1 << 12;

/**
 * Make a decoder. With a vocabulary, stops, tags or markers it waits for the runtime, and rejects
 * with a DetokError where that cannot be had; bytes alone need none.
 * @param {Options} [options]
 * @example
 * const decoder = await createDecoder({ vocabulary, stop: ["</s>"] });
 * for (const id of ids) bubble.append(decoder.push(id));
 * bubble.append(decoder.flush() + (await decoder.ready()));
 */
export async function createDecoder(options) {
  const decoder = new Decoder(options);
  await decoder.begun;
  return decoder;
}

/**
 * A stream without streams. A call returns what has become certain and was not returned yet: a
 * string, or deltas with `output: "deltas"`. What a step does is learned once, from Python: where
 * this page has not met it before, its text comes with a later call, or with `ready`; never wrong,
 * never out of order. Bytes become text by the browser's TextDecoder, which gives with each feed
 * what the core gives, so without stops, tags and a vocabulary nothing is asked for.
 */
export class Decoder {
  #shape;
  #deltas;
  /** Whether a step's text can be returned as it is. */
  #direct;
  #table;
  #utf8;
  /** The last bytes. @type {number[]} */
  #tail = [];
  #state;
  /** Symbols whose steps are not known yet. @type {Sym[]} */
  #queue = [];
  /** What came of them and was not returned yet. @type {import("./step-table.js").Said[]} */
  #late = [];
  /** @type {Promise<void> | undefined} */
  #filling;
  /** @type {unknown} */
  #failed;
  /** The calls so far, in a format. @type {import("./detok-stream.js").Call[]} */
  calls = [];

  /** @param {Options} [given] */
  constructor(given = {}) {
    const options = checked(given);
    const { output, vocabulary, granularity, fatal = false } = options;
    this.#shape = shaper(granularity, this.calls);
    this.#deltas = output === "deltas";
    this.#direct = granularity !== "grapheme" && !this.#deltas;
    this.#table = stepTable(options);
    this.#utf8 = vocabulary ? undefined : new TextDecoder("utf-8", { fatal, ignoreBOM: true });
    this.#state = this.#table
      ? (this.#table.start ?? new State(["", null, 0, "", "content"]))
      : plain;
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
    if (!this.#state.json && this.#table) this.#state = await this.#table.begun;
  }

  /** How many symbols wait for Python. */
  get waiting() {
    return this.#queue.length;
  }

  /**
   * What is held: bytes of an unfinished character, and text that may become a stop, a tag or a
   * marker.
   * @returns {Held}
   */
  get held() {
    const { bytes, text } = this.#state.held;
    return { bytes: bytes || this.#half().length, text };
  }

  /** The bytes of an unfinished character. */
  #half() {
    for (let n = 1; n < 4; n++) {
      const end = this.#tail.slice(-n);
      const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
      // The first byte of a character, and nothing that ends it.
      if (Number(end[0]) > 0xc1 && !utf8.decode(new Uint8Array(end), { stream: true })) return end;
    }
    return [];
  }

  /** Take one id: the quickest way. @param {number} id @returns {any} */
  push(id) {
    if (this.#direct && !this.#utf8 && !this.#late.length && !this.#failed && !this.finishReason) {
      if (this.#queue.length) {
        this.#queue.push(...asIds(id));
        return "";
      }
      const step = this.#state.steps.get(id);
      if (step?.text !== undefined) {
        this.#state = step.next;
        return step.text;
      }
    }
    return this.feed(id);
  }

  /**
   * Take ids (a number, an array, a typed array), or bytes where there is no vocabulary. An id that
   * is refused is a DetokError: at once, and nothing of the chunk is taken; or, if it was not known
   * yet, from a later call, and it alone is left out.
   * @param {unknown} chunk
   * @returns {any}
   */
  feed(chunk) {
    if (!this.#utf8) return this.#take(asIds(chunk));
    const bytes = asBytes(chunk);
    const texts = [];
    for (let at = 0; at < bytes.length; at += PIECE)
      texts.push(this.#text(bytes.subarray(at, at + PIECE)));
    this.#tail = [...this.#tail, ...bytes.subarray(-3)].slice(-3);
    /** @type {Sym[]} */
    const symbols = texts.filter(Boolean);
    const half = this.#table ? this.#half() : [];
    if (half.length) symbols.push(halfSymbol(half));
    return this.#take(symbols);
  }

  /** End the text; return what was held. What is fed later is dropped. @returns {any} */
  flush() {
    const rest = this.#utf8 && this.#text();
    this.#tail = [];
    return this.#take(rest ? [rest, null] : [null]);
  }

  /**
   * Wait until all that was given is decoded; resolves to what has not been returned yet.
   * @param {(given: any) => any} [take]  Takes it before anything that comes later is returned.
   * @returns {Promise<any>}
   */
  async ready(take = (given) => given) {
    while (this.#filling) await this.#filling;
    return take(this.#take([]));
  }

  /** @param {Uint8Array} [bytes]  The next ones; without them, the end. */
  #text(bytes) {
    try {
      return this.#utf8?.decode(bytes, { stream: bytes !== undefined }) ?? "";
    } catch (cause) {
      throw new DetokError("These bytes are not UTF-8; without `fatal` they are shown as U+FFFD.", {
        cause,
      });
    }
  }

  /** @param {Sym[]} symbols @returns {any} */
  #take(symbols) {
    const failed = this.#failed;
    this.#failed = undefined;
    if (failed) throw failed;
    const before = this.#state;
    /** @type {import("./step-table.js").Said[]} */
    const out = [];
    let at = 0;
    if (!this.#queue.length)
      for (; at < symbols.length && !this.finishReason; at++) {
        const step = find(this.#state, /** @type {Sym} */ (symbols[at]));
        if (!step) break;
        if (step.error) {
          this.#state = before;
          throw new DetokError(step.error);
        }
        this.#apply(step, out);
      }
    if (!this.finishReason) this.#queue.push(...symbols.slice(at));
    if (this.#queue.length) this.#filling ??= this.#fill();
    const deltas = [...this.#late, ...out];
    this.#late = [];
    const shown = this.#shape(deltas, this.finishReason !== null);
    return this.#deltas ? shown : contentOf(shown.map(({ channel, text }) => [channel, text]));
  }

  /** @param {import("./step-table.js").Step} step @param {import("./step-table.js").Said[]} out */
  #apply(step, out) {
    out.push(...step.deltas);
    this.#state = step.next;
    this.finishReason = step.reason;
  }

  /** Ask for steps until no symbol waits. Never rejects: the next call tells what went wrong. */
  async #fill() {
    const queue = this.#queue;
    try {
      await this.#begin();
      while (queue.length) {
        const step = find(this.#state, /** @type {Sym} */ (queue[0]));
        const steps = step
          ? [step]
          : ((await this.#table?.walk(this.#state, queue.slice(0, SYMBOLS_A_CALL))) ?? []);
        queue.splice(0, steps.length);
        for (const step of steps) {
          if (step.error) this.#failed = new DetokError(step.error);
          else this.#apply(step, this.#late);
        }
        if (this.finishReason) queue.length = 0;
      }
    } catch (error) {
      this.#failed = error;
    }
    this.#filling = undefined;
  }
}
