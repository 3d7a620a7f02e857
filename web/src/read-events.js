/**
 * Events of chat APIs to deltas: OpenAI's completions, chat completions and responses and what is
 * compatible with them, llama-server, Mistral, Anthropic, Ollama; and the same APIs' whole answers.
 *
 * In: events, whose data is JSON. Out: `{channel, text}`. Held: half a surrogate pair that an engine
 * wrote into two events.
 */

import { DetokError } from "./decoder.js";

/**
 * @typedef {import("./detok-stream.js").Delta} Delta
 * @typedef {{index: number | string, name?: string, text?: string}} Call  A part of a tool call.
 *
 * @typedef {object} Part  What an event says.
 * @property {unknown} [content]
 * @property {unknown} [reasoning]
 * @property {Call[]} [calls]
 * @property {string} [reason]  Why the engine has ended.
 * @property {boolean} [over]
 */

/** Texts of one value: a string, or a list of parts as Mistral has it. @param {any} value @returns {string} */
const textOf = (value) =>
  typeof value === "string"
    ? value
    : Array.isArray(value)
      ? value.map((part) => textOf(part?.text ?? part?.refusal)).join("")
      : "";

/** The arguments of a call, which some servers give as an object. @param {unknown} value */
const argumentsOf = (value) => (typeof value === "string" ? value : JSON.stringify(value ?? {}));

/** @param {any} value @returns {Part | undefined} */
function completion(value) {
  const choice = value.choices
    ? value.choices.find((/** @type {any} */ one) => (one.index ?? 0) === 0)
    : value;
  if (!choice) return {};
  const delta = choice.delta ?? choice.message ?? choice;
  const content = delta.content ?? delta.text ?? (value.choices ? undefined : value.response);
  if (!value.choices && content === undefined && choice.stop !== true && value.done !== true)
    return undefined;
  const parts = Array.isArray(content) ? content : [];
  const thought = parts.map((/** @type {any} */ part) => textOf(part.thinking)).join("");
  return {
    content: textOf(content),
    reasoning:
      textOf(delta.reasoning_content ?? delta.reasoning ?? delta.thinking ?? value.thinking) +
      thought,
    calls: (delta.tool_calls ?? []).map((/** @type {any} */ call, /** @type {number} */ n) => ({
      index: call.index ?? (choice.message ? n : 0),
      name: call.function?.name,
      // A fragment of a stream may have none.
      text: call.function?.arguments === undefined ? "" : argumentsOf(call.function.arguments),
    })),
    reason: choice.finish_reason || value.done_reason,
    over: Boolean(choice.finish_reason || choice.stop === true || value.done === true),
  };
}

/** What a typed event says: Anthropic's messages, OpenAI's responses. @type {Record<string, (value: any) => Part>} */
const TYPED = {
  message_start: () => ({}),
  ping: () => ({}),
  content_block_start: ({ index, content_block: { type, name, text, thinking } }) =>
    type === "tool_use"
      ? { calls: [{ index, name }] }
      : { content: type === "text" && text, reasoning: type === "thinking" && thinking },
  content_block_delta: ({ index, delta: { text, thinking, partial_json } }) => ({
    content: text,
    reasoning: thinking,
    calls: partial_json === undefined ? [] : [{ index, text: partial_json }],
  }),
  content_block_stop: () => ({}),
  message_delta: ({ delta }) => ({ reason: delta?.stop_reason }),
  message_stop: () => ({ over: true }),
  message: ({ content, stop_reason }) => ({
    content: textOf(content),
    reasoning: content.map((/** @type {any} */ part) => part.thinking ?? "").join(""),
    calls: content.flatMap((/** @type {any} */ part, /** @type {number} */ index) =>
      part.type === "tool_use" ? [{ index, name: part.name, text: argumentsOf(part.input) }] : [],
    ),
    reason: stop_reason,
    over: true,
  }),
  "response.output_text.delta": ({ delta }) => ({ content: delta }),
  "response.refusal.delta": ({ delta }) => ({ content: delta }),
  "response.reasoning_text.delta": ({ delta }) => ({ reasoning: delta }),
  "response.reasoning_summary_text.delta": ({ delta }) => ({ reasoning: delta }),
  "response.output_item.added": ({ output_index: index, item }) =>
    item?.type === "function_call" ? { calls: [{ index, name: item.name }] } : {},
  "response.function_call_arguments.delta": ({ output_index: index, delta: text }) => ({
    calls: [{ index, text }],
  }),
  "response.completed": ({ response }) => ({ reason: response?.status ?? "completed", over: true }),
  "response.incomplete": ({ response }) => ({
    reason: response?.incomplete_details?.reason ?? "incomplete",
    over: true,
  }),
};

/** A whole answer of OpenAI's responses. @param {any} value @returns {Part} */
const wholeResponse = ({ output, status }) => ({
  content: textOf(
    output.flatMap((/** @type {any} */ item) => (item.type === "message" ? item.content : [])),
  ),
  reasoning: textOf(
    output.flatMap((/** @type {any} */ item) => (item.type === "reasoning" ? item.summary : [])),
  ),
  calls: output.flatMap((/** @type {any} */ item, /** @type {number} */ index) =>
    item.type === "function_call" ? [{ index, name: item.name, text: item.arguments }] : [],
  ),
  reason: status,
  over: true,
});

/** @param {any} value @returns {Part | undefined}  Undefined if it is of another kind. */
function partOf(value) {
  if (Array.isArray(value.output) && value.object === "response") return wholeResponse(value);
  if (typeof value.type !== "string" || value.choices) return completion(value);
  // The other events of responses repeat what the deltas said.
  return (
    TYPED[value.type]?.(value) ?? (value.type.startsWith("response.") ? {} : completion(value))
  );
}

/** The sentence of an error, if that is what it is. @param {any} value @returns {any} */
const errorOf = (value) =>
  value.error ??
  (value.type === "error" ? value : undefined) ??
  (value.type === "response.failed" ? (value.response?.error ?? "The server failed.") : undefined);

/**
 * How it ended is put into `end`: an error in the stream would drop what was not read yet.
 * @param {{reason?: string, error?: DetokError}} end
 * @returns {TransformStream<{data: string}, Delta>}
 */
export function deltasOf(end) {
  const halves = { content: "", reasoning: "", tool_call: "" };
  /** @type {Call["index"] | undefined} */
  let call;
  let over = false;
  let known = false;
  /** What an event is that is not read here. @type {string | undefined} */
  let stranger;
  /** @param {TransformStreamDefaultController<Delta>} controller @param {Delta["channel"]} channel @param {unknown} text */
  const give = (controller, channel, text) => {
    if (typeof text !== "string") return;
    const whole = halves[channel] + text;
    // An engine may write a character beyond U+FFFF as two escapes, in two events.
    const cut = whole.length - (/[\ud800-\udbff]$/.test(whole) ? 1 : 0);
    halves[channel] = whole.slice(cut);
    if (cut)
      controller.enqueue({
        channel,
        text: whole.slice(0, cut).replace(/\p{Surrogate}/gu, "\ufffd"),
      });
  };
  return new TransformStream({
    transform({ data }, controller) {
      if (data === "[DONE]") {
        over = true;
        return;
      }
      const fail = (/** @type {string} */ sentence, /** @type {number} */ code = NaN) => {
        end.error = new DetokError(sentence, {
          kind: "server",
          retry: true,
          code: code || undefined,
        });
        controller.terminate();
      };
      let value;
      try {
        value = JSON.parse(data);
      } catch {
        return fail(
          "The server sent an event that is no JSON: the stream was cut, or it is not an engine's. What came before is kept.",
        );
      }
      if (typeof value !== "object" || value === null) return;
      const error = errorOf(value);
      if (error) return fail(String(error.message ?? error), Number(error.code));
      const part = partOf(value);
      if (!part) {
        stranger ??= String(value.type ?? Object.keys(value).join(", "));
        return;
      }
      known = true;
      give(controller, "reasoning", part.reasoning);
      give(controller, "content", part.content);
      for (const { index, name, text } of part.calls ?? []) {
        // In the form in which a model writes a call between its tags.
        if (index !== call)
          give(
            controller,
            "tool_call",
            `${call === undefined ? "" : "}\n"}{"name": ${JSON.stringify(name ?? "")}, "arguments": `,
          );
        call = index;
        give(controller, "tool_call", text);
      }
      if (part.reason) end.reason = part.reason;
      over ||= Boolean(part.over);
    },
    flush(controller) {
      for (const channel of /** @type {const} */ (["reasoning", "content", "tool_call"])) {
        if (halves[channel]) controller.enqueue({ channel, text: "\ufffd" });
      }
      if (call !== undefined) controller.enqueue({ channel: "tool_call", text: "}" });
      if (!known && stranger)
        end.error ??= new DetokError(
          `The server's answer is of a kind that is not read here (${stranger}); read it yourself, and give its text to DetokStream.`,
          { kind: "server" },
        );
      if (!over)
        end.error ??= new DetokError(
          "The server's stream ended before the answer did; what came is kept. Ask again for the whole of it.",
          { kind: "server", retry: true },
        );
    },
  });
}
