/** Ask for an answer: from the bridge, or, of the reader's own text, from this page if it cuts texts itself. */

import { connect } from "../src/index.js";
import { DEFAULT_TEXT } from "./default-text.js";
import { streamAddress } from "./engines.js";
import { LocalAnswer } from "./local-answer.js";
import { cutsHere } from "./tokenizer.js";

/**
 * @param {Parameters<typeof connect>[1]} request
 * @returns {import("../src/index.js").Answer}
 */
export function ask(request) {
  const { text, engine } = /** @type {{text?: string, engine?: string}} */ (request.params ?? {});
  const own = engine === "scripted";
  // The reasoning block of the default text is told apart; a text of the reader's own stays as it is,
  // unless the form asks for it.
  const whole =
    own && text === DEFAULT_TEXT ? { ...request, reasoning: /** @type {const} */ (true) } : request;
  return own && cutsHere()
    ? /** @type {any} */ (new LocalAnswer(whole))
    : connect(streamAddress(), whole);
}
