/**
 * The calls of an answer, and calls as text.
 *
 * In: the calls that were read in a format; or what models write between their tags: JSON objects
 * `{"name", "arguments"}`, one or several, or an array of them. Out: a ToolCall each. Other text is
 * a ToolCall without a name.
 */

/**
 * @typedef {object} ToolCall  A call of a tool, read from a model's text.
 * @property {string} [name]        Absent if the text is not a call that can be read.
 * @property {unknown} [arguments]   As JSON says them; absent while they come.
 * @property {string} text          As the model wrote it; in a format, the JSON text of the
 *   arguments so far.
 * @property {string | null} [id]   In a format: that of the markup, if it has one.
 * @property {boolean} [complete]   In a format: whether the whole call has come.
 */

/**
 * The arguments of a call that was read in a format; none while they come, or if they are no JSON.
 * @param {string} text
 * @param {boolean} complete
 * @returns {{arguments?: unknown}}
 */
export function argumentsOf(text, complete) {
  try {
    return complete ? { arguments: JSON.parse(text) } : {};
  } catch {
    return {};
  }
}

/**
 * A call that was read in a format.
 * @param {import("./detok-stream.js").Call} call
 * @returns {ToolCall}
 */
export const toolCallOf = ({ id, name, arguments: text, complete }) => ({
  id,
  name,
  ...argumentsOf(text, complete),
  text,
  complete,
});

/** @param {string} text @returns {ToolCall[]} */
export function readToolCalls(text) {
  return pieces(text).flatMap((piece) => {
    let value;
    try {
      value = JSON.parse(piece);
    } catch {
      return [{ text: piece }];
    }
    return [value]
      .flat()
      .map((call) =>
        typeof call?.name === "string"
          ? { name: call.name, arguments: call.arguments ?? call.parameters ?? {}, text: piece }
          : { text: piece },
      );
  });
}

/**
 * A call as models write it, between the first tags that `tools` names.
 * @param {unknown} name
 * @param {unknown} input
 * @param
 *   {import("./detok-stream.js").TextOptions["tools"]} tools
 */
export function writeToolCall(name, input, tools) {
  const [open, close] = Array.isArray(tools) ? tools.flat() : ["<tool_call>", "</tool_call>"];
  return `\n${open}\n${JSON.stringify({ name, arguments: input })}\n${close ?? ""}`;
}

/** Cut after each outermost bracket. @param {string} text */
function pieces(text) {
  const out = [];
  let depth = 0;
  let from = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const letter = text[at];
    if (quoted) {
      if (letter === "\\") at++;
      else quoted = letter !== '"';
    } else if (letter === '"') quoted = true;
    else if (letter === "{" || letter === "[") depth++;
    else if ((letter === "}" || letter === "]") && --depth === 0) {
      out.push(text.slice(from, at + 1));
      from = at + 1;
    }
  }
  return [...out, text.slice(from)].map((piece) => piece.trim()).filter(Boolean);
}
