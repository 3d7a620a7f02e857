/**
 * The form: what to stream. In: what the reader chooses, and the address (`?text=…&cut=byte&pace=40`). Out: the request
 * for the bridge.
 */

import { DEFAULT_STOP, DEFAULT_TEXT } from "./default-text.js";
import { address, element } from "./dom.js";
import { isSite } from "./site.js";

/**
 * @typedef {object} Question  What an answer is asked for with.
 * @property {import("../src/index.js").AnswerRequest & {stop: string[], singleBytes?: boolean}} request
 * @property {string} lang  The language of the answer, "" if it is not known.
 *
 * @typedef {{id: string, title: string, lang: string, prompt: string}} RecitedText
 */

const form = element("controls", HTMLFormElement);
const promptChoice = element("prompt-choice", HTMLSelectElement);
const prompt = element("prompt", HTMLInputElement);
const text = element("own-text", HTMLTextAreaElement);
const cut = element("cut", HTMLSelectElement);
const pace = element("pace", HTMLSelectElement);
const fault = element("fault", HTMLSelectElement);
const stopString = element("stop-strings", HTMLInputElement);

const OWN_PROMPT = "\u0000own";
const addressText = address.get("text") ?? "";
/** @type {RecitedText[]} */
let recitedTexts = [];
/** Whether the reader has written a stop string. */
let stopChosen = false;

/** Whether the address asks for a stream without a press of Start. */
export const startsByItself = ["text", "prompt", "start"].some((name) => address.has(name));

/** @param {() => void} start */
export function onSubmit(start) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    start();
  });
}

/** Fill the list of prompts with the texts that the embedded engine recites. Other engines have none. */
export async function loadPrompts() {
  try {
    const response = isSite ? new Response("[]") : await fetch("/texts.json");
    recitedTexts = response.ok ? await response.json() : [];
  } catch {
    recitedTexts = [];
  }
  promptChoice.replaceChildren(
    ...recitedTexts.map(({ id, title }) => new Option(title, id)),
    new Option("Your own prompt…", OWN_PROMPT),
  );
  const wanted = address.get("prompt");
  if (wanted !== null) {
    const known = recitedTexts.find(({ id, prompt }) => id === wanted || prompt === wanted);
    promptChoice.value = known?.id ?? OWN_PROMPT;
    if (!known) prompt.value = wanted;
  }
  showFields();
}

/** What the form asks for. @returns {Question} */
export function readForm() {
  dropDefaultStop();
  const stop = stopString.value ? [stopString.value] : [];
  if (source() === "engine") {
    const recited = recitedTexts.find(({ id }) => id === promptChoice.value);
    return {
      request: { prompt: recited?.prompt ?? prompt.value, stop },
      lang: recited?.lang ?? "",
    };
  }
  const given = textToStream();
  const params = {
    engine: "scripted",
    text: given,
    cut: cut.value,
    pace: Number(pace.value),
    faults: faultsFor(fault.value, given),
    seed: 1,
  };
  return { request: { prompt: "", params, stop, singleBytes: cut.value === "byte" }, lang: "" };
}

/** A text area turns every line end into \n. Text from the address keeps its own until the reader changes it. */
function textToStream() {
  return text.value === addressText.replace(/\r\n?/g, "\n") ? addressText : text.value;
}

/**
 * The scripted engine's parameter for a fault. Positions are in bytes; the end and the crash fall inside a character if
 * the text has one of more than a byte.
 * @param {string} kind
 * @param {string} text
 */
function faultsFor(kind, text) {
  const bytes = new TextEncoder().encode(text);
  const middle = Math.floor(bytes.length / 2);
  const insideCharacter = (/** @type {number} */ byte) => byte >= 0x80 && byte < 0xc0;
  const last = bytes.findLastIndex(insideCharacter);
  const afterMiddle = bytes.findIndex((byte, at) => at > middle && insideCharacter(byte));
  if (kind === "invalid") return { invalid: 0.05 };
  if (kind === "truncate") return { end: last < 0 ? bytes.length : last };
  if (kind === "stall") return { stall: [middle, 3] };
  if (kind === "crash") return { crash: afterMiddle < 0 ? middle : afterMiddle };
  return {};
}

/** The stop string of the default text goes with that text. */
function dropDefaultStop() {
  const other = source() === "text" && text.value !== DEFAULT_TEXT;
  if (other && stopString.value === DEFAULT_STOP && !stopChosen) stopString.value = "";
}

function source() {
  return new FormData(form).get("source");
}

function showFields() {
  for (const field of form.querySelectorAll("[data-for]"))
    if (field instanceof HTMLElement) field.hidden = field.dataset.for !== source();
  prompt.hidden = promptChoice.value !== OWN_PROMPT;
  if (source() === "text" && !text.value && !stopString.value) {
    text.value = DEFAULT_TEXT;
    stopString.value = DEFAULT_STOP;
  }
}

/** Choose a value in a list, also one that the list does not have. @param {HTMLSelectElement} list @param {string | null} value */
function choose(list, value) {
  if (value === null) return;
  if (![...list.options].some((option) => option.value === value))
    list.append(new Option(value, value));
  list.value = value;
}

if (address.has("text") || isSite) {
  form.querySelector("[name=source][value=text]")?.setAttribute("checked", "");
  text.value = addressText;
}
if (address.get("cut") === "byte") cut.value = "byte";
choose(pace, address.get("pace"));
choose(fault, address.get("fault"));
stopString.value = address.get("stop") ?? stopString.value;
form.addEventListener("change", showFields);
text.addEventListener("input", dropDefaultStop);
stopString.addEventListener("input", () => (stopChosen = true));
showFields();
