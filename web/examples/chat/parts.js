/**
 * The parts of a message: text, reasoning and tool calls.
 *
 * In: the deltas of an answer. Out: its parts; the calls in a part; and the messages that the
 * engine gets when it is asked again.
 */

/** @typedef {import("./history.js").Message} Message */
/** @typedef {import("./history.js").Part} Part */

/** @typedef {{name?: string, arguments?: unknown, text: string}} ToolCall */

/**
 * Add a delta to the parts. Each call in a format is a part of its own.
 * @param {Part[]} parts
 * @param {import("/src/index.js").Delta} delta
 */
export function addDelta(parts, { channel, text, ...more }) {
  let part = parts.at(-1);
  if (part?.channel !== channel || part.call !== more.call)
    parts.push((part = { channel, text: "" }));
  part.text += text;
  Object.assign(part, more); // the name comes with the first delta, `complete` with the last
}

/** The text of a message without its reasoning and its calls. @param {Message} message */
export const contentOf = ({ parts }) =>
  parts
    .filter(({ channel }) => channel === "content")
    .map(({ text }) => text)
    .join("");

/**
 * The calls in a part: that of a format; or what is between tags, a JSON object or an array of
 * them.
 * @param {Part} part
 * @returns {ToolCall[]}
 */
export function callsIn({ text, call, name }) {
  try {
    const value = JSON.parse(text);
    if (call !== undefined) return [{ name, arguments: value, text }];
    return [value].flat().map((each) => ({ ...each, text }));
  } catch {
    return [{ text }];
  }
}

const NOT_RUN = "This page does not run tools.";

/**
 * The messages that the engine gets: every turn that is not empty. Whole calls in a format are
 * OpenAI's, which the engine's template writes in its format, with an answer to each, which OpenAI
 * and some templates demand; other calls are between their tags. Reasoning is left out.
 * @param {Message[]} messages
 * @returns {import("/src/index.js").Message[]}
 */
export function turns(messages) {
  const said = {
    content: (/** @type {string} */ text) => text,
    reasoning: () => "",
    tool_call: (/** @type {string} */ text) => `<tool_call>${text}</tool_call>`,
  };
  /** @type {(message: Message, n: number) => import("/src/index.js").Message[]} */
  const turn = ({ role, parts }, n) => {
    const content = parts
      .map(({ channel, text, call }) => (call === undefined ? said[channel](text) : ""))
      .join("")
      .trim();
    const calls = parts
      .filter(({ call, complete }) => call !== undefined && complete)
      .map(({ call, id = `call-${n}-${call}`, name, text }) => ({
        id,
        type: "function",
        function: { name, arguments: text },
      }));
    const results = calls.map(({ id }) => ({ role: "tool", content: NOT_RUN, tool_call_id: id }));
    if (calls.length) return [{ role, content, tool_calls: calls }, ...results];
    return content ? [{ role, content }] : [];
  };
  return messages.flatMap(turn);
}
