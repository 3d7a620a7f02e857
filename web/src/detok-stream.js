/**
 * Bytes or token ids to text, as a pair of streams: `source.pipeThrough(new DetokStream())`.
 *
 * In: BufferSource chunks; or, with a vocabulary, token ids (a number, an array of them, a Uint32Array). Out: strings, never half a character,
 * never the beginning of a stop string; with `output: "deltas"` objects `{channel, text}`. Held: what detok_py holds.
 */

import { asDetokError, decoderWorker } from "./decoder.js";
import { graphemes } from "./graphemes.js";

/**
 * @typedef {object} TextOptions
 * @property {string[]} [stop]  The text ends before the first of these; half a stop string is never shown.
 * @property {boolean} [includeStop]  Show the stop string that ended the text.
 * @property {[open: string, close: string] | true} [reasoning]  What stands between is reasoning. `true`: `<think>`, `</think>`.
 * @property {[open: string, close: string] | true} [tools]  What stands between is a tool call. `true`: `<tool_call>`, `</tool_call>`.
 * @property {"content" | "reasoning"} [start]  `"reasoning"` where the template opens the block in the prompt.
 * @property {boolean} [trimArtifacts]  Drop the markers of chat templates at both ends.
 * @property {"character" | "grapheme"} [unit]  Chunks end between code points, or between what a reader sees as characters.
 *
 * @typedef {object} StreamOptions
 * @property {import("./vocabulary.js").Vocabulary} [vocabulary]  Chunks are token ids of this vocabulary.
 * @property {number[]} [promptIds]  The prompt's ids: they decide a leading space, and complete a character.
 * @property {boolean} [skipSpecialTokens]  Default true.
 * @property {"error" | "skip"} [unknown]  What an unknown id does. Default "error".
 * @property {boolean} [fatal]  Invalid bytes end the stream with an error, as in TextDecoderStream, instead of becoming U+FFFD.
 * @property {"text" | "deltas"} [output]
 * @property {AbortSignal} [signal]
 *
 * @typedef {{channel: "content" | "reasoning" | "tool_call", text: string}} Delta
 * @typedef {{reason: "end" | "stop" | "eos" | "cancelled" | "error"}} StreamEnd
 */

/**
 * What Python takes of the options.
 * @param {TextOptions} options
 */
export function forPython({ stop = [], includeStop = false, reasoning, tools, start, trimArtifacts = false }) {
  return {
    stop,
    includeStop,
    reasoning: reasoning === true ? ["<think>", "</think>"] : reasoning,
    tools: tools === true ? ["<tool_call>", "</tool_call>"] : tools,
    start,
    trimArtifacts,
  };
}

/**
 * Deltas as they are shown: whole graphemes where that was asked for. A change of channel ends a grapheme.
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
    return /** @type {Delta[]} */ (out.filter(([, text]) => text).map(([its, text]) => ({ channel: its, text })));
  };
}

/**
 * A transform stream like TextDecoderStream.
 *
 * @example
 * const text = response.body.pipeThrough(new DetokStream({ stop: ["</s>"] }));
 * for await (const part of text) bubble.append(part);
 */
export class DetokStream {
  /** @param {TextOptions & StreamOptions & import("./decoder.js").RuntimeOptions} [options] */
  constructor(options = {}) {
    const { vocabulary, fatal = false, output = "text", unit = "character", signal, promptIds, skipSpecialTokens, unknown } = options;
    const shape = shaper(unit);
    const worker = decoderWorker(options);
    /** @type {(end: StreamEnd) => void} */
    let tell = () => {};
    /** Why it ended: resolves once, and never rejects. @type {Promise<StreamEnd>} */
    this.finished = new Promise((resolve) => (tell = resolve));
    /** @type {import("./decoder.js").Listener} */
    const listener = { take() {}, fail() {} };
    /** @type {number} */
    let stream;
    const end = (/** @type {StreamEnd["reason"]} */ reason) => {
      worker.remove(stream, listener);
      signal?.removeEventListener("abort", onAbort);
      tell({ reason });
    };
    const onAbort = () => listener.fail(signal?.reason);
    /**
     * @param {TransformStreamDefaultController<any>} controller
     * @param {[deltas: [string, string][], reason: "stop" | "eos" | null, held: number, waiting: string]} step
     * @param {boolean} over
     */
    const show = (controller, [deltas, reason], over) => {
      const shown = shape(deltas, over || reason !== null);
      if (output === "deltas") for (const delta of shown) controller.enqueue(delta);
      else {
        const text = shown.map(({ channel, text }) => (channel === "content" ? text : "")).join("");
        if (text) controller.enqueue(text);
      }
      return reason;
    };
    /** @type {Promise<unknown>} */
    let opened = Promise.resolve();
    const pair = new TransformStream(/** @type {Transformer<any, any>} */ ({
      start(controller) {
        stream = worker.add(listener);
        listener.fail = (error) => {
          controller.error(error);
          end(error === signal?.reason && signal?.aborted ? "cancelled" : "error");
        };
        if (signal?.aborted) return onAbort();
        signal?.addEventListener("abort", onAbort);
        // Not awaited: what is written meanwhile waits in the stream's own queue, behind the first chunk.
        opened = worker.keep(vocabulary).then(() => worker.call("openText", stream, {
          ...forPython(options),
          vocabulary: vocabulary?.sha256,
          promptIds,
          skipSpecialTokens,
          unknown,
          errors: fatal ? "strict" : "replace",
        }));
        opened.catch((error) => listener.fail(asDetokError(error)));
      },
      async transform(chunk, controller) {
        try {
          await opened;
          const data = vocabulary ? asIds(chunk) : asBytes(chunk);
          if (!data.length) return;
          const reason = show(controller, await worker.call("feed", stream, data), false);
          if (reason === null) return;
          await worker.call("flush", stream);
          controller.terminate();
          end(reason);
        } catch (error) {
          end("error");
          throw error;
        }
      },
      async flush(controller) {
        try {
          await opened;
          end(show(controller, await worker.call("flush", stream), true) ?? "end");
        } catch (error) {
          end("error");
          throw error;
        }
      },
      // Called where the reader or the writer gives up (Streams Standard, 2024); where a browser doesn't know it, garbage collection does.
      cancel() {
        end("cancelled");
      },
    }));
    /** @type {ReadableStream<any>} */
    this.readable = pair.readable;
    /** @type {WritableStream<any>} */
    this.writable = pair.writable;
  }
}

/** @param {unknown} chunk @returns {Uint8Array} */
function asBytes(chunk) {
  if (chunk instanceof Uint8Array) return chunk;
  if (chunk instanceof ArrayBuffer) return new Uint8Array(chunk);
  if (ArrayBuffer.isView(chunk)) return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  throw new TypeError(`DetokStream without a vocabulary takes bytes (a BufferSource), not ${chunk === null ? "null" : typeof chunk}; for token ids give it a vocabulary.`);
}

/** @param {unknown} chunk @returns {number[]} */
function asIds(chunk) {
  const ids = typeof chunk === "number" ? [chunk] : Array.isArray(chunk) ? chunk : ArrayBuffer.isView(chunk) && !(chunk instanceof DataView) ? Array.from(/** @type {any} */ (chunk), Number) : undefined;
  if (!ids?.every((id) => Number.isSafeInteger(id))) throw new TypeError("DetokStream with a vocabulary takes token ids: a whole number, an array of them, or a typed array.");
  return ids;
}
