/**
 * Bytes or token ids to text, as a pair of streams: `source.pipeThrough(new DetokStream())`.
 *
 * In: BufferSource chunks; with a vocabulary token ids (a number, an array, a typed array). Out:
 * strings; with `output: "deltas"` objects `{channel, text}`, of a call with its number and name.
 * Held: what detok_py holds.
 */

import { Decoder } from "./create-decoder.js";
import { DetokError } from "./errors.js";

/**
 * @typedef {[open: string, close: string] | [open: string, close: string, every: "all"]}
 *   ReasoningTags A pair of tags; with "all", every block between them.
 * @typedef {[open: string, close: string | null]} ToolTags  A pair of tags.
 *
 * @typedef {object} TextOptions  What becomes of the text.
 * @property {string | string[]} [stop]  The text ends before the first of these.
 * @property {boolean} [includeStop]  Show the stop string that ended the text.
 * @property {ReasoningTags | ReasoningTags[] | true | "all"} [reasoning]  The text between is
 *   reasoning: the first block; with "all" behind a pair, every block. `true`: `<think>`,
 *   `</think>`; "all": every block of these.
 * @property {ToolTags | ToolTags[] | true} [tools]  The text between is a tool call. `true`:
 *   `<tool_call>`, `</tool_call>`. Without a close tag it ends where the next one opens.
 * @property {string | null} [format]  The name of the format that the model speaks
 *   (docs/formats.md). "auto", the default: that of the vocabulary, unless tags are given; for
 *   `connect` also that of the bridge; else the tags. null: nothing is looked for.
 * @property {object[]} [toolSchemas]  OpenAI's list of tools. It types arguments where the markup
 *   of a format does not.
 * @property {boolean} [startWithReasoning]  For templates that open the block in the prompt.
 * @property {boolean} [trimArtifacts]  Drop the markers of chat templates at both ends.
 * @property {"character" | "grapheme"} [granularity]  Chunks end between code points, or between
 *   what a reader sees as characters.
 *
 * @typedef {object} ChunkOptions  What goes in, and in which form it comes out.
 * @property {import("./vocabulary.js").Vocabulary} [vocabulary]  Chunks are token ids of this
 *   vocabulary.
 * @property {number[]} [promptIds]  They decide a leading space, and complete a character.
 * @property {boolean} [skipSpecialTokens]  Default true.
 * @property {"error" | "skip"} [unknown]  What an unknown id does. Default "error".
 * @property {boolean} [fatal]  Invalid bytes are an error instead of U+FFFD.
 * @property {"text" | "deltas"} [output]  Strings of the content, or {@link Delta}s of all
 *   channels.
 * @property {AbortSignal} [signal]  Cancels the stream.
 *
 * @typedef {TextOptions & ChunkOptions} StreamOptions  Those of a stream, whatever its runtime.
 *
 * @typedef {object} Delta  Text that has become certain.
 * @property {"content" | "reasoning" | "tool_call"} channel  What it is a part of.
 * @property {string} text  The text. Of a call in a format: more of the JSON text of its arguments.
 * @property {number} [call]  The number of the call, from 0; absent outside of calls in a format.
 * @property {string} [name]  Of the tool: on the first delta of a call.
 * @property {string} [id]  Of the call, where the markup has one: on the first delta, or the last.
 * @property {boolean} [complete]  True on the last delta of a call, unless it was cut short; with
 *   the format "json" on the delta with which the value is complete, whose text may be empty.
 *
 * @typedef {object} Call  A call of a tool, in a format.
 * @property {number} call  Its number, from 0.
 * @property {string | null} id  Where the markup has one.
 * @property {string} name  Of the tool.
 * @property {string} arguments  Their JSON text so far: the texts of its deltas.
 * @property {boolean} complete  False while it comes, and if the answer was cut short in it.
 *
 * @typedef {object} StreamEnd  How a stream ended.
 * @property {"end" | "stop" | "eos" | "tool_calls" | "cancelled" | "error"} reason  "end": the
 *   source had no more. "tool_calls": a call ended the turn. "cancelled": by the reader, the writer
 *   or the signal.
 * @property {unknown} [error]  What went wrong, or the reason of the signal.
 */

/** Symbols that may wait for Python before a writer waits. */
const MOST_WAITING = 1 << 10;

/**
 * A stream that asks its source when it is read, with async iteration, which Safari's streams do
 * not have.
 * @param {UnderlyingDefaultSource<any>} source
 * @returns {ReadableStream<any>}
 */
export function readable(source) {
  /** @type {any} */
  const stream = new ReadableStream(source, { highWaterMark: 0 });
  stream[Symbol.asyncIterator] ??= async function* () {
    const reader = stream.getReader();
    try {
      for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
    } finally {
      await reader.cancel();
      reader.releaseLock();
    }
  };
  return stream;
}

/**
 * @template {StreamOptions["output"]} [Output="text"]
 * @typedef {Output extends "deltas" ? Delta : string} Part  What can be read.
 */

/**
 * A pair of streams like TextDecoderStream. It is no TransformStream, because some browsers do not
 * tell a TransformStream that its reader has gone.
 * @example
 * const text = response.body.pipeThrough(new DetokStream({ stop: ["</s>"] }));
 * for await (const part of text) bubble.append(part);
 * @template {StreamOptions["output"]} [Output="text"]
 */
export class DetokStream {
  /**
   * @param
   *   {StreamOptions & import("./decoder.js").RuntimeOptions & {output?: Output}}
   *   [options]
   */
  constructor(options = {}) {
    const { signal } = options;
    if ("onText" in options)
      throw new DetokError("There is no option onText of a DetokStream.", { kind: "option" });
    /** @type {Decoder<any>} */
    const decoder = new Decoder(options);
    /** The calls so far, in a format. */
    this.calls = decoder.calls;
    /** @type {(end: StreamEnd) => void} */
    let tell = () => {};
    /** Why it ended: resolves once, and never rejects. @type {Promise<StreamEnd>} */
    this.finished = new Promise((resolve) => (tell = resolve));
    let over = false;
    /** Fails the reader, once it has read what came before. @type {(() => void) | undefined} */
    let fail;
    /** @type {ReadableStreamDefaultController<any>} */
    let out;
    /** @type {WritableStreamDefaultController} */
    let into;
    /** Whether the reader waits for text. */
    let wanted = false;
    /** Tells the writer that the reader pulls. */
    let wished = () => {};
    /** @param {StreamEnd["reason"]} reason @param {unknown} [error] */
    const end = (reason, error) => {
      if (over) return;
      over = true;
      signal?.removeEventListener("abort", onAbort);
      // A stream that is closed or errored already stays as it is.
      if (reason === "error" && Number(out.desiredSize) < 0) fail = () => out.error(error);
      else if (reason === "cancelled" || reason === "error") out.error(error);
      else out.close();
      if (reason !== "end")
        into.error(error ?? new TypeError("The text has ended, and takes no more."));
      wished();
      tell(error === undefined ? { reason } : { reason, error });
    };
    const onAbort = () => end("cancelled", signal?.reason);
    // An AbortError is a wish to stop; any other error is the source's.
    const onWriterAbort = (/** @type {any} */ reason) =>
      end(reason === undefined || reason?.name === "AbortError" ? "cancelled" : "error", reason);
    /** @param {string | Delta[]} given */
    const show = (given) => {
      if (over) return;
      if (given.length) wanted = false; // `enqueue` may call `pull`
      if (typeof given !== "string") given.forEach((delta) => out.enqueue(delta));
      else if (given) out.enqueue(given);
      if (decoder.finishReason) end(decoder.finishReason);
    };
    /** @type {Promise<void> | undefined} */
    let coming;
    /** Show what comes late, as soon as it comes. */
    const follow = async () => {
      try {
        while (decoder.waiting && !over) await decoder.ready(show);
      } catch (error) {
        end("error", error);
      }
      coming = undefined;
    };
    /** @param {() => string | Delta[]} decode */
    const step = (decode) => {
      if (over) return;
      try {
        show(decode());
      } catch (error) {
        end("error", error);
        throw error;
      }
      if (decoder.waiting) coming ??= follow();
    };
    /**
     * Wait until the reader wants text. Chunks that come while Python is asked go to it together,
     * up to a bound.
     */
    const room = async () => {
      while (!wanted && !over)
        await new Promise((/** @type {(value: void) => void} */ resolve) => (wished = resolve));
      if (decoder.waiting > MOST_WAITING) await coming;
    };
    /**
     * Wait until all that was written is decoded; what becomes certain of it can be read then.
     * Rejects if the stream has failed.
     */
    this.ready = async () => {
      while (coming) await coming;
      const { error } = over ? await this.finished : {};
      if (error) throw error;
    };
    /** The text. @type {ReadableStream<Part<Output>>} */
    this.readable = readable({
      start: (controller) => void (out = controller),
      pull() {
        wanted = true;
        wished();
        fail?.();
      },
      cancel: (reason) => end("cancelled", reason),
    });
    /** Takes bytes, or ids. @type {WritableStream<BufferSource | number | ArrayLike<number>>} */
    this.writable = new WritableStream({
      start(controller) {
        into = controller;
        // `abort` below is called only after the current write, which may wait for a reader.
        // Node 20 fails if the stream ends in the middle of an abort.
        controller.signal?.addEventListener("abort", () =>
          queueMicrotask(() => onWriterAbort(controller.signal.reason)),
        );
      },
      write(/** @type {any} */ chunk) {
        const take = () => step(() => decoder.push(chunk));
        // A promise takes longer than the text of a chunk.
        return wanted && decoder.waiting <= MOST_WAITING ? take() : room().then(take);
      },
      async close() {
        step(() => decoder.flush());
        await coming;
      },
      abort: onWriterAbort,
    });
    decoder.begun.catch((error) => end("error", error));
    if (signal?.aborted) onAbort();
    else signal?.addEventListener("abort", onAbort);
  }
}
