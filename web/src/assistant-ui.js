/**
 * A model for assistant-ui: `useLocalRuntime(detokModel("/stream"))`.
 *
 * In: the messages of a thread. Out: after each delta the message so far: text, reasoning and tool
 * calls as parts; then how it ended. Nothing of @assistant-ui/react is imported.
 */

import { Answer } from "./connect.js";
import { DetokError } from "./decoder.js";
import { argumentsOf, readToolCalls, turnsOf } from "./tool-calls.js";

/**
 * @typedef
 *   {Omit<import("./connect.js").AnswerOptions,
 *   "prompt" | "messages" | "resume" | "id" | "signal">}
 *   ModelOptions  Those of `connect`; the thread gives the rest.
 *
 * @typedef {object} MessagePart  What is used of a part of a message.
 * @property {string} type  "text" and "tool-call" are sent, others are not.
 * @property {string} [text]  Of a text.
 * @property {string} [toolCallId]  Of a call.
 * @property {string} [toolName]  Of a call.
 * @property {unknown} [args]  Of a call.
 * @property {unknown} [result]  Of a call that has been answered.
 *
 * @typedef {object} Message  What is used of assistant-ui's ThreadMessage.
 * @property {"system" | "user" | "assistant"} role  Whose it is.
 * @property {readonly MessagePart[]} content  Its parts.
 * @property {readonly unknown[]} [attachments]  Refused: a bridge takes text only.
 *
 * @typedef {object} RunContext  What is used of assistant-ui's ModelContext.
 * @property {string} [system]  Sent as the first message.
 *
 * @typedef {object} RunOptions  What is used of assistant-ui's ChatModelRunOptions.
 * @property {readonly Message[]} messages  The thread.
 * @property {AbortSignal} abortSignal  Cancels the engine.
 * @property {RunContext} [context]  Of the model.
 *
 * @typedef {object} TextPart  Text of the answer.
 * @property {"text" | "reasoning"} type  Its channel.
 * @property {string} text  What has come of it.
 *
 * @typedef {object} CallPart  A call of a tool.
 * @property {"tool-call"} type  Always so.
 * @property {string} toolCallId  Made here; no other call has it.
 * @property {string} toolName  The tool.
 * @property {any} args  Its arguments; an empty object while they come.
 * @property {string} argsText  Its arguments as JSON, as far as they have come.
 *
 * @typedef {object} Complete  The answer is whole.
 * @property {"complete"} type  Always so.
 * @property {"stop"} reason  Always so.
 *
 * @typedef {object} RequiresAction  The answer ends in calls, which want results.
 * @property {"requires-action"} type  Always so.
 * @property {"tool-calls"} reason  Always so.
 *
 * @typedef {object} Incomplete  The answer was cut short.
 * @property {"incomplete"} type  Always so.
 * @property {"length" | "cancelled"} reason  By what.
 *
 * @typedef {Complete | RequiresAction | Incomplete} Status  How the answer ended.
 *
 * @typedef {object} Result  The message so far.
 * @property {(TextPart | CallPart)[]} content  Its parts.
 * @property {Status} [status]  Of the last one.
 *
 * @typedef {object} Model  What is used of assistant-ui's ChatModelAdapter.
 * @property {(options: RunOptions) => AsyncGenerator<Result, void>} run  Asks for an answer to a
 *   thread.
 */

/**
 * @param {string | URL} url  The bridge's WebSocket.
 * @param {ModelOptions} [options]
 * @returns {Model}  A ChatModelAdapter.
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
      for await (const delta of answer) {
        const last = blocks.at(-1);
        if (last?.channel === delta.channel && last.call === delta.call)
          Object.assign(last, { text: last.text + delta.text, complete: delta.complete });
        else blocks.push(delta);
        yield { content: content() };
      }
      const { reason } = await answer.finished;
      const parts = content(true);
      yield { content: parts, status: statusOf(reason, parts) };
    },
  };
}

/**
 * @param {import("./connect.js").Finish["reason"]} reason
 * @param {Result["content"]} parts
 * @returns {Status}
 */
function statusOf(reason, parts) {
  if (reason === "length" || reason === "cancelled") return { type: "incomplete", reason };
  return parts.some(({ type }) => type === "tool-call")
    ? { type: "requires-action", reason: "tool-calls" }
    : { type: "complete", reason: "stop" };
}

/**
 * @param {import("./detok-stream.js").Delta} block
 * @param {string} id
 * @param {boolean} over
 * @returns {Result["content"]}
 */
function partsOf({ channel, text, call, name: toolName = "", complete = false }, id, over) {
  if (call !== undefined) {
    const { arguments: args = {} } = argumentsOf(text, complete);
    return [{ type: "tool-call", toolCallId: `${id}-0`, toolName, args, argsText: text }];
  }
  if (channel !== "tool_call")
    return text.trim() ? [{ type: channel === "reasoning" ? "reasoning" : "text", text }] : [];
  /**
   * @param {import("./tool-calls.js").ToolCall} call
   * @param {number} n
   * @returns {Result["content"]}
   */
  const partOf = ({ name: toolName, arguments: args, text: written }, n) => {
    // An unfinished call is not shown yet. At the end, its text is.
    if (toolName === undefined) return over ? [{ type: "text", text: written }] : [];
    const argsText = JSON.stringify(args);
    return [{ type: "tool-call", toolCallId: `${id}-${n}`, toolName, args, argsText }];
  };
  return readToolCalls(text).flatMap(partOf);
}

/**
 * A message as the engine's template takes it: text, calls and their results, no reasoning.
 * @param {Message} message
 * @param {ModelOptions["tools"]} tools
 * @returns {import("./connect.js").Message[]}
 */
function plainMessages({ role, content: parts, attachments }, tools) {
  if (attachments?.length)
    throw new DetokError("A bridge takes text only: send the message without attachments.");
  const turns = turnsOf(role, tools);
  for (const part of parts) {
    if (part.type === "text") turns.say(part.text ?? "");
    else if (part.type === "tool-call") {
      const { toolCallId: id = "", toolName: name = "", args: input, result } = part;
      turns.call({ id, name, input, result });
    } else if (part.type !== "reasoning" && part.type !== "source")
      throw new DetokError(`A bridge takes text only, and this message has a part "${part.type}".`);
  }
  return turns.end();
}
