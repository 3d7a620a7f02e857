/** Ask for an answer: from the bridge, or, of the reader's own text, from this page if it cuts texts itself. */

import { connect } from "../src/index.js";
import { DEFAULT_TEXT } from "./default-text.js";
import { streamAddress } from "./engines.js";
import { LocalAnswer } from "./local-answer.js";
import { cutsHere } from "./tokenizer.js";

/** @typedef {import("../src/index.js").AnswerOptions} AnswerOptions */

/** @param {AnswerOptions} request @returns {import("../src/index.js").Answer} */
export function ask(request) {
  const whole = { ...request, ...toldApart(request) };
  return request.params?.engine === "scripted" && cutsHere()
    ? /** @type {any} */ (new LocalAnswer(whole))
    : connect(streamAddress(), /** @type {any} */ (whole));
}

/**
 * What is told apart from the answer: what the form asks for. Of the default text it is the reasoning block; a text of the
 * reader's own stays as it is.
 * @param {Pick<AnswerOptions, "params" | "reasoning" | "tools">} request
 * @returns {{reasoning?: true, tools?: true}}
 */
export function toldApart({ params, reasoning, tools }) {
  const byDefault = params?.engine === "scripted" && params.text === DEFAULT_TEXT;
  return {
    ...(reasoning || byDefault ? { reasoning: true } : {}),
    ...(tools ? { tools: true } : {}),
  };
}
