/**
 * The body of a fetch as deltas: server-sent events, lines of JSON or one JSON text of the common
 * chat APIs (read-events.js), or raw bytes.
 *
 * In: a Response, cut anywhere. Out: `{channel, text}`, never half a character, of UTF-8 or of a
 * surrogate pair that an engine wrote into two events. Held: an unfinished line, an unfinished
 * pair, and what DetokStream holds. Lines are those of the HTML Standard, 9.2.6.
 */

import { DetokError, asDetokError } from "./decoder.js";
import { DetokStream } from "./detok-stream.js";
import { checked } from "./options.js";
import { deltasOf } from "./read-events.js";

export { resumingFetch } from "./resuming-fetch.js";

/**
 * @typedef {import("./detok-stream.js").Delta} Delta
 * @typedef {object} ServerSentEvent  An event of a stream.
 * @property {string} event  Its type; "message" if the server gives none.
 * @property {string} data   Its lines.
 * @property {string} id     The last `id` of the stream, or "".
 *
 * @typedef {"events" | "json" | "bytes"} Form  Of a body.
 * @typedef {object} FormatOption  Which form the body has.
 * @property {Form} [body]  Overrules the body's content type. `format` takes it too.
 *
 * @typedef
 *   {import("./detok-stream.js").TextOptions & import("./decoder.js").RuntimeOptions &
 *   FormatOption}
 *   ReadOptions All that `readAnswer` takes.
 */

/** Characters that one line of an event stream may have. */
const MAX_LINE = 1 << 24;

const encoder = new TextEncoder();

/**
 * Read an answer. Leaving the loop ends the request. Throws a DetokError if the server refuses,
 * reports an error or ends too early; what came before has been given. Python is loaded for raw
 * bytes, and for events if text options are given. Returns the engine's `finish_reason`.
 * @example for await (const { channel, text } of readAnswer(fetch("/v1/completions",
 *   { method: "POST", body }))) …
 * @param {Response | Promise<Response>} response
 * @param {ReadOptions} [given]
 * @returns {AsyncGenerator<Delta, string | undefined, void>}
 */
export async function* readAnswer(response, given = {}) {
  const { body: form, ...options } = formApart(checked(given));
  const { ok, status, headers, body } = await refused(await response);
  if (!ok || !body)
    throw new DetokError(`The server answered HTTP ${status} without a text; ask again.`, {
      code: status,
      retry: status >= 500,
    });
  if (!form && headers.get("content-type")?.startsWith("text/html")) {
    await body.cancel();
    throw new DetokError(
      'The server sent an HTML page, not an answer: check the address. `body: "bytes"` reads it all the same.',
      { code: status },
    );
  }
  /** @type {{reason?: string, error?: DetokError}} */
  const end = {};
  const [bytes, found] = await formatOf(
    body,
    headers.get("content-type") ?? "",
    // AI SDK 4 sends its data stream as plain text.
    form ?? (headers.has("x-vercel-ai-data-stream") ? "json" : undefined),
  );
  /** @type {ReadableStream<Delta>} */
  let deltas;
  if (found === "bytes")
    deltas = bytes.pipeThrough(new DetokStream({ ...options, output: "deltas" }));
  else {
    deltas = bytes
      .pipeThrough(found === "json" ? jsonLines() : new ServerSentEvents())
      .pipeThrough(deltasOf(end));
    if (asksPython(options)) deltas = deltas.pipeThrough(staged(options));
  }
  const reader = deltas.getReader();
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw asDetokError(
      error instanceof TypeError
        ? new Error(
            `The connection was lost in the middle of the answer (${error.message}); ask again.`,
          )
        : error,
    );
  } finally {
    await reader.cancel().catch(() => {});
  }
  if (end.error) throw end.error;
  return end.reason;
}

/** Server-sent events as a pair of streams: bytes in, events out. */
export class ServerSentEvents {
  constructor() {
    const decoder = new TextDecoder(); // drops a byte order mark, as the standard asks
    let line = "";
    let afterReturn = false;
    /** @type {string[] | undefined} */
    let data;
    let event = "";
    let id = "";
    /**
     * @param {string} text
     * @param {TransformStreamDefaultController<ServerSentEvent>} controller
     */
    const take = (text, controller) => {
      if (!text) return;
      const [first = "", ...lines] = (afterReturn && text[0] === "\n" ? text.slice(1) : text).split(
        /\r\n|\n|\r/,
      );
      afterReturn = text.endsWith("\r");
      line += first;
      for (const next of lines) {
        field(controller);
        line = next;
      }
      if (line.length > MAX_LINE)
        throw new DetokError("The server sends a line without end; this is no event stream.");
    };
    /** @param {TransformStreamDefaultController<ServerSentEvent>} controller */
    const field = (controller) => {
      const [, name, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
      if (!line) {
        if (data) controller.enqueue({ event: event || "message", data: data.join("\n"), id });
        data = undefined;
        event = "";
      } else if (name === "data") (data ??= []).push(value);
      else if (name === "event") event = value;
      else if (name === "id") id = value;
    };
    /** @type {TransformStream<Uint8Array<ArrayBuffer>, ServerSentEvent>} */
    const pair = new TransformStream({
      transform: (bytes, controller) => take(decoder.decode(bytes, { stream: true }), controller),
      // Servers omit the last empty line; the standard would drop their last event.
      flush: (controller) => take(`${decoder.decode()}\n\n`, controller),
    });
    /** The events. */
    this.readable = pair.readable;
    /** Takes the bytes. */
    this.writable = pair.writable;
  }
}

/**
 * Which format a body has. Without a content type its beginning decides.
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} body
 * @param {string} type
 * @param
 *   {Form | undefined} given
 * @returns {Promise<[ReadableStream<Uint8Array<ArrayBuffer>>, Form]>}
 */
async function formatOf(body, type, given) {
  if (given) return [body, given];
  if (/^text\/event-stream\b/i.test(type)) return [body, "events"];
  if (/json\b/i.test(type)) return [body, "json"];
  if (type) return [body, "bytes"];
  const reader = body.getReader();
  const decoder = new TextDecoder();
  /** @type {Uint8Array<ArrayBuffer>[]} */
  const parts = [];
  let text = "";
  let over = false;
  // "retry:" is the longest beginning that tells.
  while (!over && text.trimStart().length < 6) {
    const { done, value } = await reader.read();
    if (done) over = true;
    else {
      parts.push(value);
      text += decoder.decode(value, { stream: true });
    }
  }
  const whole = new ReadableStream({
    async pull(controller) {
      const part = parts.shift();
      if (part) return controller.enqueue(part);
      const { done, value } = await reader.read();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: (reason) => reader.cancel(reason),
  });
  if (/^\s*(data|event|id|retry)?:/.test(text)) return [whole, "events"];
  return [whole, /^\s*\{/.test(text) ? "json" : "bytes"];
}

/**
 * JSON texts as events, one or several, each on a line or on several lines.
 * @returns {TransformStream<Uint8Array<ArrayBuffer>, ServerSentEvent>}
 */
function jsonLines() {
  const decoder = new TextDecoder();
  let held = "";
  /**
   * @param {string} text
   * @param {boolean} over
   * @param {TransformStreamDefaultController<ServerSentEvent>} controller
   */
  const take = (text, over, controller) => {
    const lines = text.split("\n");
    for (const [n, line] of lines.entries()) {
      held += line;
      if (n === lines.length - 1 && !over) break;
      // A line of AI SDK 4's data stream: 0:"text"
      held = held.replace(/^([\da-k]):(["{[][^]*)$/, '{"type":"$1:","value":$2}');
      if (held.trim() && (over || isJson(held))) {
        controller.enqueue({ event: "message", data: held, id: "" });
        held = "";
      } else if (held) held += "\n";
    }
    if (held.length > MAX_LINE)
      throw new DetokError("The server sends JSON without end; ask for a stream.");
  };
  return new TransformStream({
    transform: (bytes, controller) =>
      take(decoder.decode(bytes, { stream: true }), false, controller),
    flush: (controller) => {
      const rest = decoder.decode();
      if ((held + rest).trim()) take(rest, true, controller);
    },
  });
}

/** @param {string} text */
function isJson(text) {
  if (!/[}\]]\s*$/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * The options, with the form of the body in `body` only.
 * @param {ReadOptions} options
 * @returns {ReadOptions}
 */
function formApart({ format, ...options }) {
  if (format === "events" || format === "json" || format === "bytes")
    return { body: format, ...options };
  return { format, ...options };
}

/** @param {ReadOptions} options */
function asksPython({
  format,
  stop,
  reasoning,
  tools,
  startWithReasoning,
  trimArtifacts,
  granularity,
}) {
  return Boolean(
    stop?.length ||
    (format ?? "auto") !== "auto" ||
    reasoning ||
    tools ||
    startWithReasoning ||
    trimArtifacts ||
    granularity === "grapheme",
  );
}

/**
 * Content through DetokStream; reasoning and tool calls that the engine separated pass by it.
 * @param {ReadOptions} options
 * @returns {TransformStream<Delta, Delta>}
 */
function staged(options) {
  const stage = new DetokStream({ ...options, output: "deltas" });
  const into = stage.writable.getWriter();
  const from = stage.readable.getReader();
  into.closed.catch(() => {}); // `from` fails with the same error
  /** @type {Promise<void>} */
  let passed;
  return new TransformStream(
    /** @type {Transformer<Delta, Delta>} */ ({
      start(controller) {
        passed = (async () => {
          for (let part = await from.read(); !part.done; part = await from.read())
            controller.enqueue(part.value);
          // A stop cancels the source.
          if ((await stage.finished).reason === "stop") controller.terminate();
        })();
        passed.catch((error) => controller.error(error));
      },
      async transform(delta, controller) {
        if (delta.channel !== "content") return controller.enqueue(delta);
        await into.write(encoder.encode(delta.text)).catch(async (error) => {
          if ((await stage.finished).reason !== "stop") throw error;
        });
      },
      async flush() {
        await into.close();
        await passed;
      },
      async cancel(/** @type {unknown} */ reason) {
        await into.abort(reason).catch(() => {});
      },
    }),
  );
}

/** Throws the server's own sentence if it refuses. @param {Response} response */
async function refused(response) {
  if (response.ok) return response;
  const said = await response.text().catch(() => "");
  let message = said.trim().split("\n")[0] ?? "";
  try {
    const { error } = JSON.parse(said);
    message = String(error.message ?? error);
  } catch {
    // not JSON: its first line is the message
  }
  const { status } = response;
  throw new DetokError(
    `The server answered HTTP ${status}${message ? `: ${message.slice(0, 300)}` : ""}`,
    { code: status, retry: status === 429 || status >= 500 },
  );
}
