/**
 * The numbers of the page: what is counted, and how it is written.
 *
 * Added time is from the arrival of a frame in the worker until after the paint of its text; the time in which bytes of a character
 * had not come yet is not in it, because no decoder can know them.
 */

const SAMPLES = 5000;

/** Times of a stream: added milliseconds and tokens a second. */
export class Stopwatch {
  constructor() {
    /** @type {number[]} */
    this.added = [];
    this.first = 0;
    this.last = 0;
    this.tokens = 0;
  }

  clear() {
    this.added = [];
    this.first = 0;
    this.last = 0;
    this.tokens = 0;
  }

  /** A token arrived. @param {number} at  Milliseconds since 1970. */
  arrived(at) {
    this.first ||= at;
    this.last = at;
    this.tokens++;
  }

  /** Text that arrived at `at` has been painted. @param {number} at @param {number} painted */
  painted(at, painted) {
    if (this.added.length >= SAMPLES) this.added.shift();
    this.added.push(Math.max(0, painted - at));
  }

  /** Tokens a second, over the whole stream. */
  get rate() {
    return this.last > this.first ? ((this.tokens - 1) * 1000) / (this.last - this.first) : 0;
  }

  /** The added milliseconds that a share of the text stayed within; NaN before there was any. @param {number} share */
  within(share) {
    if (!this.added.length) return NaN;
    const sorted = Float64Array.from(this.added).sort();
    return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN;
  }
}

/** Writes named numbers into a description list, and touches the document only where one has changed. */
export class NumberList {
  /**
   * @param {HTMLElement} list  A `<dl>`.
   * @param {Record<string, string>} names  What each number is called, by key.
   */
  constructor(list, names) {
    /** @type {Record<string, HTMLElement>} */
    this.values = {};
    for (const [key, name] of Object.entries(names)) {
      const row = document.createElement("div");
      const term = document.createElement("dt");
      const value = document.createElement("dd");
      term.textContent = name;
      value.dataset.count = key;
      value.textContent = "–";
      row.append(term, value);
      list.append(row);
      this.values[key] = value;
    }
  }

  /** @param {string} key @param {string} text @param {boolean} [bad]  Whether the number is one to worry about. */
  set(key, text, bad = false) {
    const value = this.values[key];
    if (!value) throw new Error(`There is no number called ${key}.`);
    if (value.textContent !== text) value.textContent = text;
    value.classList.toggle("bad", bad);
  }
}

/** @param {number} value */
export function milliseconds(value) {
  return Number.isNaN(value) ? "–" : value < 10 ? value.toFixed(1) : String(Math.round(value));
}
