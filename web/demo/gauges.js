/**
 * The numbers of the page: what is counted, and how it is written.
 *
 * Added time runs from the arrival of a frame in the worker until its text has been painted. Waiting for bytes that have
 * not come is not in it, because no decoder can know them.
 */

import { element } from "./dom.js";
import { PANES } from "./recording.js";

/** @typedef {import("./recording.js").Pane} Pane */
/** @typedef {import("./recording.js").Recording} Recording */
/** @typedef {import("./panes.js").TextPane} TextPane */

const MAX_SAMPLES = 5000;

/** All counters: those under each pane, and those of the stream. */
export class Gauges {
  /** @param {Record<Pane, TextPane>} panes */
  constructor(panes) {
    this.#panes = panes;
  }

  #panes;
  #tallies = { held: makeTally("held"), naive: makeTally("naive"), stream: makeTally("stream") };
  #stream = new NumberList(element("gauges", HTMLElement), {
    tokens: "Tokens",
    rate: "Tokens / s",
    added: "Added ms, p50 · p99",
    bytes: "Bytes held, now · most",
    characters: "Characters held, now · most",
  });
  /** Milliseconds from arrival to paint, one for each token that made text certain. @type {number[]} */
  #added = [];
  #mostBytes = 0;
  #mostCharacters = 0;

  /** Begin with another stream. */
  clear() {
    this.#added = [];
    this.#mostBytes = this.#mostCharacters = 0;
  }

  /** @param {number} milliseconds  From the arrival of a token to the paint of its text. */
  addPaint(milliseconds) {
    if (this.#added.length >= MAX_SAMPLES) this.#added.shift();
    this.#added.push(Math.max(0, milliseconds));
  }

  /** Steps `from` up to `to` are on the page. @param {Recording} recording @param {number} from @param {number} to */
  addSteps(recording, from, to) {
    for (let n = from; n < to; n++) {
      const { heldBytes, heldText } = recording.step(n);
      this.#mostBytes = Math.max(this.#mostBytes, heldBytes.length);
      this.#mostCharacters = Math.max(this.#mostCharacters, [...heldText].length);
    }
  }

  /** @param {Recording | undefined} recording @param {number} position */
  show(recording, position) {
    for (const name of PANES) {
      const { replacements, surrogates } = this.#panes[name];
      for (const [key, { now, ever }] of Object.entries({ replacements, surrogates }))
        this.#tallies[name].set(key, `${now} · ${ever}`, ever > 0);
    }
    const tokens = recording?.steps.filter(({ end }) => !end) ?? [];
    const seconds = ((tokens.at(-1)?.at ?? 0) - (tokens[0]?.at ?? 0)) / 1000;
    const rate = seconds > 0 ? (tokens.length - 1) / seconds : NaN;
    const last = recording?.steps[position - 1];
    const stream = this.#stream;
    stream.set("tokens", String(tokens.length));
    stream.set("rate", written(rate, 100));
    stream.set("added", `${this.#addedWithin(0.5)} · ${this.#addedWithin(0.99)}`);
    stream.set("bytes", `${last?.heldBytes.length ?? 0} · ${this.#mostBytes}`);
    stream.set("characters", `${[...(last?.heldText ?? "")].length} · ${this.#mostCharacters}`);
  }

  /** The added milliseconds that a share of the text stayed within. @param {number} share */
  #addedWithin(share) {
    const sorted = Float64Array.from(this.#added).sort();
    return written(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN);
  }
}

/** Writes named numbers into a `<dl>`, and changes the document only where a number changed. */
class NumberList {
  /**
   * @param {HTMLElement} list
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

/** The counters under a pane. @param {Pane} pane */
function makeTally(pane) {
  return new NumberList(element(`tally-${pane}`, HTMLElement), {
    replacements: "U+FFFD now · ever",
    surrogates: "Lone surrogates now · ever",
  });
}

/** A number with one decimal if it is below `limit`. @param {number} value @param {number} [limit] */
function written(value, limit = 10) {
  return Number.isNaN(value) ? "–" : value.toFixed(value < limit ? 1 : 0);
}
