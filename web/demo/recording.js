/**
 * A stream as a list of steps that the page can walk in both directions: what came, when, and what each of the three
 * decoders made of it. Nothing here paints.
 *
 * In: the library's rows, one for each token. Out: the text of a pane between two steps, the state of each byte, the next
 * broken token. The text of the hold-back pane and the held bytes are the library's; the other two panes are
 * `TextDecoder`. The last step of a finished stream is its end: it has no bytes, but the text that was still held.
 */

/** @typedef {import("../src/index.js").TokenRow} TokenRow */
/** @typedef {"held" | "naive" | "stream"} Pane */
/** @typedef {"complete" | "held" | "replaced"} ByteState */

/**
 * @typedef {object} Step
 * @property {number} at  Milliseconds since the stream began.
 * @property {number | null} id  Null if the engine gave no id.
 * @property {Uint8Array} bytes
 * @property {Uint8Array} heldBytes  What is held after this step.
 * @property {string} heldText  What a stop string holds after this step.
 * @property {string | null} special  The token's name if it is special and skipped.
 * @property {boolean} end
 * @property {Record<Pane, string>} text  What this step added to each pane.
 */

/** @type {Pane[]} */
export const PANES = ["held", "naive", "stream"];

const NO_BYTES = new Uint8Array(0);

/**
 * How many U+FFFD and how many lone surrogates are in `text`.
 * @param {string} text
 * @returns {{replacements: number, surrogates: number}}
 */
export function countBroken(text) {
  return {
    replacements: text.split("\ufffd").length - 1,
    surrogates: text.match(/\p{Surrogate}/gu)?.length ?? 0,
  };
}

/** A stream, step by step. */
export class Recording {
  /** @param {number} [begun]  When the stream began, in milliseconds since 1970; without it, when its first token came. */
  constructor(begun) {
    this.begun = begun;
    /** @type {Step[]} */
    this.steps = [];
    this.ended = false;
  }

  #stream = new TextDecoder("utf-8", { ignoreBOM: true });
  #replaced = new ReplacedBytes();
  /** Where each step's bytes begin in the stream. @type {number[]} */
  #offsets = [];

  get length() {
    return this.steps.length;
  }

  /** @param {number} n */
  step(n) {
    const step = this.steps[n];
    if (!step) throw new RangeError(`There is no step ${n}: the recording has ${this.length}.`);
    return step;
  }

  /** Add a token. @param {TokenRow} row @param {number} at  When it came, in milliseconds since 1970. */
  add({ text, ...row }, at) {
    this.begun ??= at;
    this.#offsets.push(this.#replaced.length);
    this.#replaced.feed(row.bytes);
    this.steps.push({
      ...row,
      at: at - this.begun,
      end: false,
      text: {
        held: text,
        naive: new TextDecoder().decode(row.bytes),
        stream: this.#stream.decode(row.bytes, { stream: true }),
      },
    });
  }

  /** The stream is over. @param {string} text  What was still held and is text now. @param {number} at */
  end(text, at) {
    if (this.ended) return;
    this.ended = true;
    this.#offsets.push(this.#replaced.length);
    this.#replaced.flush();
    this.steps.push({
      at: at - (this.begun ?? at),
      id: null,
      bytes: NO_BYTES,
      heldBytes: NO_BYTES,
      heldText: "",
      special: null,
      end: true,
      text: { held: text, naive: "", stream: this.#stream.decode() },
    });
  }

  /**
   * The text that the steps `from` up to `to` added to a pane.
   * @param {Pane} pane
   * @param {number} from
   * @param {number} to
   */
  text(pane, from, to) {
    let text = "";
    for (let i = from; i < to; i++) text += this.step(i).text[pane];
    return text;
  }

  /**
   * The state of byte `i` of step `n`. A byte that was held for a later token stays "held" when that token has come.
   * @param {number} n
   * @param {number} i
   * @returns {ByteState}
   */
  stateOf(n, i) {
    const { bytes, heldBytes } = this.step(n);
    if (this.#replaced.has((this.#offsets[n] ?? 0) + i)) return "replaced";
    return i >= bytes.length - heldBytes.length ? "held" : "complete";
  }

  /** The first step at or after `from` whose bytes the naive decoder broke, or -1. @param {number} from */
  nextFault(from) {
    for (let n = from; n < this.length; n++) {
      const { bytes, text } = this.step(n);
      if (countBroken(text.naive).replacements > countBroken(text.stream).replacements) return n;
      if (bytes.some((_, i) => this.stateOf(n, i) === "replaced")) return n;
    }
    return -1;
  }
}

/**
 * Which bytes of a stream belong to no character, as the browser's own decoder says when it gets them one by one. The
 * decoder gives a U+FFFD for the bytes before a byte that cannot continue them, then what it makes of that byte itself.
 */
class ReplacedBytes {
  #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  /** @type {Set<number>} Positions in the stream. */
  #positions = new Set();
  /** The bytes at the end of the stream that the decoder still waits with. @type {number[]} */
  #open = [];
  length = 0;

  /** @param {number} position */
  has(position) {
    return this.#positions.has(position);
  }

  /** @param {Uint8Array} bytes */
  feed(bytes) {
    for (const byte of bytes) {
      const text = this.#decoder.decode(Uint8Array.of(byte), { stream: true });
      const character = [...this.#open, byte];
      this.length++;
      if (!text) this.#open = character;
      else if (character.join() === "239,191,189")
        this.#open = []; // U+FFFD itself
      else {
        const replaced = text.split("\ufffd").length - 1;
        const before = this.#open.length ? 1 : 0;
        if (replaced && before) this.#replaceOpen(1);
        // Of a byte that ended an open character and is itself neither text nor replaced, the decoder waits for more.
        const waits = text.length === replaced && replaced === before;
        if (replaced > before) this.#positions.add(this.length - 1);
        this.#open = waits ? [byte] : [];
      }
    }
  }

  /** The stream is over. */
  flush() {
    if (this.#decoder.decode()) this.#replaceOpen(0);
  }

  /** @param {0 | 1} after  How many bytes have come after the open ones. */
  #replaceOpen(after) {
    const end = this.length - after;
    for (let i = end - this.#open.length; i < end; i++) this.#positions.add(i);
    this.#open = [];
  }
}

/** @param {number} byte */
export function toHex(byte) {
  return byte.toString(16).toUpperCase().padStart(2, "0");
}
