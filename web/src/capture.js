/**
 * Recorded streams: read, decoded again, and written.
 *
 * In: a `.detok.jsonl`, a HAR file with a detok.v1 socket, the body of server-sent events; or what a
 * page has recorded. Out: a row for each token; or the text of a `.detok.jsonl`. Both are made in
 * Python (detok_py/page/captures.py).
 */

import { base, decoderWorker } from "./decoder.js";
import { rowOf } from "./rows.js";
import { loadVocabulary } from "./vocabulary.js";

/**
 * @typedef {import("./rows.js").TokenRow & {seconds: number}} RecordedRow  `seconds` since the start.
 *
 * @typedef {object} Capture
 * @property {Record<string, any>} header
 * @property {RecordedRow[]} rows
 * @property {number} seconds  How long the stream took.
 * @property {string} text     What was held, and became text at the end.
 */

/**
 * Read a recorded stream and decode it again. Rejects with a DetokError that says what is wrong.
 * @param {string | Blob} source
 * @param {import("./decoder.js").RuntimeOptions & {vocabularies?: string | URL}} [options]
 *   `vocabularies` is the folder of a bridge's vocabularies. Default "/vocabulary/".
 * @returns {Promise<Capture>}
 */
export async function readCapture(source, { vocabularies = "/vocabulary/", ...options } = {}) {
  const text = typeof source === "string" ? source : await source.text();
  const worker = decoderWorker(options);
  const sha256 = await worker.ask("capture_vocabulary", text);
  if (sha256) {
    const url = new URL(`${encodeURIComponent(sha256)}.detok`, new URL(vocabularies, base()));
    // Without it the tokens' own bytes will do, where the capture has them.
    await loadVocabulary(url, { ...options, sha256, cache: false }).catch(() => {});
  }
  const { header, rows, seconds, deltas } = await worker.ask("capture_rows", text);
  return {
    header,
    rows: rows.map((/** @type {[number, import("./rows.js").CrossedRow]} */ [at, row]) => ({
      seconds: at,
      ...rowOf(row),
    })),
    seconds,
    text: deltas.map((/** @type {[string, string]} */ [, part]) => part).join(""),
  };
}

/**
 * Write a recorded stream as a `.detok.jsonl`. Prompts are left out.
 * @param {object} recording
 * @param {Record<string, unknown>} recording.header  `engine`, `vocabulary`…
 * @param {Pick<RecordedRow, "seconds" | "id" | "bytes">[]} recording.rows
 * @param {number} recording.seconds
 * @param {object} [recording.end]  How it ended: `{type: "finished", reason}`…
 * @param {import("./decoder.js").RuntimeOptions} [options]
 * @returns {Promise<string>}
 */
export async function writeCapture({ header, rows, seconds, end }, options) {
  const crossed = rows.map(({ seconds, id, bytes }) => [seconds, id, toHex(bytes)]);
  const recording = JSON.stringify({ header, rows: crossed, seconds, end });
  return decoderWorker(options).ask("capture_text", recording);
}

/** @param {Uint8Array} bytes */
const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
