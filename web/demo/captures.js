/**
 * Captures: a stream saved to a file, and a file opened as a stream. The library reads and writes the formats;
 * here are the buttons, the drop and the download.
 */

import { readCapture, writeCapture } from "../src/capture.js";
import { button, element } from "./dom.js";
import { describeImport } from "./imports.js";
import { Recording } from "./recording.js";
import { runtimeOptions } from "./runtime.js";
import { droppedVocabulary } from "./tokenizer.js";

/** How far apart the tokens of a file without times are played. */
const UNTIMED_MS = 1000 / 30;

const openButton = button("import");
const saveButton = button("export");
const picker = element("import-file", HTMLInputElement);

/**
 * @param {(file: File) => void} open  Called with a file that was chosen or dropped.
 * @param {() => void} save
 */
export function onCapture(open, save) {
  saveButton.addEventListener("click", save);
  openButton.addEventListener("click", () => picker.click());
  picker.addEventListener("change", () => {
    const file = picker.files?.[0];
    picker.value = "";
    if (file) open(file);
  });
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    const file = event.dataTransfer?.files[0];
    if (file) open(file);
  });
}

/** @param {{open: boolean, save: boolean}} allowed */
export function allowCaptures({ open, save }) {
  openButton.disabled = !open;
  saveButton.disabled = !save;
}

/**
 * Decode a captured stream again. Rejects with an error of one sentence.
 * @param {File} file
 */
export async function openCapture(file) {
  const capture = await readCapture(file, {
    ...runtimeOptions(),
    vocabulary: await droppedVocabulary(),
  });
  const { header, rows, text, end, timed } = capture;
  const recording = new Recording(0);
  // A body has no times: it is played at a pace at which it can be read.
  rows.forEach((row, n) => recording.add(row, timed ? row.seconds * 1000 : n * UNTIMED_MS));
  const seconds = timed ? capture.seconds : (rows.length * UNTIMED_MS) / 1000;
  recording.end(text, seconds * 1000);
  const said = describeImport(capture);
  return { header, recording, tokens: rows.length, seconds, end: end ?? undefined, said };
}

/**
 * Save a stream as a capture. The prompt is not in it.
 * @param {Recording} recording
 * @param {{header: Record<string, unknown>, end: object | undefined}} described  The lines at its head and at its end.
 */
export async function saveCapture(recording, { header, end }) {
  const tokens = recording.steps.filter((step) => !step.end);
  const text = await writeCapture(
    {
      header,
      rows: tokens.map(({ at, id, bytes }) => ({ seconds: at / 1000, id, bytes })),
      seconds: (recording.steps.at(-1)?.at ?? 0) / 1000,
      end,
    },
    runtimeOptions(),
  );
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
  link.download = `${new Date().toISOString().slice(0, 19).replace(/[T:]/g, "-")}.detok.jsonl`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
