/**
 * The token timeline: a chip for each token, a cell for each of its bytes, and the text that the token released.
 *
 * Only the last `WINDOW` tokens before the playhead are in the document, so that a long stream costs as much as a short one.
 */

import { toHex } from "./recording.js";

/** @typedef {import("./recording.js").Recording} Recording */

const WINDOW = 128;

const LETTERS = { complete: "c", held: "h", replaced: "r" };

/** Text with its invisible characters made visible. @param {string} text */
function visible(text) {
  return text
    .replace(/ /g, "␣")
    .replace(/\n/g, "⏎")
    .replace(/\t/g, "⇥")
    .replace(/[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]|\ufe0f/g, "◦");
}

/** Draws the tokens up to the playhead. */
export class Timeline {
  /**
   * @param {HTMLElement} element
   * @param {(position: number) => void} onSeek  Called with the step that was clicked, plus one.
   */
  constructor(element, onSeek) {
    this.element = element;
    /** @type {number} First step in the document. */
    this.from = 0;
    /** @type {number} One past the last step in the document. */
    this.to = 0;
    this.moved = false;
    /** @type {Element | null} */
    this.current = null;
    /** Cells of the bytes that are held now. @type {Element[]} */
    this.waiting = [];
    this.earlier = document.createElement("p");
    this.earlier.className = "earlier";
    this.chips = document.createElement("div");
    this.chips.className = "chips";
    element.append(this.earlier, this.chips);
    this.chips.addEventListener("click", ({ target }) => {
      const chip = target instanceof Element ? target.closest("[data-step]") : null;
      if (chip instanceof HTMLElement) onSeek(Number(chip.dataset.step) + 1);
    });
    this.clear();
  }

  clear() {
    this.chips.textContent = "";
    this.from = this.to = 0;
    this.earlier.textContent = "";
    this.element.dataset.empty = "true";
  }

  /**
   * Show the steps before `position`.
   * @param {Recording} recording
   * @param {number} position
   */
  show(recording, position) {
    const from = Math.max(0, position - WINDOW);
    if (from < this.from || from >= this.to || position < this.to - WINDOW) {
      this.chips.textContent = "";
      this.from = this.to = from;
    }
    while (this.to > position) {
      this.chips.lastElementChild?.remove();
      this.to--;
    }
    while (this.from < from) {
      this.chips.firstElementChild?.remove();
      this.from++;
    }
    // A byte that was held when its chip was drawn can have been replaced since.
    this.#refresh(recording, Math.max(this.from, this.to - 4));
    const fresh = document.createDocumentFragment();
    for (; this.to < position; this.to++) fresh.append(this.#chip(recording, this.to));
    this.chips.append(fresh);
    this.current?.classList.remove("current");
    this.current = this.chips.lastElementChild;
    this.current?.classList.add("current");
    this.#markWaiting(recording, position);
    const earlier = this.from ? `${this.from} earlier tokens` : "";
    if (this.earlier.textContent !== earlier) this.earlier.textContent = earlier;
    this.element.dataset.empty = String(position === 0);
    this.moved = true;
  }

  /** Scroll to the last chip if there is a new one. This forces a layout. */
  keepEnd() {
    if (this.moved) this.element.scrollTop = this.element.scrollHeight;
    this.moved = false;
  }

  /** @param {Recording} recording @param {number} from */
  #refresh(recording, from) {
    for (let n = from; n < this.to; n++) {
      const cells = this.chips.children[n - this.from]?.querySelectorAll(".byte");
      cells?.forEach((cell, i) =>
        setState(/** @type {HTMLElement} */ (cell), recording.stateOf(n, i)),
      );
    }
  }

  /** @param {Recording} recording @param {number} position */
  #markWaiting(recording, position) {
    for (const cell of this.waiting) cell.classList.remove("waiting");
    this.waiting = [];
    let left = position ? recording.step(position - 1).heldBytes.length : 0;
    for (
      let chip = this.chips.lastElementChild;
      chip && left > 0;
      chip = chip.previousElementSibling
    ) {
      const cells = [...chip.querySelectorAll(".byte")].reverse();
      for (const cell of cells.slice(0, left)) {
        cell.classList.add("waiting");
        this.waiting.push(cell);
      }
      left -= cells.length;
    }
  }

  /** @param {Recording} recording @param {number} n */
  #chip(recording, n) {
    const step = recording.step(n);
    const chip = document.createElement("span");
    chip.className = "chip";
    chip.dataset.step = String(n);
    const cells = document.createElement("span");
    cells.className = "cells";
    step.bytes.forEach((byte, i) => {
      const cell = document.createElement("b");
      cell.textContent = toHex(byte);
      setState(cell, recording.stateOf(n, i));
      cells.append(cell);
    });
    if (!step.bytes.length) cells.append(step.end ? "end" : (step.special ?? "no bytes"));
    if (step.special) chip.classList.add("skipped");
    const label = document.createElement("span");
    label.className = "released";
    label.dir = "auto";
    label.textContent = visible(step.text.held);
    if (!step.text.held) chip.classList.add("silent");
    chip.append(cells, label);
    const id = step.id === null ? "id unknown" : `id ${step.id}`;
    const name = step.end
      ? "End of the stream"
      : `Token ${n + 1}, ${id}${step.special ? ` (${step.special}, special: skipped)` : ""}`;
    const released = step.text.held
      ? `released ${JSON.stringify(step.text.held)}`
      : "released nothing";
    const held = step.heldBytes.length
      ? `, ${step.heldBytes.length} bytes held`
      : step.heldText
        ? `, ${JSON.stringify(step.heldText)} held`
        : "";
    chip.title = `${name}, at ${(step.at / 1000).toFixed(3)} s: ${released}${held}`;
    return chip;
  }
}

/** @param {HTMLElement} cell @param {keyof typeof LETTERS} state */
function setState(cell, state) {
  if (cell.dataset.letter === LETTERS[state]) return;
  cell.className = `byte ${state}`;
  cell.dataset.letter = LETTERS[state];
}
