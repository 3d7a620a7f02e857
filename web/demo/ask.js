/** Ask for an answer: from the bridge, or, of the reader's own text, from this page if it cuts texts itself. */

import { connect } from "../src/index.js";
import { LocalAnswer } from "./local-answer.js";
import { cutsHere } from "./tokenizer.js";

/**
 * @param {Parameters<typeof connect>[1]} request
 * @returns {import("../src/index.js").Answer}
 */
export function ask(request) {
  const { text, engine } = /** @type {{text?: string, engine?: string}} */ (request.params ?? {});
  const own = engine === "scripted";
  // A reasoning block in a text of the reader's own is told apart, as it is in an engine's.
  const whole =
    own && text?.includes("<think>")
      ? { ...request, reasoning: /** @type {const} */ (true) }
      : request;
  return own && cutsHere()
    ? /** @type {any} */ (new LocalAnswer(whole))
    : connect("/stream", whole);
}
