/**
 * The list of tokens: a chip for each, with its bytes and the text that it made certain.
 *
 * Only the tokens around the playhead are in the document, so that a long stream costs as much as a
 * short one. Those after the playhead are dimmed. A click goes to a token; so do the page's keys
 * when the list has the focus.
 */

import { visible } from "./characters.js";
import { make, makeButton } from "./dom.js";
import { toHex } from "./recording.js";

/** @typedef {import("./recording.js").Recording} Recording */
/** @typedef {import("./recording.js").ByteState} ByteState */

const BEFORE = 96;
const AFTER = 64;
/** How near the playhead may come to an end of the chips before others are drawn. */
const MARGIN = 24;
const MOST = 256;
const MOST_BYTES = 16;
/** A longer label is cut here: if CSS cut it, each chip would become a layer. */
const MOST_LABEL = 14;

/**
 * A byte's state, three times: by colour, by shape, by letter.
 * @type {Record<ByteState, string>}
 */
const SIGNS = { complete: "■c", held: "◧h", replaced: "✕r", markup: "◇m" };

/** Draws the tokens around the playhead. */
export class Timeline {
  /**
   * @param {HTMLElement} element
   * @param {{seek: (position: number) => void, point: (step: number) => void}} tell  `seek` is
   *   called with the step that was clicked, plus one; `point` with the step under the pointer, or
   *   -1.
   */
  constructor(element, { seek, point }) {
    this.element = element;
    const before = () => seek(Math.max(1, this.from));
    this.earlier = makeButton("", before, { className: "more earlier" });
    this.later = makeButton("", () => seek(this.to + 1), { className: "more later" });
    const ariaLabel = "Tokens and their bytes";
    this.chips = make("div", { className: "chips wrap", role: "listbox", ariaLabel, tabIndex: 0 });
    element.append(this.earlier, this.chips, this.later);
    /** First step in the document, and one past the last one. */
    this.from = 0;
    this.to = 0;
    this.position = 0;
    this.moved = false;
    /** @type {HTMLElement | undefined} */
    this.current = undefined;
    /** Steps whose chips show waiting bytes. @type {number[]} */
    this.waiting = [];
    /** @param {Event} event */
    const stepOf = ({ target }) => {
      const chip = target instanceof Element ? target.closest("[data-step]") : null;
      return chip instanceof HTMLElement ? Number(chip.dataset.step) : -1;
    };
    this.chips.addEventListener("click", (event) => {
      const step = stepOf(event);
      if (step >= 0) seek(step + 1);
    });
    this.chips.addEventListener("pointerover", (event) => point(stepOf(event)));
    this.chips.addEventListener("pointerleave", () => point(-1));
    this.clear();
  }

  clear() {
    this.chips.textContent = "";
    this.from = this.to = this.position = 0;
    this.current = undefined;
    this.waiting = [];
    this.chips.removeAttribute("aria-activedescendant");
    this.#showMore(0);
    this.element.dataset.empty = "true";
  }

  /**
   * Show the steps around `position`.
   * @param {Recording} recording
   * @param {number} position
   */
  show(recording, position) {
    const { length } = recording;
    const before = this.position;
    this.position = position;
    const early = position < this.from + MARGIN && this.from > 0;
    const late = position > this.to + MARGIN || this.to - this.from > MOST;
    if (early || late || this.to > length || position < this.from) {
      this.chips.textContent = "";
      this.current = undefined;
      this.from = this.to = Math.max(0, position - BEFORE);
    }
    const to = Math.max(
      this.to,
      Math.min(length, position + (position > this.to - MARGIN ? AFTER : 0)),
    );
    const fresh = document.createDocumentFragment();
    // A byte that waited when its chip was drawn can have been replaced since, or be markup.
    const changed = Math.min(this.to - 4, recording.marked);
    recording.marked = Infinity;
    for (let n = Math.max(this.from, changed); n < this.to; n++) this.#fill(recording, n);
    const drawn = this.to;
    for (; this.to < to; this.to++) fresh.append(makeChip(recording, this.to));
    this.chips.append(fresh);
    for (let n = Math.max(this.from, drawn); n < this.to; n++) this.#fill(recording, n);
    const [low, high] = before < position ? [before, position] : [position, before];
    for (let n = Math.max(this.from, Math.min(low, drawn)); n < this.to; n++) {
      if (n > high && n < drawn) continue;
      this.#chip(n)?.classList.toggle("future", n >= position);
    }
    this.#markCurrent(recording, position);
    this.#markWaiting(recording, position);
    this.#showMore(length);
    this.element.dataset.empty = String(length === 0);
    this.moved = true;
  }

  /** Scroll the current chip into view if the playhead has moved. This forces a layout. */
  keepInView() {
    if (!this.moved) return;
    this.moved = false;
    const { element, current } = this;
    if (!current) {
      element.scrollTop = 0;
      return;
    }
    const top = current.offsetTop;
    const bottom = top + current.offsetHeight;
    if (bottom > element.scrollTop + element.clientHeight)
      element.scrollTop = bottom - element.clientHeight + 4;
    else if (top < element.scrollTop) element.scrollTop = top - 4;
  }

  /** Mark the chip of a step, and no other. @param {number} step */
  link(step) {
    for (const chip of this.chips.querySelectorAll(".linked")) chip.classList.remove("linked");
    this.#chip(step)?.classList.add("linked");
  }

  /** @param {number} n @returns {HTMLElement | undefined} */
  #chip(n) {
    const chip = this.chips.children[n - this.from];
    return chip instanceof HTMLElement ? chip : undefined;
  }

  /**
   * Write the bytes of a step, with the state of each.
   * @param {Recording} recording
   * @param {number} n
   * @param {number} [waiting]
   */
  #fill(recording, n, waiting = 0) {
    const chip = this.#chip(n);
    const cells = chip?.firstElementChild;
    if (!chip || !cells) return;
    const bytes = recording.bytesOf(n);
    const runs = runsOf(recording, n, bytes, waiting);
    const key = runs.map(({ state, text }) => state + text).join("|");
    if (chip.dataset.key === key) return;
    chip.dataset.key = key;
    if (!runs.length) {
      const { special, end } = recording.step(n);
      cells.textContent = end ? "end" : (special ?? "no bytes");
      return;
    }
    cells.replaceChildren(
      ...runs.map(({ state, text }) => make("b", { className: `byte ${state}` }, text)),
    );
    if (bytes.length > MOST_BYTES) cells.append(` … ${bytes.length - MOST_BYTES} more`);
  }

  /** @param {Recording} recording @param {number} position */
  #markCurrent(recording, position) {
    const current = this.#chip(position - 1);
    if (this.current === current) return;
    this.current?.classList.remove("current");
    this.current?.removeAttribute("aria-selected");
    this.current?.removeAttribute("aria-description");
    this.current = current;
    if (!current) return this.chips.removeAttribute("aria-activedescendant");
    current.classList.add("current");
    current.setAttribute("aria-selected", "true");
    current.setAttribute("aria-description", describeStep(recording, position - 1));
    this.chips.setAttribute("aria-activedescendant", current.id);
  }

  /** @param {Recording} recording @param {number} position */
  #markWaiting(recording, position) {
    const before = this.waiting;
    this.waiting = [];
    let left = recording.heldBytes(position).length;
    for (let n = position - 1; n >= this.from && left > 0; n--) {
      this.waiting.push(n);
      this.#fill(recording, n, left);
      left -= recording.bytesOf(n).length;
    }
    for (const n of before)
      if (!this.waiting.includes(n) && n >= this.from && n < this.to) this.#fill(recording, n);
  }

  /** @param {number} length */
  #showMore(length) {
    for (const [more, count, where] of /** @type {const} */ ([
      [this.earlier, this.from, "earlier"],
      [this.later, length - this.to, "later"],
    ])) {
      const text = count > 0 ? `${count} ${where}` : "";
      if (more.textContent !== text) more.textContent = text;
      more.hidden = !text;
    }
  }
}

/**
 * Neighbouring bytes of one state, as one run.
 * @param {Recording} recording
 * @param {number} n
 * @param {Uint8Array} bytes
 * @param {number} waiting  How many of the last bytes wait now.
 */
function runsOf(recording, n, bytes, waiting) {
  /** @type {{state: string, text: string}[]} */
  const runs = [];
  const shown = Math.min(bytes.length, MOST_BYTES);
  for (let i = 0; i < shown; i++) {
    const state = recording.stateOf(n, i);
    const whole = i >= bytes.length - waiting && state === "held" ? "held waiting" : state;
    const last = runs.at(-1);
    if (last?.state === whole) last.text += ` ${toHex(bytes[i] ?? 0)}`;
    else runs.push({ state: whole, text: `${SIGNS[state]} ${toHex(bytes[i] ?? 0)}` });
  }
  return runs;
}

/** @param {Recording} recording @param {number} n */
function makeChip(recording, n) {
  const text = recording.tracks.held.text(n, n + 1);
  const shown = text ? shortened(visible(text.slice(0, 8 * MOST_LABEL))) : "·";
  const className = recording.step(n).special ? "chip skipped" : "chip";
  // One formatting context for each chip.
  const chip = make(
    "span",
    { id: `step-${n}`, role: "option", className },
    make("span", { className: "cells" }),
    make("br"),
    make("span", { className: "released", dir: "auto" }, shown),
  );
  chip.dataset.step = String(n);
  return chip;
}

/** @param {string} text */
function shortened(text) {
  const characters = [...text.slice(0, 4 * MOST_LABEL)];
  if (characters.length <= MOST_LABEL) return text;
  return `${characters.slice(0, MOST_LABEL - 1).join("")}…`;
}

/** A longer text is quoted by its first characters. */
const MOST_QUOTED = 200;

/**
 * A text, or the beginning of a long one, as a quotation. The isolate around it (U+2068, U+2069)
 * keeps text from right to left and the sentence in their own order.
 * @param {string} text
 */
function quoted(text) {
  const characters = [...text.slice(0, 2 * MOST_QUOTED + 2)];
  const long = characters.length > MOST_QUOTED;
  const shown = long ? `${characters.slice(0, MOST_QUOTED).join("")}…` : text;
  return `\u2068${JSON.stringify(shown)}\u2069`;
}

/** A step in a sentence. @param {Recording} recording @param {number} n */
export function describeStep(recording, n) {
  const { at, id, ids, special, end, line, heldBytes, heldText } = recording.step(n);
  const text = recording.tracks.held.text(n, n + 1);
  const unit = recording.unit[0]?.toUpperCase() + recording.unit.slice(1);
  const name = end ? "End of the stream" : `${unit} ${n + 1}`;
  const parts = [
    id === null ? name : `${name}, id ${id}`,
    ...(special ? [`${special}, a special token, skipped`] : []),
    ...(ids?.length ? [`came with ${ids.length === 1 ? "id" : "ids"} ${ids.join(", ")}`] : []),
    ...(line === undefined ? [] : [`line ${line} of the file`]),
    ...(recording.timed ? [`at ${recording.secondsOf(at, 3)} s`] : []),
    text ? `adds ${quoted(text)}` : "adds no text",
    ...(recording.hasMarkup(n) ? ["has markup of the format"] : []),
    ...(heldBytes.length === 1 ? ["1 byte waits"] : []),
    ...(heldBytes.length > 1 ? [`${heldBytes.length} bytes wait`] : []),
    ...(heldText ? [`${quoted(heldText)} waits`] : []),
  ];
  return parts.join(", ");
}
