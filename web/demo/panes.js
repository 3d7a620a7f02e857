/**
 * One pane of text. Text goes in as text nodes only; the shown text is the element's `textContent`.
 *
 * Long text is split over several nodes, so that the browser lays out only the last one when text is appended. If the
 * browser has the CSS Custom Highlight API, each U+FFFD is marked without a change of the text.
 */

import { countBroken } from "./recording.js";

const NODE_LENGTH = 2048;

/** A pane's text and what has been counted in it. */
export class TextPane {
  /**
   * @param {HTMLElement} element
   * @param {string} highlight  Name of the CSS highlight that marks U+FFFD.
   */
  constructor(element, highlight) {
    this.element = element;
    /** @type {{now: number, ever: number}} */
    this.replacements = { now: 0, ever: 0 };
    /** @type {{now: number, ever: number}} */
    this.surrogates = { now: 0, ever: 0 };
    this.length = 0;
    /** Whether the reader is at the end of the text. New text then scrolls into view. */
    this.atEnd = true;
    element.addEventListener(
      "scroll",
      () => {
        const { scrollTop, scrollHeight, clientHeight } = element;
        this.atEnd = scrollHeight - scrollTop - clientHeight < 24;
      },
      { passive: true },
    );
    /** @type {Text[]} */
    this.#nodes = [];
    this.#marks = "highlights" in CSS ? new Highlight() : undefined;
    if (this.#marks) CSS.highlights.set(highlight, this.#marks);
  }

  /** @type {Text[]} */
  #nodes;
  /** @type {Highlight | undefined} */
  #marks;

  /** Remove all text and reset the counts. */
  clear() {
    this.element.textContent = "";
    this.#nodes = [];
    this.#marks?.clear();
    this.length = 0;
    this.atEnd = true;
    this.replacements = { now: 0, ever: 0 };
    this.surrogates = { now: 0, ever: 0 };
  }

  /**
   * Add text at the end.
   * @param {string} text
   */
  append(text) {
    if (!text) return;
    let node = this.#nodes.at(-1);
    if (!node || node.length >= NODE_LENGTH) {
      node = document.createTextNode("");
      this.element.append(node);
      this.#nodes.push(node);
    }
    const from = node.length;
    node.appendData(text);
    this.length += text.length;
    this.#mark(node, from);
    this.#count(text, +1);
  }

  /** Scroll to the end if the reader was there. This forces a layout, so it comes last in a frame. */
  keepEnd() {
    if (this.atEnd) this.element.scrollTop = this.element.scrollHeight;
  }

  /**
   * Remove text at the end, because the reader steps back.
   * @param {number} length  How many UTF-16 units stay.
   */
  truncate(length) {
    while (this.length > length) {
      const node = /** @type {Text} */ (this.#nodes.at(-1));
      const cut = Math.min(node.length, this.length - length);
      this.#count(node.data.slice(node.length - cut), -1);
      this.length -= cut;
      this.#unmark(node, node.length - cut);
      if (cut === node.length) {
        node.remove();
        this.#nodes.pop();
      } else node.deleteData(node.length - cut, cut);
    }
  }

  /** @param {string} text @param {1 | -1} sign */
  #count(text, sign) {
    const { replacements, surrogates } = countBroken(text);
    this.replacements.now += sign * replacements;
    this.surrogates.now += sign * surrogates;
    this.replacements.ever = Math.max(this.replacements.ever, this.replacements.now);
    this.surrogates.ever = Math.max(this.surrogates.ever, this.surrogates.now);
  }

  /** @param {Text} node @param {number} from */
  #mark(node, from) {
    if (!this.#marks) return;
    for (
      let at = node.data.indexOf("\ufffd", from);
      at >= 0;
      at = node.data.indexOf("\ufffd", at + 1)
    ) {
      this.#marks.add(
        new StaticRange({
          startContainer: node,
          startOffset: at,
          endContainer: node,
          endOffset: at + 1,
        }),
      );
    }
  }

  /** @param {Text} node @param {number} from */
  #unmark(node, from) {
    if (!this.#marks) return;
    for (const range of [...this.#marks]) {
      if (range.startContainer === node && range.startOffset >= from) this.#marks.delete(range);
    }
  }
}
