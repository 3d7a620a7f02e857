/**
 * Tool calls of an answer as objects, and as messages that are sent again.
 *
 * In: the calls that were read in a format; or what models write between their tags: JSON objects
 * `{"name", "arguments"}`, one or several, or an array of them. Out: a ToolCall for each. Other
 * text is a ToolCall without a name.
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
 * The arguments of a call that was read in a format; none while they come, or if they are not JSON.
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
export const readToolCalls = (text) => callReader()(text);

/**
 * A function that takes the next text, and returns the calls so far. A call ends with its outermost
 * closing bracket.
 * @returns {(text: string) => ToolCall[]}
 */
export function callReader() {
  /** @type {ToolCall[]} */
  const whole = [];
  let [rest, at, depth, quoted] = ["", 0, 0, false];
  return (text) => {
    rest += text;
    for (; at < rest.length; at++) {
      const letter = rest[at];
      if (quoted) {
        if (letter === "\\") at++;
        else quoted = letter !== '"';
      } else if (letter === '"') quoted = true;
      else if (letter === "{" || letter === "[") depth++;
      else if ((letter === "}" || letter === "]") && --depth <= 0) {
        depth = 0; // one bracket too many is text of its own
        whole.push(...callsIn(rest.slice(0, at + 1).trim()));
        rest = rest.slice(at + 1);
        at = -1;
      }
    }
    const open = rest.trim();
    return open ? [...whole, { text: open }] : [...whole];
  };
}

/** @param {string} text @returns {ToolCall[]} */
function callsIn(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    return [{ text }];
  }
  return [value]
    .flat()
    .map((call) =>
      typeof call?.name === "string"
        ? { name: call.name, arguments: call.arguments ?? call.parameters ?? {}, text }
        : { text },
    );
}

/**
 * @typedef {object} AnsweredCall  A call in a message that is sent again.
 * @property {string} id
 * @property {string} name
 * @property {unknown} input
 * @property {unknown} [result]  What the tool has answered; absent if it has not.
 */

/**
 * A message with its calls, and a message for each result. The engine's template writes the calls
 * in the format of its model; if `tools` has tags, the calls are text between the first pair.
 * @param {string} role
 * @param {string} content
 * @param {AnsweredCall[]} calls
 * @param {import("./detok-stream.js").TextOptions["tools"]} tools
 * @returns {import("./connect.js").Message[]}
 */
export function withCalls(role, content, calls, tools) {
  const answered = calls.filter(({ result }) => result !== undefined);
  const results = answered.map(({ id, result }) => ({
    role: "tool",
    content: JSON.stringify(result),
    tool_call_id: id,
  }));
  if (!calls.length) return [{ role, content }];
  if (Array.isArray(tools)) {
    const [open, close = ""] = tools.flat();
    const written = calls.map(
      ({ name, input }) => `\n${open}\n${JSON.stringify({ name, arguments: input })}\n${close}`,
    );
    return [{ role, content: (content + written.join("")).trimStart() }, ...results];
  }
  const tool_calls = calls.map(({ id, name, input }) => ({
    id,
    type: "function",
    function: { name, arguments: JSON.stringify(input ?? {}) },
  }));
  return [{ role, content, tool_calls }, ...results];
}

/**
 * The messages of one message of a chat UI, whose parts come in order. Text or a step after a call
 * that has been answered begins another message: the model wrote it after the result.
 * @param {string} role
 * @param {import("./detok-stream.js").TextOptions["tools"]} tools
 */
export function turnsOf(role, tools) {
  /** @type {import("./connect.js").Message[]} */
  const out = [];
  let content = "";
  /** @type {AnsweredCall[]} */
  let calls = [];
  const end = () => {
    if (content.trim() || calls.length || !out.length)
      out.push(...withCalls(role, content.trimStart(), calls, tools));
    [content, calls] = ["", []];
    return out;
  };
  const step = () => {
    if (calls.some(({ result }) => result !== undefined)) end();
  };
  return {
    /** @param {string} text */
    say(text) {
      if (text.trim()) step();
      content += text;
    },
    /** @param {AnsweredCall} call */
    call: (call) => void calls.push(call),
    /** The model has been asked again. */
    step,
    /** The messages. */
    end,
  };
}
