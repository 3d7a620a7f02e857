/**
 * Files that the reader drops, pastes or chooses: a stream in any form, or a tokenizer. In: files,
 * and text from the clipboard. Out: a call of `open` with a stream's file, or a tokenizer in use.
 * Also the samples.
 */

import { quotable } from "./characters.js";
import { element, makeButton } from "./dom.js";
import { messageOf, sayStatus, showAlert } from "./notices.js";
import { isTokenizerFile, useTokenizer } from "./own-tokenizer.js";
import { begunPlaces } from "./recording.js";
import { stillShown } from "./source.js";

/** @typedef {{line: number, reason: string}} Problem */

/** How many line numbers a sentence lists. */
const MOST_NAMED = 5;

/**
 * Take a file: a tokenizer is used, anything else is opened.
 * @param {File} file
 * @param {(file: File) => Promise<void> | void} open
 * @param {() => File | undefined} waiting  The file whose ids wait for a tokenizer.
 */
export async function takeFile(file, open, waiting) {
  if (!(await isTokenizerFile(file))) return open(file);
  sayStatus(`Reading the tokenizer ${file.name}.`);
  try {
    const { name, vocabulary } = await useTokenizer(file);
    const before = waiting();
    if (before) return open(before);
    const ids = vocabulary.size.toLocaleString("en");
    showAlert(
      `${name} (${ids} tokens) now cuts “Your text”, and reads the ids of captures whose vocabulary is not here.${stillShown()}`,
    );
  } catch (error) {
    showAlert(`${file.name}: ${messageOf(error)}${stillShown()}`);
  }
}

/** Inputs that take no text. Those of all other types keep what is pasted into them. */
const TEXTLESS = [
  ...["button", "checkbox", "color", "file", "hidden"],
  ...["image", "radio", "range", "reset", "submit"],
];

/** @param {EventTarget | null} target */
const takesText = (target) =>
  target instanceof HTMLTextAreaElement ||
  (target instanceof HTMLInputElement && !TEXTLESS.includes(target.type));

/** Open what is pasted outside of a field for text. @param {(file: File) => void} take */
export function onPaste(take) {
  document.addEventListener("paste", (event) => {
    const { target, clipboardData } = event;
    if (takesText(target)) return;
    const file = clipboardData?.files[0];
    const text = clipboardData?.getData("text/plain");
    if (!file && !text) return;
    event.preventDefault();
    take(file ?? new File([text ?? ""], "pasted text"));
  });
}

/**
 * Who broke a file's stream, how it ended if not as it should, and what could not be read, in
 * sentences; "" if there is nothing of these.
 * @param {import("../src/capture.js").Capture} capture
 * @param {import("./recording.js").Recording} recording  Its rows.
 */
export function describeImport({ header, verdict, notes, verdicts }, recording) {
  const said = [];
  const faulty = verdicts.filter(({ who }) => who !== "nobody");
  if (faulty.length) said.push(verdict);
  else if (notes) said.push(notes);
  for (const one of faulty) {
    const begun = begunPlaces(one.places);
    const places = begun.slice(0, MOST_NAMED).map(({ row, got, right }) => {
      // Misread text may go on in the next rows.
      let last = one.places.findIndex((place) => place.row === row);
      while (one.rule === "misread" && right && one.places[last + 1]?.right === "") last++;
      const where = whereIs(recording.step(row), recording.step(one.places[last]?.row ?? row));
      const how = got ? `arrived as “${quotable(got)}”` : "did not arrive";
      return `${where}${right ? `: “${right}” ${how}` : ""}`;
    });
    said.push(`${one.said} It is in ${listed(places, one.count)}`);
  }
  if (recording.notRead) said.push(recording.notRead);
  const from = header.source?.server;
  return said.length ? `${from ? `${from}. ` : ""}${said.join(" ")}` : "";
}

/**
 * Where something is, from one step to another.
 * @param {{line?: number, event?: number}} first
 * @param {{line?: number, event?: number}} last
 */
function whereIs(first, last) {
  const more = last.event !== first.event;
  const events = more ? `events ${first.event} to ${last.event}` : `event ${first.event}`;
  if (first.line === undefined) return events;
  const lines = more ? `lines ${first.line} to ${last.line}` : `line ${first.line}`;
  return `${lines} (${events})`;
}

/**
 * What could not be read and is not in the notes, in a sentence; "" if there is nothing.
 * @param {import("../src/capture.js").Capture} capture
 */
export function describeNotRead({ notes, problems, leftOut }) {
  const untold = problems.filter(({ reason }) => !notes.includes(reason.slice(1)));
  const count = untold.length + leftOut;
  const places = untold
    .slice(0, MOST_NAMED)
    .map(({ line, reason }) => (line ? `line ${line}: ${reason}` : reason));
  return count ? `Not read: ${listed(places, count)}` : "";
}

/** @param {string[]} places @param {number} count */
function listed(places, count) {
  const more = count - places.length;
  return `${places.join("; ")}${more ? `; and ${more} more` : ""}.`;
}

/** Where the samples are, from the page's address: on a bridge as on a static site. */
const SAMPLES = "page/samples/";

/** Offer the samples, each a click away. @param {(file: File) => void} open */
export async function offerSamples(open) {
  const list = element("samples", HTMLElement);
  /** @type {{file: string, title: string, about: string}[]} */
  let samples = [];
  try {
    const answer = await fetch(`${SAMPLES}samples.json`);
    if (answer.ok) samples = await answer.json();
  } catch {
    return; // without a network, a reader's own files can still be opened
  }
  list.append(
    "Samples",
    ...samples.map(({ file, title, about }) =>
      makeButton(title, () => void openSample(file, open), { title: about }),
    ),
  );
  list.hidden = !samples.length;
}

/** @param {string} name @param {(file: File) => void} open */
async function openSample(name, open) {
  try {
    const answer = await fetch(SAMPLES + name);
    if (!answer.ok) throw new Error(`it could not be fetched (HTTP ${answer.status}).`);
    open(new File([await answer.blob()], name));
  } catch (error) {
    showAlert(`${name}: ${messageOf(error)}`);
  }
}
