/**
 * Bytes or token ids to text, as a pair of streams: `source.pipeThrough(new DetokStream())`.
 *
 * In: BufferSource chunks; with a vocabulary token ids (a number, an array, a typed array). Out:
 * strings; with `output: "deltas"` objects `{channel, text}`. Held: what detok_py holds.
 */

import { asDetokError, decoderWorker } from "./decoder.js";
import { graphemes } from "./graphemes.js";

/**
 * @typedef {object} TextOptions
 * @property {string[]} [stop]  The text ends before the first of these.
 * @property {boolean} [includeStop]  Show the stop string that ended the text.
 * @property {[open: string, close: string] | true} [reasoning]  The text between is reasoning.
 *   `true`: `<think>`, `</think>`.
 * @property {[open: string, close: string] | true} [tools]  The text between is a tool call. `true`:
 *   `<tool_call>`, `</tool_call>`.
 * @property {"content" | "reasoning"} [start]  `"reasoning"` if the template opens it in the prompt.
 * @property {boolean} [trimArtifacts]  Drop the markers of chat templates at both ends.
 * @property {"character" | "grapheme"} [unit]  Chunks end between code points, or between what a
 *   reader sees as characters.
 *
 * @typedef {object} StreamOptions
 * @property {import("./vocabulary.js").Vocabulary} [vocabulary]  Chunks are token ids of this vocabulary.
 * @property {number[]} [promptIds]  They decide a leading space, and complete a character.
 * @property {boolean} [skipSpecialTokens]  Default true.
 * @property {"error" | "skip"} [unknown]  What an unknown id does. Default "error".
 * @property {boolean} [fatal]  Invalid bytes are an error instead of U+FFFD.
 * @property {"text" | "deltas"} [output]
 * @property {AbortSignal} [signal]
 *
 * @typedef {{channel: "content" | "reasoning" | "tool_call", text: string}} Delta
 * @typedef {object} StreamEnd
 * @property {"end" | "stop" | "eos" | "cancelled" | "error"} reason  "end": the source had no more.
 *   "cancelled": by the reader, the writer or the signal.
 * @property {unknown} [error]
 */

/**
 * Deltas as they are shown, of whole graphemes if wanted. A change of channel ends a grapheme.
 * @param {"character" | "grapheme"} unit
 * @returns {(deltas: [string, string][], over: boolean) => Delta[]}
 */
export function shaper(unit) {
  const whole = unit === "grapheme" ? graphemes() : undefined;
  let channel = "content";
  return (deltas, over) => {
    /** @type {[string, string][]} */
    const out = [];
    for (const [its, text] of deltas) {
      if (whole && its !== channel) out.push([channel, whole.flush()]);
      channel = its;
      out.push([its, whole ? whole.feed(text) : text]);
    }
    if (over && whole) out.push([channel, whole.flush()]);
    return /** @type {Delta[]} */ (
      out.filter(([, text]) => text).map(([its, text]) => ({ channel: its, text }))
    );
  };
}

/**
 * The stream with async iteration, which Safari's streams do not have.
 * @template T @param {ReadableStream<T>} stream @returns {ReadableStream<T>}
 */
export function iterable(stream) {
  if (Symbol.asyncIterator in stream) return stream;
  return Object.assign(stream, {
    async *[Symbol.asyncIterator]() {
      const reader = /** @type {ReadableStream<T>} */ (stream).getReader();
      try {
        for (let part = await reader.read(); !part.done; part = await reader.read())
          yield part.value;
      } finally {
        await reader.cancel();
        reader.releaseLock();
      }
    },
  });
}

/**
 * A pair of streams like TextDecoderStream. It is no TransformStream, because some browsers do not
 * tell a TransformStream that its reader has gone.
 * @example
 * const text = response.body.pipeThrough(new DetokStream({ stop: ["</s>"] }));
 * for await (const part of text) bubble.append(part);
 */
export class DetokStream {
  /** @param {TextOptions & StreamOptions & import("./decoder.js").RuntimeOptions} [options] */
  constructor(options = {}) {
    const { vocabulary, output = "text", unit = "character", signal, promptIds } = options;
    const shape = shaper(unit);
    const worker = decoderWorker(options);
    /** @type {(end: StreamEnd) => void} */
    let tell = () => {};
    /** Why it ended: resolves once, and never rejects. @type {Promise<StreamEnd>} */
    this.finished = new Promise((resolve) => (tell = resolve));
    let over = false;
    /** @type {ReadableStreamDefaultController<any>} */
    let out;
    /** @type {WritableStreamDefaultController} */
    let into;
    /** Resolves the reader's pull, while there is one. @type {(() => void) | undefined} */
    let served;
    /** Tells the writer that the reader pulls. */
    let wished = () => {};
    const serve = () => {
      served?.();
      served = undefined;
    };
    /** @param {StreamEnd["reason"]} reason @param {unknown} [error] */
    const end = (reason, error) => {
      if (over) return;
      over = true;
      worker.remove(stream, listener);
      signal?.removeEventListener("abort", onAbort);
      // A stream that is closed or errored already stays as it is.
      if (reason === "cancelled" || reason === "error") out.error(error);
      else out.close();
      if (reason !== "end")
        into.error(error ?? new TypeError("The text has ended, and takes no more."));
      serve();
      wished();
      tell(error === undefined ? { reason } : { reason, error });
    };
    const onAbort = () => end("cancelled", signal?.reason);
    // An AbortError is a wish to stop; any other error is the source's.
    const onWriterAbort = (/** @type {any} */ reason) =>
      end(reason === undefined || reason?.name === "AbortError" ? "cancelled" : "error", reason);
    /** @type {import("./decoder.js").Listener} */
    const listener = { take() {}, fail: (error) => end("error", error) };
    const stream = worker.add(listener);
    /** Ask Python for a step and show it. @param {string} method @param {unknown[]} data */
    const step = async (method, ...data) => {
      try {
        /** @type {[deltas: [string, string][], reason: "stop" | "eos" | null]} */
        const [deltas, reason] = await worker.ask(method, stream, ...data);
        if (over) return;
        const shown = shape(deltas, reason !== null || method === "flush");
        const text = shown.map(({ channel, text }) => (channel === "content" ? text : "")).join("");
        const parts = output === "deltas" ? shown : text ? [text] : [];
        for (const part of parts) out.enqueue(part);
        if (parts.length) serve();
        if (reason !== null || method === "flush") end(reason ?? "end");
      } catch (error) {
        end("error", error);
        throw error;
      }
    };
    // Not awaited here: chunks that come meanwhile wait in the stream's own queue.
    const open = async () => {
      await worker.keep(vocabulary);
      await worker.ready;
      if (over) return;
      const told = {
        ...options,
        vocabulary: vocabulary?.sha256,
        promptIds: promptIds && asIds(promptIds),
      };
      await worker.calls.call("ask", "open_text", stream, JSON.stringify(told));
    };
    const opened = open();
    /** @type {ReadableStream<any>} */
    this.readable = iterable(
      new ReadableStream(
        {
          start: (controller) => void (out = controller),
          pull: () =>
            new Promise((/** @type {(value: void) => void} */ resolve) => {
              served = resolve;
              wished();
            }),
          cancel: (reason) => end("cancelled", reason),
        },
        { highWaterMark: 0 },
      ),
    );
    /** @type {WritableStream<any>} */
    this.writable = new WritableStream({
      start(controller) {
        into = controller;
        // `abort` below is called only after the current write, which may wait for a reader.
        controller.signal?.addEventListener("abort", () => onWriterAbort(controller.signal.reason));
      },
      async write(chunk) {
        await opened;
        while (!served && !over)
          await new Promise((/** @type {(value: void) => void} */ resolve) => (wished = resolve));
        if (over) return;
        let data;
        try {
          data = vocabulary ? asIds(chunk) : asBytes(chunk);
        } catch (error) {
          end("error", error);
          throw error;
        }
        if (!data.length) return;
        if (vocabulary) await step("feed_ids", JSON.stringify(data));
        else await step("feed_bytes", data);
      },
      async close() {
        await opened;
        await step("flush");
      },
      abort: onWriterAbort,
    });
    opened.catch((error) => end("error", asDetokError(error)));
    if (signal?.aborted) onAbort();
    else signal?.addEventListener("abort", onAbort);
  }
}

/** @param {unknown} chunk @returns {Uint8Array} */
function asBytes(chunk) {
  if (chunk instanceof Uint8Array) return chunk;
  if (chunk instanceof ArrayBuffer) return new Uint8Array(chunk);
  if (ArrayBuffer.isView(chunk))
    return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  throw new TypeError(
    `DetokStream without a vocabulary takes bytes (a BufferSource), not ${chunk === null ? "null" : typeof chunk}; for token ids give it a vocabulary.`,
  );
}

/** @param {unknown} chunk @returns {number[]} */
function asIds(chunk) {
  const ids =
    typeof chunk === "number"
      ? [chunk]
      : Array.isArray(chunk)
        ? chunk
        : ArrayBuffer.isView(chunk) && !(chunk instanceof DataView)
          ? Array.from(/** @type {any} */ (chunk), Number)
          : undefined;
  if (!ids?.every((id) => Number.isSafeInteger(id)))
    throw new TypeError(
      "DetokStream with a vocabulary takes token ids: a whole number, an array of them, or a typed array.",
    );
  return ids;
}
