/**
 * Which bytes of a stream belong to no character, by the rules of the browser's own decoder
 * (Encoding Standard, UTF-8 decoder), and where a whole U+FFFD came. In: bytes, one after another.
 * Out: positions in the stream.
 */

/**
 * @typedef {object} Sign  A U+FFFD in the decoded text.
 * @property {number} at  Where in the stream the bytes begin that it stands for.
 * @property {boolean} genuine  Whether its own bytes came, EF BF BD.
 */

/** Reads bytes, and remembers those that are not UTF-8. */
export class Utf8Reader {
  /** Positions of bytes that U+FFFD stands for. @type {Set<number>} */
  replaced = new Set();
  length = 0;
  /**
   * Bytes of the open character that have come, and how many it has in all; 0 and 0 between
   * characters.
   */
  seen = 0;
  needed = 0;
  #lower = 0x80;
  #upper = 0xbf;
  #value = 0;

  /**
   * @param {Uint8Array} bytes
   * @returns {{replaced: number[], signs: Sign[]}}  The positions that are known to be replaced
   *   now, and each U+FFFD that the decoder's text has now.
   */
  feed(bytes) {
    /** @type {number[]} */
    const replaced = [];
    /** @type {Sign[]} */
    const signs = [];
    for (const byte of bytes) {
      const open = this.needed > 0;
      if (open && byte >= this.#lower && byte <= this.#upper) {
        this.#lower = 0x80;
        this.#upper = 0xbf;
        this.#value = (this.#value << 6) | (byte & 0x3f);
        if (++this.seen === this.needed) {
          if (this.#value === 0xfffd) signs.push({ at: this.length - 2, genuine: true });
          this.seen = this.needed = 0;
        }
      } else {
        if (open) this.#replaceOpen(replaced, signs);
        this.#begin(byte, replaced, signs);
      }
      this.length++;
    }
    return { replaced, signs };
  }

  /** Whole characters have come, between characters. @param {number} size  Of their bytes. */
  skip(size) {
    this.length += size;
  }

  /**
   * The stream is over: an open character is replaced.
   * @returns {{replaced: number[], signs: Sign[]}}
   */
  flush() {
    /** @type {number[]} */
    const replaced = [];
    /** @type {Sign[]} */
    const signs = [];
    if (this.needed) this.#replaceOpen(replaced, signs);
    return { replaced, signs };
  }

  /** @param {number} byte @param {number[]} replaced @param {Sign[]} signs */
  #begin(byte, replaced, signs) {
    if (byte < 0x80) return;
    if (byte < 0xc2 || byte > 0xf4) {
      this.replaced.add(this.length);
      replaced.push(this.length);
      signs.push({ at: this.length, genuine: false });
      return;
    }
    this.seen = 1;
    this.needed = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    this.#value = byte & (0x7f >> this.needed);
    this.#lower = byte === 0xe0 ? 0xa0 : byte === 0xf0 ? 0x90 : 0x80;
    this.#upper = byte === 0xed ? 0x9f : byte === 0xf4 ? 0x8f : 0xbf;
  }

  /** @param {number[]} replaced @param {Sign[]} signs */
  #replaceOpen(replaced, signs) {
    signs.push({ at: this.length - this.seen, genuine: false });
    for (let at = this.length - this.seen; at < this.length; at++) {
      this.replaced.add(at);
      replaced.push(at);
    }
    this.seen = this.needed = 0;
    this.#lower = 0x80;
    this.#upper = 0xbf;
  }
}
