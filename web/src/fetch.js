/**
 * The body of a fetch as deltas: server-sent events, lines of JSON or one JSON text of the common
 * chat APIs (read-events.js), or raw bytes.
 *
 * In: a Response, cut anywhere. Out: `{channel, text}`, never half a character, of UTF-8 or of a
 * surrogate pair that an engine wrote into two events. Held: an unfinished line, an unfinished
 * pair, and what DetokStream holds. Lines are those of the HTML Standard, 9.2.6.
 */

import { Decoder } from "./create-decoder.js";
import { DetokError, asDetokError } from "./decoder.js";
import { DetokStream } from "./detok-stream.js";
import { graphemes } from "./graphemes.js";
import { checked } from "./options.js";
import { deltasOf, isJson } from "./read-events.js";

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
 *   FormatOption & Pick<import("./detok-stream.js").ChunkOptions, "signal">}
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
export function readAnswer(response, given = {}) {
  const arrived = Promise.resolve(response);
  arrived.catch(() => {}); // perhaps nobody reads
  const left = new AbortController();
  const answer = reading(arrived, given, left.signal);
  const end = answer.return.bind(answer);
  answer.return = (value) => {
    left.abort(); // else it would wait for the read before it
    arrived.then(({ body }) => body?.cancel()).catch(() => {}); // fails if it is being read
    return end(value);
  };
  return answer;
}

/**
 * @param {Promise<Response>} response
 * @param {ReadOptions} given
 * @param {AbortSignal} left  Aborts when the reader leaves.
 * @returns {AsyncGenerator<Delta, string | undefined, void>}
 */
async function* reading(response, given, left) {
  const { body: form, signal, ...options } = formApart(checked(given));
  const { ok, status, headers, body } = await unlessAborted(signal, response);
  if (left.aborted) return void (await body?.cancel().catch(() => {}));
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
  if (body.locked)
    throw new TypeError("The body of this response is read by someone else already.");
  /** @type {{reason?: string, error?: DetokError, stopped?: boolean}} */
  const end = {};
  /** @param {unknown} error @returns {never} */
  const lost = (error) => {
    throw signal?.aborted ? signal.reason : readingError(error);
  };
  const source = signal ? apart(body, signal) : body;
  /** What is cancelled in the end. @type {{cancel(reason?: unknown): Promise<void>}} */
  let open = source;
  // A stage that is still starting learns of an abort only when Python has booted.
  const onAbort = () => void open.cancel(signal?.reason).catch(() => {});
  signal?.addEventListener("abort", onAbort);
  left.addEventListener("abort", onAbort);
  try {
    const [bytes, found] = await formatOf(
      source,
      headers.get("content-type") ?? "",
      // AI SDK 4 sends its data stream as plain text.
      form ?? (headers.has("x-vercel-ai-data-stream") ? "json" : undefined),
      left,
    ).catch(lost);
    open = bytes;
    if (left.aborted) return;
    const [first, ...more] = stages(found, options, end); // may refuse an option
    const whole = found === "bytes" ? bytes : kept(bytes, end, signal);
    /** @type {ReadableStream<Delta>} */
    const deltas = more.reduce(
      (stream, stage) => stream.pipeThrough(stage),
      whole.pipeThrough(first),
    );
    const reader = (open = deltas.getReader());
    if (signal?.aborted) onAbort(); // before there was this reader
    for (;;) {
      const { done, value } = await reader.read().catch(lost);
      signal?.throwIfAborted();
      if (done) break;
      yield value;
    }
  } finally {
    signal?.removeEventListener("abort", onAbort);
    await open.cancel().catch(() => {});
  }
  if (end.error && !end.stopped) throw end.error;
  return end.reason;
}

/**
 * A body that is read elsewhere, part by part.
 * @param {ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>} reader
 * @param {() => Promise<ReadableStreamReadResult<Uint8Array<ArrayBuffer>>>} [read]
 * @param {(controller: ReadableStreamDefaultController) => void} [start]
 * @returns {ReadableStream<Uint8Array<ArrayBuffer>>}
 */
const bodyOf = (reader, read = () => reader.read(), start) =>
  new ReadableStream(
    {
      start,
      async pull(controller) {
        const { done, value } = await read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );

/**
 * A body that an abort cancels at once. Of a pipe with a signal, Node 20 does not cancel the source
 * while the pipes behind it are full.
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} body
 * @param {AbortSignal} signal
 */
function apart(body, signal) {
  const reader = body.getReader();
  return bodyOf(reader, undefined, (controller) => {
    const onAbort = () => {
      controller.error(signal.reason);
      reader.cancel(signal.reason).catch(() => {});
    };
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort);
    reader.closed.catch(() => {}).then(() => signal.removeEventListener("abort", onAbort));
  });
}

/**
 * A body that ends where it is lost: an error would drop what nobody has read yet.
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} body
 * @param {{error?: DetokError}} end  Takes the error.
 * @param {AbortSignal | undefined} signal
 */
function kept(body, end, signal) {
  const reader = body.getReader();
  return bodyOf(reader, () =>
    reader.read().catch((error) => {
      if (signal?.aborted) throw error;
      end.error ??= /** @type {DetokError} */ (readingError(error));
      return { done: true, value: undefined };
    }),
  );
}

/**
 * What makes deltas of a body, in order.
 * @param {Form} form
 * @param {ReadOptions} options
 * @param {{reason?: string, error?: DetokError, stopped?: boolean}} end  Takes how it ended.
 * @returns {[TransformStream, ...TransformStream[]]}
 */
function stages(form, options, end) {
  if (form === "bytes") return [new DetokStream({ ...options, output: "deltas" })];
  const python = asksPython(options) ? [staged(options, end)] : [];
  return [form === "json" ? jsonLines() : new ServerSentEvents(), deltasOf(end), ...python];
}

/** What a reader is told if reading has failed. @param {unknown} error */
function readingError(error) {
  if (error instanceof DOMException && error.name === "AbortError") return error;
  if (!(error instanceof TypeError)) return asDetokError(error);
  return new DetokError(
    `The connection was lost in the middle of the answer (${error.message}); ask again.`,
    { kind: "network", retry: true, cause: error },
  );
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
 * @param {Form | undefined} given
 * @param {AbortSignal} left
 * @returns {Promise<[ReadableStream<Uint8Array<ArrayBuffer>>, Form]>}
 */
async function formatOf(body, type, given, left) {
  if (given) return [body, given];
  if (/^text\/event-stream\b/i.test(type)) return [body, "events"];
  if (/json\b/i.test(type)) return [body, "json"];
  if (type) return [body, "bytes"];
  const reader = body.getReader();
  left.addEventListener("abort", () => reader.cancel().catch(() => {}));
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
  const whole = bodyOf(reader, async () => {
    const value = parts.shift();
    return value ? { done: false, value } : reader.read();
  });
  if (/^\s*(data|event|id|retry)?:/.test(text)) return [whole, "events"];
  return [whole, /^\s*(\[\s*)?\{/.test(text) ? "json" : "bytes"];
}

/**
 * JSON texts as events, one or several, each on a line or on several lines. So are the items of an
 * array that goes over several lines: Gemini streams one.
 * @returns {TransformStream<Uint8Array<ArrayBuffer>, ServerSentEvent>}
 */
function jsonLines() {
  const decoder = new TextDecoder();
  /** The whole lines of an unfinished text, their length, and how many brackets they leave open. */
  let held = /** @type {string[]} */ ([]);
  let size = 0;
  let depth = 0;
  /** The unfinished line. */
  let part = "";
  let inArray = false;
  let began = false;
  /**
   * @param {string} text
   * @param {boolean} over
   * @param {TransformStreamDefaultController<ServerSentEvent>} controller
   */
  const take = (text, over, controller) => {
    const lines = text.split("\n");
    for (const [n, line] of lines.entries()) {
      part += line;
      if (n === lines.length - 1 && !over) break;
      if (!began && part.trim()) {
        began = true;
        inArray = part.trim()[0] === "[" && opened(part) > 0;
        if (inArray) part = part.replace("[", "");
      }
      held.push(part);
      size += part.length;
      depth += opened(part);
      part = "";
      if (depth > 0 && !over) continue; // parsing at each line takes time squared
      let whole = held
        .join("\n")
        // A line of AI SDK 4's data stream: 0:"text"
        .replace(/^([\da-k]):(["{[][^]*)$/, '{"type":"$1:","value":$2}');
      if (inArray) {
        whole = whole.replace(/^\s*,/, "").replace(depth < 0 ? /\]\s*$/ : /,\s*$/, "");
        inArray = depth >= 0;
        if (whole.trim()) whole = `[${whole}]`;
      }
      if (whole.trim()) {
        if (!over && !(/[}\]]\s*$/.test(whole) && isJson(whole))) continue;
        controller.enqueue({ event: "message", data: whole, id: "" });
      }
      held = [];
      size = depth = 0;
    }
    // A bracket of the array is still open: what came is not all.
    if (over && inArray) controller.enqueue({ event: "message", data: "[", id: "" });
    if (size + part.length > MAX_LINE)
      throw new DetokError("The server sends JSON without end; ask for a stream.");
  };
  return new TransformStream({
    transform: (bytes, controller) =>
      take(decoder.decode(bytes, { stream: true }), false, controller),
    flush: (controller) => take(decoder.decode(), true, controller),
  });
}

/** How many more brackets a line opens than it closes, outside of strings. @param {string} line */
function opened(line) {
  let depth = 0;
  let quoted = false;
  for (const [sign] of line.matchAll(/\\.|["[\]{}]/g)) {
    if (sign === '"') quoted = !quoted;
    else if (!quoted && sign.length === 1) depth += "[{".includes(sign) ? 1 : -1;
  }
  return depth;
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
 * @param {{stopped?: boolean}} ended  Whether a stop string has ended the answer.
 * @returns {TransformStream<Delta, Delta>}
 */
function staged(options, ended) {
  /** @type {Decoder<"deltas">} */
  const decoder = new Decoder({ ...options, granularity: undefined, output: "deltas" });
  // Of all channels, because a change of the channel ends a grapheme.
  const whole = options.granularity === "grapheme" ? graphemes() : undefined;
  let last = "content";
  /** @param {TransformStreamDefaultController<Delta>} controller */
  const end = (controller) => {
    const text = whole?.flush();
    if (text) controller.enqueue(/** @type {Delta} */ ({ channel: last, text }));
  };
  /** @param {Delta[]} deltas @param {TransformStreamDefaultController<Delta>} controller */
  const give = (deltas, controller) => {
    for (const delta of deltas) {
      const { channel, call, complete } = delta;
      if (channel !== last) end(controller);
      last = channel;
      let { text } = delta;
      if (whole && call === undefined) text = whole.feed(text) + (complete ? whole.flush() : "");
      if (text || call !== undefined || complete) controller.enqueue({ ...delta, text });
    }
  };
  /** @param {Delta[]} deltas @param {TransformStreamDefaultController<Delta>} controller */
  const show = async (deltas, controller) => {
    give(deltas, controller);
    // What other channels say next comes after the text that Python still decodes.
    while (decoder.waiting) give(await decoder.ready(), controller);
    if (decoder.finishReason) end(controller);
    ended.stopped = decoder.finishReason === "stop";
    if (ended.stopped) controller.terminate(); // cancels the source
  };
  return new TransformStream({
    start: () => decoder.begun,
    async transform(delta, controller) {
      if (delta.channel !== "content") return give([delta], controller);
      await show(decoder.feed(encoder.encode(delta.text)), controller);
    },
    flush: (controller) => show(decoder.flush(), controller),
  });
}

/**
 * A response that the server does not refuse. If the signal is aborted first, nobody reads it.
 * @param {AbortSignal | undefined} signal
 * @param {Response | Promise<Response>} response
 * @returns {Promise<Response>}
 */
function unlessAborted(signal, response) {
  const arrived = Promise.resolve(response).then(refused);
  if (!signal) return arrived;
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      reject(signal.reason);
      arrived.then(({ body }) => body?.cancel()).catch(() => {});
    };
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort);
    arrived.then(resolve, reject).then(() => signal.removeEventListener("abort", onAbort));
  });
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
