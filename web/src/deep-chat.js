/**
 * A handler for deep-chat: `chat.connect = { stream: true, handler: detokHandler("/stream") }`.
 *
 * In: the messages that deep-chat sends, the last one unless `requestBodyLimits` says otherwise.
 * Out: the content as it comes, or the sentence of an error; calls go to `onToolCalls`. The stop
 * button cancels the engine.
 */

import { Answer } from "./connect.js";
import { asDetokError, DetokError } from "./decoder.js";
import { callReader, toolCallOf } from "./tool-calls.js";

/**
 * @typedef {object} CallOption  What is done with calls, for which deep-chat has no part.
 * @property {(calls: import("./tool-calls.js").ToolCall[]) => void} [onToolCalls]  Called with the
 *   calls so far whenever more of them has come.
 *
 * @typedef {Omit<import("./connect.js").AnswerOptions, "prompt" | "messages" | "resume" | "id"> &
 *   CallOption}
 *   HandlerOptions  Those of `connect`; deep-chat gives the messages.
 *
 * @typedef {object} ChatResponse  What deep-chat shows.
 * @property {string} [text]   More of the answer.
 * @property {string} [error]  Why there is no more.
 *
 * @typedef {object} StopButton  Deep-chat's.
 * @property {() => void} listener  Called when it is pressed.
 *
 * @typedef {object} Signals  What deep-chat gives a handler.
 * @property {(response: ChatResponse) => Promise<void>} onResponse  Shows it.
 * @property {() => void} onOpen   Told when the answer begins.
 * @property {() => void} onClose  Told when it is over.
 * @property {StopButton} stopClicked  Cancels the engine.
 */

/**
 * @param {string | URL} url  The bridge's WebSocket.
 * @param {HandlerOptions} [options]
 * @returns {(body: unknown, signals: Signals) => Promise<void>}
 */
export function detokHandler(url, { onToolCalls, ...options } = {}) {
  return async (/** @type {any} */ body, { onOpen, onResponse, onClose, stopClicked }) => {
    let shown = false;
    try {
      // With files the body is a form.
      if (!body?.messages) throw new DetokError("A bridge takes text only: send it without files.");
      const messages = body.messages.map((/** @type {any} */ { role, text }) => ({
        role: role === "ai" ? "assistant" : role,
        content: text ?? "",
      }));
      const answer = new Answer(url, { ...options, messages });
      stopClicked.listener = () => answer.cancel();
      onOpen();
      const read = callReader();
      for await (const { channel, text, call } of answer)
        if (channel === "content") {
          shown = true;
          await onResponse({ text });
        } else if (channel === "tool_call") {
          onToolCalls?.(call === undefined ? read(text) : answer.calls.map(toolCallOf));
        }
    } catch (error) {
      // deep-chat 2.4 shows an error of a stream only after some text.
      if (!shown) await onResponse({ text: " " });
      await onResponse({ error: asDetokError(error).message });
    }
    onClose();
  };
}
