/**
 * A model for assistant-ui: `useLocalRuntime(detokModel("/stream"))`.
 *
 * In: the messages of a thread. Out: after each delta the message so far: text, reasoning and tool calls
 * as parts; then how it ended. Nothing of @assistant-ui/react is imported.
 */

import { Answer } from "./connect.js";
import { DetokError } from "./decoder.js";
import { readToolCalls, writeToolCall } from "./tool-calls.js";

/**
 * @typedef {Omit<import("./connect.js").AnswerOptions, "prompt" | "messages" | "resume" | "id" | "signal">} ModelOptions
 *
 * @typedef {object} Message  What is used of assistant-ui's ThreadMessage.
 * @property {"system" | "user" | "assistant"} role
 * @property {readonly {type: string, text?: string, toolName?: string, args?: unknown, result?: unknown}[]} content
 * @property {readonly unknown[]} [attachments]
 *
 * @typedef {{messages: readonly Message[], abortSignal: AbortSignal, context?: {system?: string}}} RunOptions
 *
 * @typedef {{type: "text" | "reasoning", text: string}} TextPart
 * @typedef {{type: "tool-call", toolCallId: string, toolName: string, args: any, argsText: string}} CallPart
 * @typedef {{type: "complete", reason: "stop"} | {type: "requires-action", reason: "tool-calls"} |
 *   {type: "incomplete", reason: "length" | "cancelled"}} Status
 * @typedef {{content: (TextPart | CallPart)[], status?: Status}} Result
 */

/**
 * @param {string | URL} url  The bridge's WebSocket.
 * @param {ModelOptions} [options]
 * @returns {{run(options: RunOptions): AsyncGenerator<Result, void>}}  A ChatModelAdapter.
 */
export function detokModel(url, options = {}) {
  return {
    async *run({ messages: thread, abortSignal: signal, context }) {
      const messages = thread.flatMap((message) => plainMessages(message, options.tools));
      if (context?.system) messages.unshift({ role: "system", content: context.system });
      const answer = new Answer(url, { ...options, messages, signal });
      const key = Math.random().toString(36).slice(2);
      /** @type {import("./detok-stream.js").Delta[]} */
      const blocks = [];
      const content = (over = false) =>
        blocks.flatMap((block, n) => partsOf(block, `call-${key}-${n}`, over));
      for await (const { channel, text } of answer) {
        const last = blocks.at(-1);
        if (last?.channel === channel) last.text += text;
        else blocks.push({ channel, text });
        yield { content: content() };
      }
      const { reason } = await answer.finished;
      const parts = content(true);
      yield { content: parts, status: statusOf(reason, parts) };
    },
  };
}

/** @param {import("./connect.js").Finish["reason"]} reason @param {Result["content"]} parts @returns {Status} */
function statusOf(reason, parts) {
  if (reason === "length" || reason === "cancelled") return { type: "incomplete", reason };
  return parts.some(({ type }) => type === "tool-call")
    ? { type: "requires-action", reason: "tool-calls" }
    : { type: "complete", reason: "stop" };
}

/** @param {import("./detok-stream.js").Delta} block @param {string} id @param {boolean} over @returns {Result["content"]} */
function partsOf({ channel, text }, id, over) {
  if (channel !== "tool_call")
    return text.trim() ? [{ type: channel === "reasoning" ? "reasoning" : "text", text }] : [];
  /** @param {import("./tool-calls.js").ToolCall} call @param {number} n @returns {Result["content"]} */
  const partOf = ({ name: toolName, arguments: args, text: written }, n) => {
    // Half a call is no call yet; what never becomes one is shown.
    if (toolName === undefined) return over ? [{ type: "text", text: written }] : [];
    const argsText = JSON.stringify(args);
    return [{ type: "tool-call", toolCallId: `${id}-${n}`, toolName, args, argsText }];
  };
  return readToolCalls(text).flatMap(partOf);
}

/**
 * A message as the engine's template takes it: text, calls and their results, no reasoning.
 * @param {Message} message @param {ModelOptions["tools"]} tools
 * @returns {{role: string, content: string}[]}
 */
function plainMessages({ role, content: parts, attachments }, tools) {
  if (attachments?.length)
    throw new DetokError("A bridge takes text only: send the message without attachments.");
  let content = "";
  const results = [];
  for (const part of parts) {
    if (part.type === "text") content += part.text ?? "";
    else if (part.type === "tool-call") {
      content += writeToolCall(part.toolName, part.args, tools);
      if (part.result !== undefined)
        results.push({ role: "tool", content: JSON.stringify(part.result) });
    } else if (part.type !== "reasoning" && part.type !== "source")
      throw new DetokError(`A bridge takes text only, and this message has a part "${part.type}".`);
  }
  return [{ role, content: content.trimStart() }, ...results];
}
