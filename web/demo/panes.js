/**
 * One pane of text. All text is in text nodes; the shown text is the element's `textContent`.
 *
 * Appending to a long text node makes the browser lay out all of it, so a text is split twice. It
 * has blocks, which end at line ends if possible: only the last one changes, and only those in view
 * are laid out. A block has runs, with a `<wbr>` between them: only the last one is shaped again.
 *
 * Broken characters, damage that arrived, reasoning and tool calls are elements, in the blocks in
 * view; another block is one text node. The CSS Custom Highlight API would need no elements, but
 * browsers go through all highlighted ranges in each frame, and not all of them paint all styles.
 * It marks the characters of a chosen token, where a browser has it.
 */

import { make } from "./dom.js";
import { firstIndex } from "./recording.js";

/**
 * A block ends at the first line end after LINES UTF-16 units, at the first space after WORDS, or
 * between two plain characters after MOST.
 */
const LINES = 1000;
const WORDS = 3000;
const MOST = 6000;
/** After this many UTF-16 units a run ends at the next place of `APART`. */
const RUN = 160;
/**
 * Where a line can break (Unicode Standard Annex 14) and two characters do not join: after a space
 * between words, and between two ideographs or Korean syllables.
 */
const APART =
  /[\p{L}\p{N},.;:!?]\x20(?=[\p{L}\p{N}])|[\p{Script=Han}\uac00-\ud7a3](?=[\p{Script=Han}\uac00-\ud7a3])/gu;
/** A row of broken characters, or of others. */
const SAME = /\ufffd+|[^\ufffd]+/g;
/** A character that joins no neighbour, so a block may begin or end there. */
const PLAIN =
  "[\\x20-\\x7e\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Hangul}]";
const PLAIN_END = new RegExp(`${PLAIN}$`, "u");
const PLAIN_START = new RegExp(`^${PLAIN}`, "u");

const canLink = "highlights" in CSS;

/**
 * @typedef {object} Part  Text that is not plain content. Parts do not overlap, and come in order.
 * @property {number} from  Where it begins in the pane's text.
 * @property {number} to
 * @property {string} kind  "reasoning", "tool_call", "damage", "doubt" or "written".
 * @property {string} [name]  What assistive technology says instead of the text, and what the
 *   pointer shows.
 *
 * @typedef {object} Run
 * @property {Text} node
 * @property {number} start  Where it begins in the pane's text.
 * @property {string} kind  That of the part, "broken", or "" for plain content.
 *
 * @typedef {object} Block
 * @property {HTMLElement} element
 * @property {number} start  Where it begins in the pane's text.
 * @property {number} length
 * @property {Part[]} parts
 * @property {Run[]} runs
 * @property {number} since  How much text has come since the last `<wbr>`.
 * @property {boolean} near  Whether it is in view or is the last one, and has elements.
 */

/** A pane's text. */
export class TextPane {
  /**
   * @param {HTMLElement} element
   * @param {string} name  Of the pane: `linked-NAME` is its CSS highlight.
   */
  constructor(element, name) {
    this.element = element;
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
    if (canLink) {
      this.#links = new Highlight();
      CSS.highlights.set(`linked-${name}`, this.#links);
    }
    this.#watch = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) {
          const block = this.#blocks[Number(/** @type {HTMLElement} */ (target).dataset.block)];
          if (block?.element === target && block !== this.#blocks.at(-1))
            this.#setNear(block, isIntersecting);
        }
      },
      { root: element, rootMargin: "200px" },
    );
  }

  /** @type {Block[]} */
  #blocks = [];
  /** @type {WeakMap<Node, Run>} */
  #runs = new WeakMap();
  /** @type {Highlight | undefined} */
  #links;
  #watch;
  /** Whether the text has changed since the last `keepEnd()`, and whether over several blocks. */
  #changed = false;
  #jumped = false;

  /** Remove all text. */
  clear() {
    this.#watch.disconnect();
    this.element.replaceChildren();
    this.#blocks = [];
    this.#links?.clear();
    this.length = 0;
    this.atEnd = true;
  }

  /**
   * Add text at the end.
   * @param {string} text
   * @param {Part[]} [parts]  Which of it is not plain content.
   */
  append(text, parts = []) {
    const fresh = document.createDocumentFragment();
    let opened = 0;
    for (let rest = text; rest;) {
      let block = this.#blocks.at(-1);
      if (!block || isFull(block, rest)) {
        block = this.#openBlock();
        fresh.append(block.element);
        opened++;
      }
      const size = sizeFor(block.length, rest);
      this.#extend(block, rest.slice(0, size), parts);
      rest = rest.slice(size);
    }
    this.element.append(fresh);
    const last = this.#blocks.at(-1);
    if (last) this.#setNear(last, true);
    this.#changed = true;
    this.#jumped ||= opened > 1;
  }

  /**
   * Scroll to the end if the text has changed and the reader was there. This forces a layout, so it
   * comes last in a frame.
   */
  keepEnd() {
    if (!this.#changed) return;
    this.#changed = false;
    if (!this.atEnd) return;
    this.element.scrollTop = this.element.scrollHeight;
    if (!this.#jumped) return;
    // Blocks that come into view for the first time get their true height after this frame.
    this.#jumped = false;
    requestAnimationFrame(() => {
      this.element.scrollTop = this.element.scrollHeight;
      this.atEnd = true;
    });
  }

  /**
   * Remove text at the end, because the reader goes back.
   * @param {number} length  How many UTF-16 units stay.
   */
  truncate(length) {
    this.#changed = true;
    if (length === 0) return this.clear();
    const kept = this.#blocks.findLastIndex(({ start }) => start < length) + 1;
    if (this.#blocks.length - kept > 1) {
      // One change of the document instead of one for each block.
      const range = document.createRange();
      range.setStartBefore(/** @type {Block} */ (this.#blocks[kept]).element);
      range.setEndAfter(/** @type {Block} */ (this.#blocks.at(-1)).element);
      range.deleteContents();
    } else this.#blocks[kept]?.element.remove();
    for (const { element } of this.#blocks.splice(kept)) this.#watch.unobserve(element);
    const last = this.#blocks.at(-1);
    if (last) {
      shorten(last, length);
      last.element.className = "";
      this.#watch.unobserve(last.element);
      this.#setNear(last, true);
    }
    this.#jumped = true;
    this.length = length;
  }

  /** Mark the text between two places, and nothing else. @param {number} from @param {number} to */
  link(from, to) {
    const links = this.#links;
    if (!links) return;
    if (links.size) links.clear();
    for (const range of this.#ranges(from, to)) links.add(range);
  }

  /** Scroll a place of the text into view, if it is not. @param {number} offset */
  reveal(offset) {
    const block = this.#blocks[indexAt(this.#blocks, offset)];
    const run = block?.runs[indexAt(block.runs, offset)];
    if (!run) return;
    const range = document.createRange();
    range.setStart(run.node, Math.min(run.node.length, Math.max(0, offset - run.start)));
    const place = range.getBoundingClientRect();
    const pane = this.element.getBoundingClientRect();
    if (place.height && (place.top < pane.top || place.bottom > pane.bottom))
      this.element.scrollTop += place.top - pane.top - pane.height / 2;
  }

  /** Where in the text a point of the window is, or -1. @param {number} x @param {number} y */
  offsetAt(x, y) {
    const found = caretAt(x, y);
    const run = found && this.#runs.get(found.node);
    return run ? run.start + found.offset : -1;
  }

  /**
   * The text between two places, as ranges in its nodes.
   * @param {number} from
   * @param {number} to
   */
  #ranges(from, to) {
    const ranges = [];
    if (from < to)
      for (const { runs } of this.#blocks.slice(indexAt(this.#blocks, from))) {
        for (const { node, start } of runs.slice(indexAt(runs, from))) {
          if (start >= to) return ranges;
          const [first, last] = [Math.max(0, from - start), Math.min(node.length, to - start)];
          if (first < last) ranges.push(rangeIn(node, first, last));
        }
      }
    return ranges;
  }

  #openBlock() {
    const last = this.#blocks.at(-1);
    const element = document.createElement("div");
    element.dataset.block = String(this.#blocks.length);
    /** @type {Block} */
    const block = {
      element,
      start: this.length,
      length: 0,
      parts: [],
      runs: [],
      since: 0,
      near: false,
    };
    this.#blocks.push(block);
    if (last) {
      last.element.className = "whole";
      this.#watch.observe(last.element);
    }
    return block;
  }

  /**
   * Add text at the end of a block.
   * @param {Block} block
   * @param {string} text
   * @param {Part[]} parts
   */
  #extend(block, text, parts) {
    const from = this.length;
    const here = parts.filter((part) => part.to > from && part.from < from + text.length);
    // A part that has grown replaces its earlier form.
    for (const part of here) {
      if (block.parts.at(-1)?.from === part.from) block.parts.pop();
      block.parts.push(part);
    }
    if (block.near) this.#write(block, from, text, here);
    else this.#writeRun(block, from, text, "");
    block.length += text.length;
    this.length += text.length;
  }

  /** @param {Block} block @param {boolean} near */
  #setNear(block, near) {
    if (block.near === near) return;
    const { element, start, parts } = block;
    const text = element.textContent ?? "";
    const last = block === this.#blocks.at(-1);
    if (near ? !last && !parts.length && !text.includes("\ufffd") : isSelected(element)) return;
    block.near = near;
    if (!near && block.runs.length === 1 && !block.runs[0]?.kind) return;
    element.replaceChildren();
    block.runs = [];
    block.since = 0;
    if (near) this.#write(block, start, text, parts);
    else this.#writeRun(block, start, text, "");
  }

  /**
   * Add text with its parts and broken characters.
   * @param {Block} block
   * @param {number} start
   * @param {string} text
   * @param {Part[]} parts
   */
  #write(block, start, text, parts) {
    let next = 0;
    for (let at = 0; at < text.length;) {
      const offset = start + at;
      while (/** @type {Part} */ (parts[next])?.to <= offset) next++;
      const part = parts[next];
      const inside = part && part.from <= offset ? part : undefined;
      const to = Math.min(text.length, (inside?.to ?? part?.from ?? Infinity) - start);
      const piece = text.slice(at, to);
      if (inside?.name) this.#writeRun(block, offset, piece, inside.kind, inside.name);
      else
        for (const { 0: same, index } of piece.matchAll(SAME))
          if (same[0] === "\ufffd") this.#writeRun(block, offset + index, same, "broken");
          else this.#writeApart(block, offset + index, same, inside?.kind ?? "");
      at = to;
    }
  }

  /**
   * Add text of one kind, with a `<wbr>` where a run is long enough.
   * @param {Block} block
   * @param {number} start
   * @param {string} text
   * @param {string} kind
   */
  #writeApart(block, start, text, kind) {
    for (let at = 0; at < text.length;) {
      const rest = text.slice(at);
      const last = block.runs.at(-1);
      const size = roomIn(block.since, last?.kind === kind ? last.node.data.slice(-3) : "", rest);
      if (size) this.#writeRun(block, start + at, rest.slice(0, size), kind);
      if (size < rest.length) {
        block.element.append(document.createElement("wbr"));
        block.since = 0;
      }
      at += size;
    }
  }

  /**
   * @param {Block} block
   * @param {number} start
   * @param {string} text
   * @param {string} kind
   * @param {string} [name]
   */
  #writeRun(block, start, text, kind, name) {
    const { element, runs } = block;
    const last = runs.at(-1);
    block.since += text.length;
    if (last?.kind === kind && !name && block.since > text.length) {
      last.node.appendData(text);
      return;
    }
    const node = document.createTextNode(text);
    const run = { node, start, kind };
    element.append(kind ? makePart(node, kind, name) : node);
    runs.push(run);
    this.#runs.set(node, run);
  }
}

/**
 * Remove the end of a block.
 * @param {Block} block
 * @param {number} length  The new length of the pane's text.
 */
function shorten(block, length) {
  if (block.start + block.length <= length) return;
  const { element, runs } = block;
  block.parts = block.parts.filter(({ from }) => from < length);
  block.length = length - block.start;
  runs.splice(runs.findLastIndex(({ start }) => start < length) + 1);
  const { node, start } = /** @type {Run} */ (runs.at(-1));
  const stay = node.parentNode === element ? node : node.parentNode;
  while (element.lastChild !== stay) element.lastChild?.remove();
  if (length - start < node.length) node.deleteData(length - start, node.length);
  block.since = node.length;
}

/**
 * Whether the reader has chosen text in an element, which would be lost with its nodes.
 * @param {Element} element
 */
function isSelected(element) {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && selection.containsNode(element, true);
}

/**
 * The index of the last place that begins at or before `offset`, or 0.
 * @param {{start: number}[]} places
 * @param {number} offset
 */
function indexAt(places, offset) {
  const isBehind = (/** @type {number} */ n) => (places[n]?.start ?? 0) > offset;
  return Math.max(0, firstIndex(places.length, isBehind) - 1);
}

/** @param {Block} block @param {string} next */
function isFull({ length, runs }, next) {
  if (length < LINES) return false;
  const end = runs.at(-1)?.node.data.slice(-2) ?? "";
  if (end.endsWith("\n")) return true;
  if (length < WORDS) return false;
  if (end.endsWith(" ")) return true;
  return length >= MOST && PLAIN_END.test(end) && PLAIN_START.test(next);
}

/**
 * How many UTF-16 units of `text` belong to a block that has `length` already.
 * @param {number} length
 * @param {string} text
 */
function sizeFor(length, text) {
  if (length + text.length <= LINES) return text.length;
  const first = text.slice(0, Math.max(0, MOST - length));
  const line = first.indexOf("\n", Math.max(0, LINES - length - 1)) + 1;
  if (line > 0 && length + line <= WORDS) return line;
  const space = first.indexOf(" ", Math.max(0, WORDS - length - 1)) + 1;
  if (space > 0) return space;
  for (let at = Math.max(1, MOST - length); at < text.length; at++) {
    if (text[at - 1] === "\n" || text[at - 1] === " ") return at;
    if (
      PLAIN_END.test(text.slice(Math.max(0, at - 2), at)) &&
      PLAIN_START.test(text.slice(at, at + 2))
    )
      return at;
  }
  return text.length;
}

/**
 * How many UTF-16 units of `text` come before the next `<wbr>`.
 * @param {number} since  How many have come since the last one.
 * @param {string} tail  The last of them: its end can be the first half of a place of `APART`.
 * @param {string} text
 */
function roomIn(since, tail, text) {
  if (since + text.length < RUN) return text.length;
  APART.lastIndex = tail.length + Math.max(-3, RUN - since - 3);
  for (let found = APART.exec(tail + text); found; found = APART.exec(tail + text)) {
    const size = APART.lastIndex - tail.length;
    if (size >= 0 && since + size >= RUN) return size;
  }
  return text.length;
}

/** @param {Text} node @param {string} kind @param {string} [name] */
function makePart(node, kind, name) {
  const named = name ? { role: "img", ariaLabel: name, title: name } : {};
  return make("span", { className: kind, ...named }, node);
}

/** @param {Text} node @param {number} from @param {number} to */
function rangeIn(node, from, to) {
  return new StaticRange({
    startContainer: node,
    startOffset: from,
    endContainer: node,
    endOffset: to,
  });
}

/** @param {number} x @param {number} y @returns {{node: Node, offset: number} | undefined} */
function caretAt(x, y) {
  if ("caretPositionFromPoint" in document) {
    const place = document.caretPositionFromPoint(x, y);
    return place ? { node: place.offsetNode, offset: place.offset } : undefined;
  }
  // Safari before 26 and WebKitGTK have only the older method.
  const range = /** @type {Document} */ (document).caretRangeFromPoint?.(x, y);
  return range ? { node: range.startContainer, offset: range.startOffset } : undefined;
}
