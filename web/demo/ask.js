/**
 * Ask for an answer: from the bridge, or from this page, if it cuts the reader's own text itself.
 */

import { connect } from "../src/index.js";
import { DEFAULT_TEXT } from "./default-text.js";
import { streamAddress } from "./engines.js";
import { LocalAnswer } from "./local-answer.js";
import { cutsHere } from "./own-tokenizer.js";

/** @typedef {import("../src/index.js").AnswerOptions} AnswerOptions */

/** @param {AnswerOptions} request @returns {import("../src/index.js").Answer} */
export function ask(request) {
  const whole = { ...request, ...channelOptions(request) };
  return request.params?.engine === "scripted" && cutsHere()
    ? /** @type {any} */ (new LocalAnswer(whole))
    : connect(streamAddress(), /** @type {any} */ (whole));
}

/**
 * The options that separate channels: those of the form. The default text also has a reasoning
 * block; another text of the reader stays whole.
 * @param {Pick<AnswerOptions, "params" | "reasoning" | "tools">} request
 * @returns {{reasoning?: true, tools?: true}}
 */
export function channelOptions({ params, reasoning, tools }) {
  const byDefault = params?.engine === "scripted" && params.text === DEFAULT_TEXT;
  return {
    ...(reasoning || byDefault ? { reasoning: true } : {}),
    ...(tools ? { tools: true } : {}),
  };
}
