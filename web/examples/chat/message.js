/**
 * One message on the page. Text goes in as text nodes only, and shown text never changes.
 *
 * Content is Markdown (markdown.js), reasoning is folded, and a tool call is shown but not run.
 */

import { showMarkdown } from "/examples/built/markdown.js";
import { callsIn, contentOf } from "./parts.js";

/** @typedef {import("./history.js").Message} Message */

/**
 * Long text is split over several nodes, so that the browser lays out only the last one when text
 * is appended.
 */
const NODE_LENGTH = 4096;

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Partial<HTMLElementTagNameMap[T]> & {className?: string}} [its]
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function make(tag, its = {}, ...children) {
  const element = Object.assign(document.createElement(tag), its);
  element.append(...children);
  return element;
}

/** @param {string} label @param {() => void} onclick @param {string} [className] */
export const makeButton = (label, onclick, className = "") =>
  make("button", { type: "button", className, onclick }, label);

/** A message's element, and how far the message has been painted into it. */
export class MessageView {
  /**
   * @param {Message} message
   * @param {{onCopy(text: string): void, onAgain?: () => void}} does
   */
  constructor(message, does) {
    this.message = message;
    const mine = message.role === "user";
    this.element = make("article", { className: `message ${message.role}` });
    this.element.setAttribute("aria-label", mine ? "You" : "Answer");
    this.#does = does;
    this.element.append(this.#foot);
    this.paint();
  }

  #does;
  /** @type {{element: HTMLElement, text: HTMLElement, painted: number}[]} */
  #parts = [];
  #foot = make("div", { className: "foot" });
  #ended = false;

  /** Paint the text that came since the last call. */
  paint() {
    const { parts, end, role } = this.message;
    parts.forEach((part, n) => {
      // White space alone, as between two tool calls, gets no element.
      if (!this.#parts[n] && !part.text.trim()) return;
      const shown = (this.#parts[n] ??= this.#begin(part.channel));
      const start = shown.painted || part.text.length - part.text.trimStart().length;
      if (role === "assistant" && part.channel === "content")
        showMarkdown(shown.text, part.text.trimStart(), !end);
      else append(shown.text, part.text.slice(start));
      shown.painted = part.text.length;
    });
    if (this.#ended || !(end || role === "user")) return;
    this.#ended = true;
    this.#finish();
  }

  /** Remove the button that asks again: only the last answer has one. */
  removeAgain() {
    this.#foot.querySelector(".again")?.remove();
  }

  /** @param {string} channel */
  #begin(channel) {
    const text = make("div", { className: "text", dir: "auto" });
    let element = /** @type {HTMLElement} */ (text);
    if (channel === "reasoning")
      element = make("details", { className: "reasoning" }, make("summary", {}, "Reasoning"), text);
    if (channel === "tool_call") element = callFigure("Tool call", text);
    this.#foot.before(element);
    return { element, text, painted: 0 };
  }

  #finish() {
    const { end, parts } = this.message;
    this.#parts.forEach((shown, n) => {
      const part = parts[n];
      if (part?.channel === "tool_call")
        shown.element.replaceWith(...callsIn(part).map(finishedCall));
    });
    if (end?.sentence)
      this.#foot.append(
        make("p", { className: end.reason === "error" ? "end wrong" : "end" }, end.sentence),
      );
    const { onCopy, onAgain } = this.#does;
    const copied = contentOf(this.message).trim();
    if (copied) this.#foot.append(makeButton("Copy", () => onCopy(copied), "quiet"));
    const label = end?.reason === "error" ? "Try again" : "Ask again";
    if (onAgain) this.#foot.append(makeButton(label, onAgain, "quiet again"));
  }
}

/** @param {string} said @param {HTMLElement} text */
const callFigure = (said, text) =>
  make("figure", { className: "call" }, make("figcaption", {}, said), text);

/** @param {import("./parts.js").ToolCall} call */
function finishedCall({ name, arguments: given, text }) {
  const said =
    name === undefined
      ? "A tool call that cannot be read"
      : `Asks for the tool ${name}, which this page does not run`;
  const shown = name === undefined ? text : JSON.stringify(given, null, 2);
  return callFigure(said, make("div", { className: "text", dir: "auto" }, shown));
}

/** @param {HTMLElement} element @param {string} text */
function append(element, text) {
  if (!text) return;
  const last = element.lastChild;
  if (last instanceof Text && last.length < NODE_LENGTH) last.appendData(text);
  else element.append(text);
}
