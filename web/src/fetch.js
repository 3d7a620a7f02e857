/**
 * The body of a fetch as deltas: server-sent events of an OpenAI-compatible engine, or raw bytes.
 *
 * In: a Response, cut anywhere. Out: `{channel, text}`, never half a character, of UTF-8 or of a
 * surrogate pair that an engine wrote into two events. Held: an unfinished line, an unfinished pair,
 * and what DetokStream holds. Lines are those of the HTML Standard, 9.2.6.
 */

import { DetokError, asDetokError } from "./decoder.js";
import { DetokStream } from "./detok-stream.js";

/**
 * @typedef {import("./detok-stream.js").Delta} Delta
 * @typedef {{event: string, data: string, id: string}} ServerSentEvent
 * @typedef {import("./detok-stream.js").TextOptions & import("./decoder.js").RuntimeOptions &
 *   {format?: "events" | "bytes"}} ReadOptions  `format` overrules the body's content type.
 */

/** Characters that one line of an event stream may have. */
const MAX_LINE = 1 << 24;

const encoder = new TextEncoder();

/**
 * Read an answer. Leaving the loop ends the request. Throws a DetokError if the server refuses,
 * reports an error or ends too early; what came before has been given. Python is loaded for raw
 * bytes, and for events if text options are given. Returns the engine's `finish_reason`.
 * @example
 * for await (const { channel, text } of readAnswer(fetch("/v1/completions", { method: "POST", body }))) …
 * @param {Response | Promise<Response>} response @param {ReadOptions} [options]
 * @returns {AsyncGenerator<Delta, string | undefined, void>}
 */
export async function* readAnswer(response, options = {}) {
  const { ok, status, headers, body } = await refused(await response);
  if (!ok || !body)
    throw new DetokError(`The server answered HTTP ${status} without a text; ask again.`, {
      code: status,
      retry: status >= 500,
    });
  const type = headers.get("content-type") ?? "";
  /** @type {{reason?: string, error?: DetokError}} */
  const end = {};
  const events = options.format ? options.format === "events" : /^text\/event-stream\b/i.test(type);
  /** @type {ReadableStream<Delta>} */
  let deltas;
  if (!events) deltas = body.pipeThrough(new DetokStream({ ...options, output: "deltas" }));
  else {
    deltas = body.pipeThrough(new ServerSentEvents()).pipeThrough(completions(end));
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
    /** @param {string} text @param {TransformStreamDefaultController<ServerSentEvent>} controller */
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
    this.readable = pair.readable;
    this.writable = pair.writable;
  }
}

/**
 * Events of `/v1/chat/completions`, `/v1/completions` or llama-server's `/completion` to deltas. How
 * it ended is put into `end`: an error in the stream would drop what was not read yet.
 * @param {{reason?: string, error?: DetokError}} end
 * @returns {TransformStream<ServerSentEvent, Delta>}
 */
function completions(end) {
  const halves = { content: "", reasoning: "", tool_call: "" };
  let calls = -1;
  let over = false;
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
  /** @param {TransformStreamDefaultController<Delta>} controller */
  const finish = (controller) => {
    for (const channel of /** @type {const} */ (["reasoning", "content", "tool_call"])) {
      if (halves[channel]) controller.enqueue({ channel, text: "\ufffd" });
    }
    if (calls >= 0) controller.enqueue({ channel: "tool_call", text: "}" });
  };
  return new TransformStream({
    transform({ data }, controller) {
      if (data === "[DONE]") {
        over = true;
        return;
      }
      let value;
      try {
        value = JSON.parse(data);
      } catch {
        end.error = new DetokError(
          "The server sent an event that is no JSON: the stream was cut, or it is not an engine's. What came before is kept.",
          { retry: true },
        );
        return controller.terminate();
      }
      if (value?.error) {
        end.error = new DetokError(String(value.error.message ?? value.error), {
          code: Number(value.error.code) || undefined,
          retry: true,
        });
        return controller.terminate();
      }
      const choice = value?.choices
        ? value.choices.find((/** @type {any} */ one) => (one.index ?? 0) === 0)
        : value;
      if (!choice) return;
      const delta = choice.delta ?? choice;
      give(controller, "reasoning", delta.reasoning_content ?? delta.reasoning);
      give(controller, "content", delta.content ?? delta.text);
      for (const { index = 0, function: call = {} } of delta.tool_calls ?? []) {
        // In the form in which a model writes a call between its tags.
        if (index !== calls)
          give(
            controller,
            "tool_call",
            `${calls < 0 ? "" : "}\n"}{"name": ${JSON.stringify(call.name ?? "")}, "arguments": `,
          );
        calls = index;
        give(controller, "tool_call", call.arguments);
      }
      if (choice.finish_reason) end.reason = choice.finish_reason;
      over ||= Boolean(choice.finish_reason || choice.stop === true);
    },
    flush(controller) {
      finish(controller);
      if (!over)
        end.error ??= new DetokError(
          "The server's stream ended before the answer did; what came is kept. Ask again for the whole of it.",
          { retry: true },
        );
    },
  });
}

/** @param {ReadOptions} options */
function asksPython({ stop, reasoning, tools, start, trimArtifacts, unit }) {
  return Boolean(
    stop?.length || reasoning || tools || start || trimArtifacts || unit === "grapheme",
  );
}

/**
 * Content through DetokStream; reasoning and tool calls that the engine separated pass by it.
 * @param {ReadOptions} options @returns {TransformStream<Delta, Delta>}
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
