/**
 * A stream as a list of steps that can be walked in both directions: what came, when, and what each of the three
 * decoders made of it. Nothing here paints, and nothing here decodes for the hold-back pane: that text comes from Python.
 *
 * In: tokens as the worker gives them. Out: `text(pane, from, to)`, byte states, counts. The last step of a finished stream
 * is its end: no bytes, but what the decoders still owed.
 */

/** @typedef {import("../src/client.js").TokenRow} TokenRow */
/** @typedef {"held" | "naive" | "stream"} Pane */
/** @typedef {"complete" | "held" | "replaced"} ByteState */

/**
 * @typedef {object} Step
 * @property {number} at       Milliseconds since the stream began.
 * @property {number | null} id  Null where the engine gave no id.
 * @property {Uint8Array} bytes
 * @property {Uint8Array} heldBytes  What is held after this step.
 * @property {string} heldText  What a stop string holds after this step.
 * @property {string | null} name  The token's name where it is special and skipped.
 * @property {boolean} end
 * @property {Record<Pane, string>} text  What this step added to each pane.
 */

/** @type {Pane[]} */
export const PANES = ["held", "naive", "stream"];

/**
 * How many U+FFFD and how many lone surrogates are in `text`.
 * @param {string} text
 * @returns {{replacements: number, surrogates: number}}
 */
export function countBroken(text) {
  let replacements = 0;
  let surrogates = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === 0xfffd) replacements++;
    else if (unit >= 0xd800 && unit <= 0xdfff) {
      const next = text.charCodeAt(i + 1);
      if (unit < 0xdc00 && next >= 0xdc00 && next <= 0xdfff) i++;
      else surrogates++;
    }
  }
  return { replacements, surrogates };
}

/**
 * Follows a byte stream and says of each byte what became of it. Length and range of each sequence are those of Table 3-7
 * of the Unicode Standard, and a broken sequence is replaced up to the byte that broke it ("maximal subparts").
 */
export class ByteLedger {
  constructor() {
    /** @type {ByteState[]} One for each byte so far; "held" while its character is not whole. */
    this.states = [];
    /** How many bytes of the open character have come, and how many it needs. */
    this.have = 0;
    this.need = 0;
    this.low = 0x80;
    this.high = 0xbf;
  }

  /**
   * Take a token's bytes. Bytes whose character ends in the same token become "complete"; those that waited stay "held".
   * @param {Uint8Array} bytes
   */
  feed(bytes) {
    const begins = this.states.length;
    for (const byte of bytes) {
      if (this.need && (byte < this.low || byte > this.high)) this.#replaceOpen();
      this.states.push("held");
      if (this.need) {
        this.have++;
        this.low = 0x80;
        this.high = 0xbf;
      } else this.#open(byte);
      if (this.need && this.have === this.need) {
        const from = this.states.length - this.have;
        for (let i = Math.max(from, begins); i < this.states.length; i++) this.states[i] = "complete";
        this.have = this.need = 0;
      }
    }
  }

  /** The stream is over: what is still open is replaced. */
  flush() {
    this.#replaceOpen();
  }

  /** @param {number} byte */
  #open(byte) {
    this.have = 1;
    this.low = byte === 0xe0 ? 0xa0 : byte === 0xf0 ? 0x90 : 0x80;
    this.high = byte === 0xed ? 0x9f : byte === 0xf4 ? 0x8f : 0xbf;
    this.need = byte < 0x80 ? 1 : byte < 0xc2 ? 0 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : byte < 0xf5 ? 4 : 0;
    if (!this.need) this.#replaceOpen();
  }

  #replaceOpen() {
    for (let i = this.states.length - this.have; i < this.states.length; i++) this.states[i] = "replaced";
    this.have = this.need = 0;
  }
}

/** A stream, step by step. */
export class Recording {
  constructor() {
    /** @type {Step[]} */
    this.steps = [];
    /** Where each step's bytes begin in `ledger.states`. @type {number[]} */
    this.offsets = [];
    this.ledger = new ByteLedger();
    this.ended = false;
    this.#streaming = new TextDecoder("utf-8", { ignoreBOM: true });
  }

  /** @type {TextDecoder} */
  #streaming;

  get length() {
    return this.steps.length;
  }

  /** @param {number} n */
  step(n) {
    const step = this.steps[n];
    if (!step) throw new RangeError(`There is no step ${n}: the recording has ${this.length}.`);
    return step;
  }

  /**
   * Add a token.
   * @param {TokenRow} row
   * @param {number} at  Milliseconds since the stream began.
   * @returns {Step}
   */
  add(row, at) {
    const [id, hex, text, heldHex, heldText, name = null] = row;
    const bytes = fromHex(hex);
    /** @type {Step} */
    const step = {
      at,
      id,
      bytes,
      heldBytes: fromHex(heldHex),
      heldText,
      name,
      end: false,
      text: {
        held: text,
        naive: new TextDecoder().decode(bytes),
        stream: this.#streaming.decode(bytes, { stream: true }),
      },
    };
    this.offsets.push(this.ledger.states.length);
    this.ledger.feed(bytes);
    this.steps.push(step);
    return step;
  }

  /**
   * The stream is over.
   * @param {string} text  What the hold-back decoder's flush gave.
   * @param {number} at
   */
  end(text, at) {
    if (this.ended) return;
    this.ended = true;
    this.ledger.flush();
    const none = new Uint8Array(0);
    const stream = this.#streaming.decode();
    this.offsets.push(this.ledger.states.length);
    this.steps.push({ at, id: null, bytes: none, heldBytes: none, heldText: "", name: null, end: true, text: { held: text, naive: "", stream } });
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
   * The state of byte `i` of step `n`.
   * @param {number} n
   * @param {number} i
   * @returns {ByteState}
   */
  stateOf(n, i) {
    return this.ledger.states[(this.offsets[n] ?? 0) + i] ?? "held";
  }

  /**
   * The first step at or after `from` whose bytes the naive decoder broke, or -1.
   * @param {number} from
   */
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
 * @param {string} hex
 * @returns {Uint8Array}
 */
export function fromHex(hex) {
  const bytes = new Uint8Array(hex.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(hex.slice(i * 2, i * 2 + 2), 16);
  return bytes;
}

/**
 * @param {Uint8Array} bytes
 */
export function hexOf(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * @param {number} byte
 */
export function toHex(byte) {
  return byte.toString(16).toUpperCase().padStart(2, "0");
}

/**
 * How many more bytes the character that `held` begins needs; 0 when nothing is held.
 * @param {Uint8Array} held
 */
export function missingBytes(held) {
  if (!held.length) return 0;
  // Only the last character can be open.
  let from = held.length - 1;
  while (from > 0 && isContinuation(held[from])) from--;
  const lead = held[from] ?? 0;
  const need = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 1;
  return Math.max(0, need - (held.length - from));
}

/** @param {number | undefined} byte */
function isContinuation(byte) {
  return byte !== undefined && byte >= 0x80 && byte < 0xc0;
}
