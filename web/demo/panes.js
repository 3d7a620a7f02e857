/**
 * One pane of text. Text goes in as text nodes only; the shown text is the element's `textContent`.
 *
 * Long text is split into blocks, at line ends where there are any, so that the browser lays out only the last block when
 * text is appended, and only the blocks in view when the reader jumps. If the browser has the CSS Custom Highlight API,
 * broken characters and the characters of a chosen token are marked without a change of the text, in the blocks in view.
 */

/** A block of so many UTF-16 units ends at the next line end, of so many at the next space, or at the next character. */
const LINES = 800;
const WORDS = 3000;
const MOST = 6000;
/** A character that can stand beside another block: it joins no neighbour. */
const PLAIN =
  "[\\x20-\\x7e\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Hangul}]";
const PLAIN_END = new RegExp(`${PLAIN}$`, "u");
const PLAIN_START = new RegExp(`^${PLAIN}`, "u");

const canMark = "highlights" in CSS;

/**
 * @typedef {object} Block
 * @property {HTMLElement} element
 * @property {Text} node
 * @property {number} start  Where it begins in the pane's text.
 * @property {StaticRange[]} marks  Of its broken characters, if it is in view.
 * @property {boolean} near  Whether it is in view, or the last one.
 */

/** A pane's text. */
export class TextPane {
  /**
   * @param {HTMLElement} element
   * @param {string} name  Of the pane: `broken-NAME` and `linked-NAME` are its CSS highlights.
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
    if (canMark) {
      this.#marks = new Highlight();
      this.#links = new Highlight();
      CSS.highlights.set(`broken-${name}`, this.#marks);
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
  /** @type {Highlight | undefined} */
  #marks;
  /** @type {Highlight | undefined} */
  #links;
  #watch;
  #jumped = false;
  /** By channel: reasoning and tool calls have another colour than content. @type {Map<string, Highlight>} */
  #channels = new Map();

  /** Remove all text. */
  clear() {
    this.#watch.disconnect();
    this.element.replaceChildren();
    this.#blocks = [];
    this.#marks?.clear();
    this.#links?.clear();
    for (const channel of this.#channels.values()) channel.clear();
    this.length = 0;
    this.atEnd = true;
  }

  /**
   * Add text at the end.
   * @param {string} text
   */
  append(text) {
    let rest = text;
    let added = 0;
    while (rest) {
      const block = this.#openBlock(rest);
      const size = sizeFor(block.node.length, rest);
      const from = block.node.length;
      block.node.appendData(rest.slice(0, size));
      this.length += size;
      this.#mark(block, from);
      rest = rest.slice(size);
      added++;
    }
    this.#jumped ||= added > 1;
  }

  /** Scroll to the end if the reader was there. This forces a layout, so it comes last in a frame. */
  keepEnd() {
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
    if (length === 0) return this.clear();
    const kept = this.#blocks.findLastIndex(({ start }) => start < length) + 1;
    if (this.#blocks.length - kept > 1) {
      // One change of the document instead of one for each block.
      const range = document.createRange();
      range.setStartBefore(/** @type {Block} */ (this.#blocks[kept]).element);
      range.setEndAfter(/** @type {Block} */ (this.#blocks.at(-1)).element);
      range.deleteContents();
    } else this.#blocks[kept]?.element.remove();
    for (const block of this.#blocks.splice(kept)) {
      this.#watch.unobserve(block.element);
      this.#unmark(block, 0);
    }
    const last = this.#blocks.at(-1);
    if (last) {
      const stay = length - last.start;
      if (last.node.length > stay) {
        this.#unmark(last, stay);
        last.node.deleteData(stay, last.node.length - stay);
      }
      this.#setNear(last, true);
    }
    this.#jumped = true;
    this.length = length;
  }

  /** Mark the text between two places, and nothing else. @param {number} from @param {number} to */
  link(from, to) {
    const links = this.#links;
    if (!links) return;
    links.clear();
    for (const range of this.#ranges(from, to)) links.add(range);
  }

  /**
   * Give the text between two places the colour of a channel.
   * @param {string} channel  "reasoning" or "tool_call".
   * @param {number} from
   * @param {number} to
   */
  tint(channel, from, to) {
    if (!canMark) return;
    let highlight = this.#channels.get(channel);
    if (!highlight) {
      this.#channels.set(channel, (highlight = new Highlight()));
      CSS.highlights.set(`channel-${channel}`, highlight);
    }
    for (const range of this.#ranges(from, to)) highlight.add(range);
  }

  /** Scroll a place of the text into view, if it is not. @param {number} offset */
  reveal(offset) {
    const block = this.#blocks[this.#blockAt(offset)];
    if (!block) return;
    const range = document.createRange();
    range.setStart(block.node, Math.min(block.node.length, Math.max(0, offset - block.start)));
    const place = range.getBoundingClientRect();
    const pane = this.element.getBoundingClientRect();
    if (place.height && (place.top < pane.top || place.bottom > pane.bottom))
      this.element.scrollTop += place.top - pane.top - pane.height / 2;
  }

  /** Where in the text a point of the window is, or -1. @param {number} x @param {number} y */
  offsetAt(x, y) {
    const found = caretAt(x, y);
    const block = found && this.#blocks.find(({ node }) => node === found.node);
    return block ? block.start + found.offset : -1;
  }

  /** The text between two places, as ranges in its nodes. @param {number} from @param {number} to */
  #ranges(from, to) {
    const ranges = [];
    for (let n = this.#blockAt(from); n < this.#blocks.length; n++) {
      const { node, start } = /** @type {Block} */ (this.#blocks[n]);
      if (start >= to) break;
      const [first, last] = [Math.max(0, from - start), Math.min(node.length, to - start)];
      if (first < last) ranges.push(rangeIn(node, first, last));
    }
    return ranges;
  }

  /** @param {string} next  The text that comes. @returns {Block} */
  #openBlock(next) {
    const last = this.#blocks.at(-1);
    if (last && !isFull(last.node, next)) return last;
    const element = document.createElement("div");
    element.dataset.block = String(this.#blocks.length);
    const node = document.createTextNode("");
    element.append(node);
    this.element.append(element);
    const block = { element, node, start: this.length, marks: [], near: true };
    this.#blocks.push(block);
    if (last) {
      last.element.className = "whole";
      this.#watch.observe(last.element);
    }
    return block;
  }

  /** The block that has the text at `offset`. @param {number} offset */
  #blockAt(offset) {
    let low = 0;
    let high = this.#blocks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (/** @type {Block} */ (this.#blocks[middle]).start <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** @param {Block} block @param {boolean} near */
  #setNear(block, near) {
    if (block.near === near) return;
    block.near = near;
    if (near) this.#mark(block, 0);
    else this.#unmark(block, 0);
  }

  /** @param {Block} block @param {number} from */
  #mark(block, from) {
    if (!this.#marks || !block.near) return;
    const { node } = block;
    const { data } = node;
    for (let at = data.indexOf("\ufffd", from); at >= 0;) {
      let end = at + 1;
      while (data[end] === "\ufffd") end++;
      const range = rangeIn(node, at, end);
      block.marks.push(range);
      this.#marks.add(range);
      at = data.indexOf("\ufffd", end);
    }
  }

  /** @param {Block} block @param {number} from */
  #unmark(block, from) {
    for (let mark = block.marks.at(-1); mark && mark.endOffset > from; mark = block.marks.at(-1)) {
      block.marks.pop();
      this.#marks?.delete(mark);
      if (mark.startOffset < from) {
        const kept = rangeIn(block.node, mark.startOffset, from);
        block.marks.push(kept);
        this.#marks?.add(kept);
        break;
      }
    }
  }
}

/** @param {Text} node @param {string} next */
function isFull(node, next) {
  const { length } = node;
  if (length < LINES) return false;
  const last = node.data[length - 1] ?? "";
  if (last === "\n") return true;
  if (length < WORDS) return false;
  if (last === " ") return true;
  return length >= MOST && PLAIN_END.test(node.data.slice(-2)) && PLAIN_START.test(next);
}

/** How many UTF-16 units of `text` belong to a block that has `length` already. @param {number} length @param {string} text */
function sizeFor(length, text) {
  if (length + text.length <= LINES) return text.length;
  const line = text.indexOf("\n", Math.max(0, LINES - length - 1)) + 1;
  if (line > 0 && length + line <= WORDS) return line;
  const space = text.indexOf(" ", Math.max(0, WORDS - length - 1)) + 1;
  if (space > 0 && length + space <= MOST) return space;
  for (let at = Math.max(1, MOST - length); at < text.length; at++) {
    if (text[at - 1] === "\n") return at;
    if (
      PLAIN_END.test(text.slice(Math.max(0, at - 2), at)) &&
      PLAIN_START.test(text.slice(at, at + 2))
    )
      return at;
  }
  return text.length;
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
