/**
 * Files that the reader drops, pastes or chooses: a stream in any form, or a tokenizer. In: files,
 * and text from the clipboard. Out: `open` is called with a stream's file; a tokenizer is used from
 * then on. Also the samples of a static site.
 */

import { element } from "./dom.js";
import { messageOf, sayStatus, showAlert } from "./notices.js";
import { isSite } from "./site.js";
import { isTokenizerFile, useTokenizer } from "./tokenizer.js";

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
      `${name} (${ids} tokens) now cuts “Your text”, and reads the ids of captures that name no vocabulary.`,
    );
  } catch (error) {
    showAlert(`${file.name}: ${messageOf(error)}`);
  }
}

/** Open what is pasted outside of a field. @param {(file: File) => void} take */
export function onPaste(take) {
  document.addEventListener("paste", (event) => {
    const { target, clipboardData } = event;
    if (target instanceof Element && target.closest("input, textarea, select")) return;
    const file = clipboardData?.files[0];
    const text = clipboardData?.getData("text/plain");
    if (!file && !text) return;
    event.preventDefault();
    take(file ?? new File([text ?? ""], "pasted text"));
  });
}

/**
 * Who broke a file's stream, and what could not be read, in sentences; "" if nothing is broken.
 * @param {import("../src/capture.js").Capture} capture
 */
export function describeImport({ header, rows, verdict, verdicts, problems, leftOut }) {
  const said = [];
  const worst = verdicts.find(({ who }) => who !== "nobody");
  if (worst) {
    const places = worst.places.slice(0, MOST_NAMED).map(({ row, got, right }) => {
      const { line, event } = rows[row] ?? {};
      return `line ${line} (event ${event})${right ? `: “${right}” arrived as “${got}”` : ""}`;
    });
    said.push(`${verdict} ${worst.said} It is in ${listed(places, worst.count)}`);
  }
  const count = problems.length + leftOut;
  if (count) {
    const places = problems
      .slice(0, MOST_NAMED)
      .map(({ line, reason }) => (line ? `line ${line}: ${reason}` : reason));
    said.push(`Not read: ${listed(places, count)}`);
  }
  const from = header.source?.server;
  return said.length ? `${from ? `${from}. ` : ""}${said.join(" ")}` : "";
}

/** @param {string[]} places @param {number} count */
function listed(places, count) {
  const more = count - places.length;
  return `${places.join("; ")}${more ? `; and ${more} more` : ""}.`;
}

/** Offer the samples of a static site. @param {(file: File) => void} open */
export async function offerSamples(open) {
  if (!isSite) return;
  const list = element("samples", HTMLSelectElement);
  const label = /** @type {HTMLElement} */ (list.parentElement);
  /** @type {{file: string, title: string}[]} */
  const samples = await (await fetch("samples/samples.json")).json();
  list.append(...samples.map(({ file, title }) => new Option(title, file)));
  label.hidden = false;
  list.addEventListener("change", async () => {
    const name = list.value;
    list.value = "";
    if (!name) return;
    try {
      const answer = await fetch(`samples/${name}`);
      if (!answer.ok) throw new Error(`it could not be fetched (HTTP ${answer.status}).`);
      open(new File([await answer.blob()], name));
    } catch (error) {
      showAlert(`${name}: ${messageOf(error)}`);
    }
  });
}
