/**
 * The numbers of the page: count them, and format them.
 *
 * Arrival to painted is the time of the whole page: from the arrival of a frame in the worker until
 * its text has been painted. Decoding is the time in the decoder itself. Neither includes the wait
 * for missing bytes, which no decoder can avoid.
 */

import { element, make } from "./dom.js";
import { PANES } from "./recording.js";

/** @typedef {import("./recording.js").Pane} Pane */
/** @typedef {import("./recording.js").Recording} Recording */

const MAX_SAMPLES = 5000;

/** All counters: those of each pane, and those of the stream. */
export class Gauges {
  /** @type {Record<Pane, NumberList>} */
  #tallies = { held: makeTally("held"), naive: makeTally("naive"), stream: makeTally("stream") };
  #stream = new NumberList(element("gauges", HTMLElement), {
    tokens: "Tokens",
    bytes: "Bytes held (most)",
    characters: "Characters held (most)",
    painted: "To painted, ms (half · 99 %)",
    decoding: "Decoding, µs a token",
  });
  /**
   * Milliseconds from arrival to paint, one for each token that made text certain.
   * @type {number[]}
   */
  #painted = [];
  /** The time in the decoder, and for how many tokens. */
  #decoded = { microseconds: 0, tokens: 0 };

  /** Begin with another stream. */
  clear() {
    this.#painted = [];
    this.#decoded = { microseconds: 0, tokens: 0 };
  }

  /** @param {number} milliseconds  From the arrival of a token to the paint of its text. */
  addPaint(milliseconds) {
    if (this.#painted.length >= MAX_SAMPLES) this.#painted.splice(0, MAX_SAMPLES / 2);
    this.#painted.push(Math.max(0, milliseconds));
  }

  /** @param {number} microseconds @param {number} tokens */
  addDecoding(microseconds, tokens) {
    this.#decoded.microseconds += microseconds;
    this.#decoded.tokens += tokens;
  }

  /** @param {Recording | undefined} recording @param {number} position */
  show(recording, position) {
    for (const name of PANES) {
      const track = recording?.tracks[name];
      const broken = track?.brokenAt(position) ?? 0;
      const doubts = track?.doubtsAt(position);
      const count = `${broken}${doubts ? ` (${doubts} in doubt)` : ""}`;
      this.#tallies[name].set("replacements", count, broken > 0);
    }
    const stream = this.#stream;
    const peaks = recording?.peaks(position) ?? { bytes: 0, characters: 0 };
    const bytes = recording?.heldBytes(position).length ?? 0;
    const characters = [...(recording?.heldText(position) ?? "")].length;
    stream.name(
      "tokens",
      { token: "Tokens", chunk: "Chunks", byte: "Bytes" }[recording?.unit ?? "token"],
    );
    stream.set("tokens", String(recording?.count ?? 0));
    stream.set("bytes", `${bytes} (${peaks.bytes})`);
    stream.set("characters", `${characters} (${peaks.characters})`);
    const sorted = Float64Array.from(this.#painted).sort();
    const within = (/** @type {number} */ share) =>
      written(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN);
    stream.set("painted", sorted.length ? `${within(0.5)} · ${within(0.99)}` : "–");
    const { microseconds, tokens } = this.#decoded;
    stream.set("decoding", tokens ? written(microseconds / tokens) : "–");
  }
}

/** Writes named numbers into a `<dl>`, and changes the document only where a number changed. */
class NumberList {
  /**
   * @param {HTMLElement} list
   * @param {Record<string, string>} names  What each number is called, by key.
   */
  constructor(list, names) {
    /** @type {Record<string, {term: HTMLElement, value: HTMLElement}>} */
    this.rows = {};
    for (const [key, name] of Object.entries(names)) {
      const term = make("dt", {}, name);
      const value = make("dd", {}, "–");
      value.dataset.count = key;
      list.append(make("div", {}, term, value));
      this.rows[key] = { term, value };
    }
  }

  /** @param {string} key @param {string} name */
  name(key, name) {
    const { term } = this.#row(key);
    if (term.textContent !== name) term.textContent = name;
  }

  /**
   * @param {string} key
   * @param {string} text
   * @param {boolean} [bad]  Whether the number is one to worry about.
   */
  set(key, text, bad = false) {
    const { value } = this.#row(key);
    if (value.textContent === text) return;
    value.textContent = text;
    value.classList.toggle("bad", bad);
  }

  /** @param {string} key */
  #row(key) {
    const row = this.rows[key];
    if (!row) throw new Error(`There is no number called ${key}.`);
    return row;
  }
}

/** The counter of a pane. @param {Pane} pane */
function makeTally(pane) {
  return new NumberList(element(`tally-${pane}`, HTMLElement), { replacements: "Broken glyphs" });
}

/** A number with one decimal if it is below 10. @param {number} value */
function written(value) {
  return Number.isNaN(value) ? "–" : value.toFixed(value < 10 ? 1 : 0);
}
