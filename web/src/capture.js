/**
 * Recorded streams: read, decoded again, and written.
 *
 * In: a `.detok.jsonl`, a HAR file, the body of a stream as any common server sends it, what curl
 * printed, or a log with such lines, also packed (unpack.js); or what a page has recorded. Out: a
 * row for each token; or the text of a `.detok.jsonl`. Both are made in Python (detok_py/captures),
 * which is loaded for it.
 */

import { base, decoderWorker } from "./decoder.js";
import { fold } from "./fold.js";
import { loadCaptures } from "./on-demand.js";
import { checked } from "./options.js";
import { rowOf } from "./rows.js";
import { loadVocabulary } from "./load-vocabulary.js";
import { packingOf, unpack } from "./unpack.js";

/**
 * @typedef {object} Place  Where a row comes from.
 * @property {number} seconds  Since the start; 0 if the file has no times.
 * @property {"content" | "reasoning" | "tool_call"} channel  What the text is a part of.
 * @property {boolean} apart  Whether that is the server's word; else tags or a format say it.
 * @property {number} line   In the file; 0 where a body is inside it, as in a HAR file.
 * @property {number} event  Which event of the stream, from 1.
 * @property {string} broken  How the text was damaged before it was recorded; "" if it was not.
 * @property {number[] | null} ids  Of text that a server has decoded: the ids that came with it,
 *   which no vocabulary here reads. Null for tokens and bytes.
 *
 * @typedef {import("./rows.js").TokenRow & Place} RecordedRow  A token, and where it comes from.
 *
 * @typedef {object} End  How a stream ended, as its file says.
 * @property {string} type  "finished", "failed"…; other fields are those of the file.
 *
 * @typedef {object} Problem  What could not be read.
 * @property {number} line    Of the file; 0 if it is none.
 * @property {string} reason  A sentence.
 *
 * @typedef {object} BrokenPlace  Where a stream is broken.
 * @property {number} row    Of `rows`.
 * @property {string} got    The text as it came.
 * @property {string} right  The right text; "" if it is not known.
 * @property {number} begin  Where text without a U+FFFD is wrong, in the row's `text`, and
 * @property {number} end    where it ends; 0 if there is none.
 *
 * @typedef {object} Verdict  Who broke something, one for all places that are alike.
 * @property {"engine" | "proxy" | "client" | "unknown" | "nobody"} who  Whose fault it is.
 * @property {string} rule  The name of the rule by which it is known.
 * @property {string} said  What happened, in a sentence.
 * @property {BrokenPlace[]} places  At most 200.
 * @property {number} count  Of all places.
 * @property {"" | "model" | "server" | "recorder" | "sender" | "gateway" | "read" | "reader" |
 *   "doubt"} less  Who else it may have been, if the rule knows less than `who`: the model, the
 *   server, what recorded the stream, that or the server, a gateway, what read or recorded it,
 *   anything on the way, or nobody.
 *
 * @typedef {object} CaptureSource  Where a recorded stream comes from.
 * @property {string} [server]  The name of the server.
 * @property {number} [steps]  In seconds, those of its times, if too coarse for tokens; 1 or 0.1.
 * @property {string} [usage]  How many tokens the server says it has read and made.
 * @property {string} [timings]  How long the request took, as a HAR file says.
 *
 * @typedef {object} CaptureHeader  What a file says of its stream, beside keys of its own.
 * @property {CaptureSource} [source]  Where the stream comes from.
 *
 * @typedef {object} Capture  A recorded stream, decoded again.
 * @property {Record<string, unknown> & CaptureHeader} header  What the file says of the stream.
 * @property {RecordedRow[]} rows  A row for each token.
 * @property {number} seconds  How long the stream took.
 * @property {string | null} format  The name of the format that its content was read in.
 * @property {string | null} markup  The name of the format that its content seems to be written in,
 *   if it was read in none.
 * @property {"ids" | "bytes" | "text"} fidelity  What is exact of all rows; text is not.
 * @property {boolean} timed   Whether the file has times.
 * @property {string} text     What was held, and became text at the end.
 * @property {(End & Record<string, unknown>) | null} end  How it ended, as the file says.
 * @property {[number, string][]} entries  Of a HAR file: the number and the address of each entry
 *   with a stream.
 * @property {string} verdict  Who broke it, in a few words; also if nobody did.
 * @property {string} notes   What of the verdict is not about the text: an error, a missing end…
 * @property {Verdict[]} verdicts  The worst first.
 * @property {Problem[]} problems  What could not be read.
 * @property {number} leftOut  How many more problems there are.
 *
 * @typedef {object} ReadOptions  Where the vocabulary of a file's ids is.
 * @property {string | URL | null} [vocabularies]  The folder of a bridge's vocabularies. Default
 *   "/vocabulary/"; null if there is none.
 * @property {import("./vocabulary.js").Vocabulary} [vocabulary]  For ids of a file that names none.
 * @property {string} [path]  Where the text is in events that are not known: "bar.text".
 * @property {(read: number, total: number) => void} [onProgress]  Called while the rows of a long
 *   stream come.
 * @property {(rows: Iterable<RecordedRow>, capture: Capture) => void} [onRows]  Called with the
 *   rows as they come, and with all else that is known; then `rows` of the capture stays empty. A
 *   page that keeps a long stream in a smaller form needs less memory so.
 * @property {number} [entry]  Which entry of a HAR file to read, from 1. Default: the first with a
 *   stream.
 * @property {string} [format]  The format of its model, or "none". Default: what the file or the
 *   vocabulary names, and harmony if the text begins so.
 */

/**
 * Read a recorded stream and decode it again. Rejects with a DetokError that says what is wrong.
 * @param {string | Blob | ArrayBuffer | Uint8Array} source
 * @param {import("./decoder.js").RuntimeOptions & ReadOptions} [options]
 * @returns {Promise<Capture>}
 */
export async function readCapture(source, options = {}) {
  const {
    vocabularies = "/vocabulary/",
    vocabulary,
    path = "",
    format: asked = "",
    entry = 0,
    onProgress = () => {},
    onRows,
    ...runtime
  } = options;
  const name = source instanceof Blob && "name" in source ? String(source.name) : "";
  // Before the file is read: `shutDown` ends this too, and another worker is not asked for it.
  const worker = decoderWorker(checked(runtime));
  const file = await unpacked(source, name);
  await Promise.all([loadCaptures(worker, runtime.runtimeUrl), worker.keep(vocabulary)]);
  const choices = [name, vocabulary?.sha256 ?? "", path, asked, entry];
  let first = file instanceof Blob ? await readFolded(worker, file, choices) : { again: true };
  if (first.again) {
    const bytes = await bytesOf(file);
    const sha256 = await worker.ask("capture_vocabulary", bytes, name);
    if (sha256 && vocabularies !== null) {
      const url = new URL(`${encodeURIComponent(sha256)}.detok`, new URL(vocabularies, base()));
      // Without it, the capture may have the bytes of its tokens.
      await loadVocabulary(url, { ...runtime, sha256, cache: false }).catch(() => {});
    }
    first = await worker.ask("capture_rows", bytes, ...choices);
  }
  const { header, seconds, deltas, timed, end, problems, leftOut, format, markup } = first;
  const { fidelity, verdict, notes } = first;
  /** @type {Capture} */
  const capture = {
    header,
    rows: [],
    seconds,
    format,
    markup,
    fidelity,
    timed,
    text: textOf(deltas),
    end,
    entries: first.entries,
    verdict,
    notes,
    verdicts: first.verdicts.map(verdictOf),
    problems: problems.map((/** @type {[number, string]} */ [line, reason]) => ({ line, reason })),
    leftOut,
  };
  let count = 0;
  // A long capture comes in parts, each in its own task, so that the page stays responsive.
  for (let part = first; ; part = await worker.ask("more_rows", part.more)) {
    const rows = rowsOf(part.rows, () => count++);
    if (onRows) onRows(rows, capture);
    else for (const row of rows) capture.rows.push(row);
    onProgress(count, first.count);
    if (!part.more) return capture;
  }
}

/** From this size on, a file is read in parts. */
const LARGE = 1 << 18;
/** Of larger files Python says that they are too large. */
const TOO_LARGE = 64 << 20;

/**
 * A large file as a Blob, a small one as bytes.
 * @param {string | Blob | ArrayBuffer | Uint8Array} source
 * @param {string} name
 */
async function unpacked(source, name) {
  if (source instanceof Blob && source.size >= LARGE) {
    const head = new Uint8Array(await source.slice(0, 4).arrayBuffer());
    if (!packingOf(head, name)) return source;
  }
  const bytes = await unpack(await bytesOf(source), name);
  return bytes.length < LARGE ? bytes : new Blob([bytes]);
}

/**
 * Read a large file without the lines that are alike.
 * @param {import("./decoder.js").DecoderWorker} worker
 * @param {Blob} file
 * @param {unknown[]} choices  Of `capture_rows`.
 */
async function readFolded(worker, file, choices) {
  const find = (/** @type {Uint8Array} */ part) => worker.ask("alike_shapes", part);
  const folded = file.size > TOO_LARGE ? undefined : await fold(file, find);
  if (!folded) return { again: true };
  return worker.ask("capture_rows", await bytesOf(folded.left), ...choices, folded.taken);
}

/** @param {string | Blob | ArrayBuffer | Uint8Array} source */
async function bytesOf(source) {
  if (typeof source === "string") return new TextEncoder().encode(source);
  if (source instanceof Blob) return new Uint8Array(await source.arrayBuffer());
  return new Uint8Array(source);
}

/**
 * @param {[number, import("./rows.js").CrossedRow, Place["channel"], number, number, string,
 *   number[] | null]} crossed
 * @returns {RecordedRow}
 */
const placedRow = ([seconds, row, apart, line, event, broken, ids]) => {
  const its = rowOf(row);
  // What the server has not separated, the tags or the format do.
  const channel = /** @type {Place["channel"]} */ ((apart === "content" && its.channel) || apart);
  return { ...its, seconds, channel, apart: apart !== "content", line, event, broken, ids };
};

const NO_BYTES = new Uint8Array(0);
/** @type {number[]} */
const NO_IDS = [];
const utf8 = new TextEncoder();

/**
 * The rows in rows that have crossed, one by one: few objects live at the same time.
 * @param {any[]} crossed
 * @param {() => void} onRow
 */
function* rowsOf(crossed, onRow) {
  for (const row of crossed)
    for (const one of typeof row[6] === "number" ? textRows(row) : [placedRow(row)]) {
      onRow();
      yield one;
    }
}

/**
 * The rows of many events that are text alone; each further one is `step` lines on.
 * @param {[number, string[], Place["channel"], number, number, string, number]} crossed
 * @returns {Iterable<RecordedRow>}
 */
function* textRows([seconds, texts, channel, line, event, broken, step]) {
  const all = utf8.encode(texts.join(""));
  let end = 0;
  for (const [n, text] of texts.entries()) {
    const begin = end;
    end += lengthInUtf8(text);
    yield {
      id: null,
      bytes: all.subarray(begin, end),
      text,
      channel,
      apart: channel !== "content",
      heldBytes: NO_BYTES,
      heldText: "",
      special: null,
      seconds,
      line: line + n * step,
      event: event + n,
      broken,
      ids: NO_IDS,
    };
  }
}

/** @param {string} text */
function lengthInUtf8(text) {
  let length = 0;
  for (let n = 0; n < text.length; n++) {
    const unit = text.charCodeAt(n);
    // Each half of a surrogate pair is two bytes of four.
    length += unit < 0x80 ? 1 : unit < 0x800 || (unit & 0xf800) === 0xd800 ? 2 : 3;
  }
  return length;
}

/**
 * @param {[Verdict["who"], string, string, [number, string, string, number, number][], number,
 *   Verdict["less"]]} crossed
 * @returns {Verdict}
 */
const verdictOf = ([who, rule, said, places, count, less]) => ({
  who,
  rule,
  said,
  places: places.map(([row, got, right, begin, end]) => ({ row, got, right, begin, end })),
  count,
  less,
});

/** @param {[string, string][]} deltas */
const textOf = (deltas) => deltas.map(([, part]) => part).join("");

/**
 * Write a recorded stream as a `.detok.jsonl`. Prompts are left out.
 * @param {object} recording
 * @param {Record<string, unknown>} recording.header  `engine`, `vocabulary`…
 * @param {(Pick<RecordedRow, "id" | "bytes" | "seconds"> &
 *   Partial<Pick<RecordedRow, "ids" | "channel" | "apart">>)[]} recording.rows
 * @param {number} recording.seconds
 * @param {object} [recording.end]  How it ended: `{type: "finished", reason}`…
 * @param {import("./decoder.js").RuntimeOptions} [options]
 * @returns {Promise<string>}
 */
export async function writeCapture({ header, rows, seconds, end }, options = {}) {
  const crossed = rows.map(({ seconds, id, bytes, ids = null, channel, apart }) => [
    seconds,
    id,
    toHex(bytes),
    ids,
    apart ? channel : "content",
  ]);
  const worker = decoderWorker(checked(options));
  await loadCaptures(worker, options.runtimeUrl);
  return worker.ask("capture_text", JSON.stringify({ header, rows: crossed, seconds, end }));
}

/** @param {Uint8Array} bytes */
const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
