/**
 * Captures: a stream saved to a file, and a file opened as a stream. The library reads and writes
 * the formats. This file has the buttons, the drop target and the download.
 */

import { readCapture, writeCapture } from "../src/capture.js";
import { button, element, make } from "./dom.js";
import { describeImport, describeNotRead } from "./imports.js";
import { sayStatus } from "./notices.js";
import { Recording } from "./recording.js";
import { runtimeOptions } from "./runtime.js";
import { isSite } from "./site.js";
import { unitOf } from "./source.js";
import { droppedVocabulary } from "./own-tokenizer.js";

/** The interval between the tokens of a file without times. */
const UNTIMED_MS = 1000 / 30;

/**
 * @typedef {object} Described  What is known of a stream besides its steps.
 * @property {Record<string, any>} header  The first line of its capture: `engine`, `vocabulary`,
 *   `stop`…
 * @property {Record<string, any>} [end]   How it ended: `{type: "finished", reason}`, or
 *   `{type: "error", code, message}`.
 */

const openButton = button("import");
const saveButton = button("export");
const reportButton = button("report");
const testButton = button("copy-test");
const picker = element("import-file", HTMLInputElement);
const dropSign = element("drop-sign", HTMLElement);
const DROP_HERE = "Let go to open it: a stream, or a tokenizer";

/**
 * @param {(file: File) => void} open  Called with a file that was chosen or dropped.
 * @param {() => void} save
 */
export function onCapture(open, save) {
  saveButton.addEventListener("click", save);
  openButton.addEventListener("click", () => picker.click());
  if (dropSign.firstElementChild) dropSign.firstElementChild.textContent = DROP_HERE;
  picker.addEventListener("change", () => {
    const file = picker.files?.[0];
    picker.value = "";
    if (file) open(file);
  });
  showDrops(open);
}

/**
 * Take files that are dropped anywhere, and say while one is dragged that it can be dropped.
 * @param {(file: File) => void} open
 */
function showDrops(open) {
  // Text that is dropped belongs to the field under the pointer.
  const hasFile = (/** @type {DragEvent} */ { dataTransfer }) =>
    dataTransfer?.types.includes("Files") ?? false;
  /** @param {boolean} shown */
  const show = (shown) => {
    if (dropSign.hidden === !shown) return;
    dropSign.hidden = !shown;
    document.documentElement.toggleAttribute("data-dragging", shown);
    sayStatus(shown ? DROP_HERE : "");
  };
  document.addEventListener("dragenter", (event) => {
    if (hasFile(event)) show(true);
  });
  document.addEventListener("dragover", (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    if (event.dataTransfer) event.dataTransfer.dropEffect = "copy";
    show(true);
  });
  // The pointer leaves the window, and not only an element.
  document.addEventListener("dragleave", ({ relatedTarget }) => {
    if (!relatedTarget) show(false);
  });
  document.addEventListener("drop", (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    show(false);
    const file = event.dataTransfer?.files[0];
    if (file) open(file);
  });
}

/** @param {{open: boolean, save: boolean}} allowed */
export function allowCaptures({ open, save }) {
  openButton.disabled = !open;
  saveButton.disabled = reportButton.disabled = testButton.disabled = !save;
}

/**
 * Decode a captured stream again. Rejects with an error of one sentence.
 * @param {File} file
 * @param {{path?: string, format?: string, entry?: number,
 *   onProgress?: (read: number, total: number) => void}} [choices]  Where the text of its events
 *   is, the format of its model, and the entry of a HAR file; what is not given is found.
 * @param {() => boolean} [isWanted]  Called now and then; reading ends when it returns false.
 */
export async function openCapture(file, choices = {}, isWanted = () => true) {
  const vocabulary = await droppedVocabulary();
  if (!isWanted()) return undefined;
  /** @type {Recording | undefined} */
  let recording;
  let [count, ids] = [0, 0];
  const capture = await readCapture(file, {
    ...runtimeOptions(),
    ...choices,
    vocabularies: isSite ? null : undefined,
    vocabulary,
    onRows(rows, known) {
      if (!isWanted()) return;
      recording ??= recordingOf(known);
      for (const row of rows) {
        // A body has no times, so it is played at reading speed.
        recording.add(row, known.timed ? row.seconds * 1000 : count * UNTIMED_MS);
        count++;
        ids += row.ids?.length ?? 0;
      }
    },
  });
  if (!recording || !isWanted()) return undefined;
  const { header, text, end, fidelity, markup, entries } = capture;
  const seconds = capture.timed ? capture.seconds : (count * UNTIMED_MS) / 1000;
  recording.end(text, seconds * 1000);
  recording.judge(capture.verdict, capture.verdicts);
  /** @type {Described} */
  const described = { header, end: end ?? undefined };
  recording.notRead = describeNotRead(capture);
  const said = describeImport(capture, recording);
  return { described, recording, fidelity, ids, said, markup, entries };
}

/** A recording without steps yet. @param {import("../src/capture.js").Capture} capture */
function recordingOf({ header, timed, format, fidelity }) {
  const recording = new Recording(0, unitOf(fidelity));
  recording.timed = timed;
  recording.steps = header.source?.steps ?? 0;
  recording.stop = stopsOf(header);
  recording.format = format;
  return recording;
}

/** @param {Record<string, any>} header */
function stopsOf({ stop }) {
  return Array.isArray(stop) ? stop.filter((one) => typeof one === "string") : [];
}

/** How a stream ends in a file that is saved before its end. */
const SAVED_EARLY = {
  type: "finished",
  reason: "cancelled",
  note: "This file was saved while the answer came; the rest is not in it.",
};

/**
 * A stream as the text of a capture. The prompt is not in it.
 * @param {Recording} recording
 * @param {Described} described
 */
export const captureText = (recording, described) =>
  writeCapture(captureOf(recording, described), runtimeOptions());

/**
 * A stream as `writeCapture` takes it.
 * @param {Recording} recording
 * @param {Described} described
 */
export function captureOf(recording, { header, end }) {
  const rows = [];
  const switches = new Map(recording.apart);
  let channel = "content";
  for (let n = 0; n < recording.count; n++) {
    const { at, id, bytes, ids } = recording.step(n);
    channel = switches.get(n) ?? channel;
    const sent = { channel: /** @type {"content"} */ (channel), apart: true };
    rows.push({ seconds: recording.timed ? at / 1000 : 0, id, bytes, ids, ...sent });
  }
  const seconds = recording.timed ? recording.timeOf(recording.length - 1) / 1000 : 0;
  const stop = recording.stop.length ? { stop: recording.stop } : {};
  const timed = recording.timed ? {} : { timed: false };
  // The capture may lack the text that was judged, so a reader could not judge it again.
  const judged = recording.verdicts.length ? { verdicts: recording.verdicts.map(crossed) } : {};
  const all = { ...header, ...stop, ...timed, ...judged };
  return { header: all, rows, seconds, end: recording.ended ? end : SAVED_EARLY };
}

/** A verdict for the header of a capture. @param {import("../src/capture.js").Verdict} verdict */
const crossed = ({ who, rule, said, places, count }) => [
  who,
  rule,
  said,
  places.map(({ row, got, right, begin, end }) => [row, got, right, begin, end]),
  count,
];

/** Save a stream as a capture. @param {Recording} recording @param {Described} described */
export async function saveCapture(recording, described) {
  const text = await captureText(recording, described);
  const href = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
  const name = new Date().toISOString().slice(0, 19).replace(/[T:]/g, "-");
  make("a", { href, download: `${name}.detok.jsonl` }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}

const entryField = element("entry-field", HTMLElement);
const entryList = element("entry", HTMLSelectElement);

/**
 * Offer the other streams of a HAR file.
 * @param {[number, string][]} entries
 * @param {number} [shown]
 */
export function showEntries(entries, shown) {
  entryField.hidden = entries.length < 2;
  entryList.replaceChildren(
    ...entries.map(([number, url]) => new Option(`entry ${number}: ${url}`, String(number))),
  );
  showEntry(shown);
}

/** @param {number} [shown] */
export function showEntry(shown) {
  if (shown) entryList.value = String(shown);
}

/** @param {(entry: number) => void} change */
export function onEntryChange(change) {
  entryList.addEventListener("change", () => change(Number(entryList.value)));
}
