/**
 * Explains the words of the page that a newcomer may not know: a `?` beside each opens a sentence
 * or two. The browser opens and closes them (the Popover API), so Escape, a click elsewhere and the
 * keyboard work as on other pages.
 */

import { make } from "./dom.js";

/**
 * Where the `?` goes, the word, and what it means.
 * @type {[where: string, word: string, meaning: string][]}
 */
const HELP = [
  [
    "#runtime legend",
    "Python in WebAssembly",
    "The package detok_py runs in this page, in a worker. Pyodide is CPython; MicroPython is a smaller Python, which loads faster. Both decode alike.",
  ],
  [
    "dt:has(+ #engine-name)",
    "Engine",
    "The program that runs the model: llama.cpp, vLLM, Ollama and others. The bridge, detok serve, is the program between it and a page.",
  ],
  [
    "dt:has(+ #engine-fidelity)",
    "What arrives",
    "Ids are the numbers of the model's tokens, and bytes are what they stand for: with either, nothing is lost on the way here. Text was decoded by a server before: what that broke, no page can mend.",
  ],
  [
    "label[for=format]",
    "Format",
    "How the model writes its reasoning and its calls of tools around the answer. With the right format they are told apart, and their markup is not shown. Another choice reads the same stream again.",
  ],
  [
    "label[for=stop-strings]",
    "Stop strings",
    "The answer ends where one of them comes, and it is not shown. Text that may be its beginning waits until that is certain. \\n stands for a line end.",
  ],
  [
    "label[for=cut]",
    "Cut",
    "A model does not write letters but tokens: words, parts of words, or parts of one character. Into tokens: your text comes as a model would send it. Into bytes: one byte at a time, so that each character beyond ASCII comes in parts.",
  ],
  [
    ".check:has(#channels)",
    "Reasoning and tools apart",
    "Text in <think> and <tool_call> gets another colour, and its tags are not shown. A model whose format is known needs no tick.",
  ],
  [
    "dt:has(+ [data-count=painted])",
    "To painted",
    "From the arrival of a token in this page until its text is on the screen. Half of the tokens needed at most the first time, 99 of 100 at most the second. The wait for bytes that have not come is not in it.",
  ],
  [
    ".legend li:first-child",
    "The boxes",
    "Each box is a token: above its bytes, in hexadecimal, and below the text that it made certain. ■ and c: the byte is part of a complete character. ◧ and h: it was held until the rest came. ✕ and r: it was replaced by �. The sign and the letter say the same as the colour.",
  ],
];

/** @param {string} where @param {string} word @param {string} meaning @param {number} n */
function explain(where, word, meaning, n) {
  const term = document.querySelector(where);
  if (!term) throw new Error(`The page has no ${where} to explain.`);
  const ariaLabel = `What does “${word}” mean?`;
  const sign = make("button", { type: "button", className: "help", ariaLabel });
  const its = { id: `help-${n}`, className: "help-note", popover: "auto", role: "note" };
  const note = make("span", its, meaning);
  sign.setAttribute("popovertarget", note.id);
  sign.setAttribute("aria-describedby", note.id);
  note.addEventListener("toggle", () => placeNote(note, sign));
  // A button inside a label would be a part of its field's name.
  if (term instanceof HTMLLabelElement) term.after(sign, note);
  else term.append(" ", sign, note);
}

/** Put a note below its sign, within the window. @param {HTMLElement} note @param {Element} sign */
export function placeNote(note, sign) {
  const { left, bottom, top } = sign.getBoundingClientRect();
  const { offsetWidth, offsetHeight } = note;
  const below = bottom + 6 + offsetHeight <= innerHeight;
  note.style.left = `${Math.max(8, Math.min(left - 16, innerWidth - offsetWidth - 8))}px`;
  note.style.top = `${below ? bottom + 6 : Math.max(8, top - 6 - offsetHeight)}px`;
}

/** Put a `?` beside each word. The page must have all of them. */
export function explainWords() {
  HELP.forEach(([where, word, meaning], n) => explain(where, word, meaning, n));
}

/** Whether Escape closes an explanation, and nothing else. */
export const isHelpOpen = () => document.querySelector(".help-note:popover-open") !== null;
