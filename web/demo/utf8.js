/**
 * Which bytes of a stream belong to no character, by the rules of the browser's own decoder (Encoding Standard, UTF-8
 * decoder), and where a whole U+FFFD came. In: bytes, one after another. Out: positions in the stream.
 */

/** Reads bytes, and remembers those that are not UTF-8. */
export class Utf8Reader {
  /** Positions of bytes that U+FFFD stands for. @type {Set<number>} */
  replaced = new Set();
  length = 0;
  /** Bytes of the open character that have come, and how many it has in all; 0 and 0 between characters. */
  seen = 0;
  needed = 0;
  #lower = 0x80;
  #upper = 0xbf;
  #value = 0;

  /**
   * @param {Uint8Array} bytes
   * @returns {{replaced: number[], genuine: number}}  The positions that are known to be replaced now, and how many
   *   characters U+FFFD have ended here.
   */
  feed(bytes) {
    /** @type {number[]} */
    const replaced = [];
    let genuine = 0;
    for (const byte of bytes) {
      const open = this.needed > 0;
      if (open && byte >= this.#lower && byte <= this.#upper) {
        this.#lower = 0x80;
        this.#upper = 0xbf;
        this.#value = (this.#value << 6) | (byte & 0x3f);
        if (++this.seen === this.needed) {
          if (this.#value === 0xfffd) genuine++;
          this.seen = this.needed = 0;
        }
      } else {
        if (open) this.#replaceOpen(replaced);
        this.#begin(byte, replaced);
      }
      this.length++;
    }
    return { replaced, genuine };
  }

  /** The stream is over: an open character is replaced. @returns {number[]} */
  flush() {
    /** @type {number[]} */
    const replaced = [];
    if (this.needed) this.#replaceOpen(replaced);
    return replaced;
  }

  /** @param {number} byte @param {number[]} replaced */
  #begin(byte, replaced) {
    if (byte < 0x80) return;
    if (byte < 0xc2 || byte > 0xf4) {
      this.replaced.add(this.length);
      replaced.push(this.length);
      return;
    }
    this.seen = 1;
    this.needed = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    this.#value = byte & (0x7f >> this.needed);
    this.#lower = byte === 0xe0 ? 0xa0 : byte === 0xf0 ? 0x90 : 0x80;
    this.#upper = byte === 0xed ? 0x9f : byte === 0xf4 ? 0x8f : 0xbf;
  }

  /** @param {number[]} replaced */
  #replaceOpen(replaced) {
    for (let at = this.length - this.seen; at < this.length; at++) {
      this.replaced.add(at);
      replaced.push(at);
    }
    this.seen = this.needed = 0;
    this.#lower = 0x80;
    this.#upper = 0xbf;
  }
}
