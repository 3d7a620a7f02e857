/**
 * Which bytes of a stream belong to no character, by the rules of the browser's own decoder
 * (Encoding Standard, UTF-8 decoder), and where a whole U+FFFD came. In: bytes, one after another.
 * Out: positions in the stream.
 */

/**
 * @typedef {object} Sign  A U+FFFD in the decoded text.
 * @property {number} at  Where in the stream the bytes begin that it stands for.
 * @property {boolean} genuine  Whether its own bytes came, EF BF BD.
 *
 * @typedef {{replaced: number[], signs: Sign[]}} Found  The positions that are known to be replaced
 *   now, and each U+FFFD that the decoder's text has now.
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
  /** What the bytes of the last call have shown. @type {Found} */
  #found = { replaced: [], signs: [] };

  /** @param {Uint8Array} bytes */
  feed(bytes) {
    this.#found = { replaced: [], signs: [] };
    for (const byte of bytes) {
      const open = this.needed > 0;
      if (open && byte >= this.#lower && byte <= this.#upper) {
        this.#lower = 0x80;
        this.#upper = 0xbf;
        this.#value = (this.#value << 6) | (byte & 0x3f);
        if (++this.seen === this.needed) {
          if (this.#value === 0xfffd)
            this.#found.signs.push({ at: this.length - 2, genuine: true });
          this.seen = this.needed = 0;
        }
      } else {
        if (open) this.#replaceOpen();
        this.#begin(byte);
      }
      this.length++;
    }
    return this.#found;
  }

  /** Whole characters have come, between characters. @param {number} size  Of their bytes. */
  skip(size) {
    this.length += size;
  }

  /** The stream is over: an open character is replaced. */
  flush() {
    this.#found = { replaced: [], signs: [] };
    if (this.needed) this.#replaceOpen();
    return this.#found;
  }

  /** @param {number} byte */
  #begin(byte) {
    if (byte < 0x80) return;
    if (byte < 0xc2 || byte > 0xf4) return this.#replace(this.length, this.length + 1);
    this.seen = 1;
    this.needed = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    this.#value = byte & (0x7f >> this.needed);
    this.#lower = byte === 0xe0 ? 0xa0 : byte === 0xf0 ? 0x90 : 0x80;
    this.#upper = byte === 0xed ? 0x9f : byte === 0xf4 ? 0x8f : 0xbf;
  }

  #replaceOpen() {
    this.#replace(this.length - this.seen, this.length);
    this.seen = this.needed = 0;
    this.#lower = 0x80;
    this.#upper = 0xbf;
  }

  /** One U+FFFD stands for some bytes. @param {number} from @param {number} to */
  #replace(from, to) {
    this.#found.signs.push({ at: from, genuine: false });
    for (let at = from; at < to; at++) {
      this.replaced.add(at);
      this.#found.replaced.push(at);
    }
  }
}
