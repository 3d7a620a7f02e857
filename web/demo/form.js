/**
 * The form for what to stream. In: the reader's choices, and the address
 * (`?text=…&cut=byte&pace=40`). Out: the request for the bridge, and an address for the same
 * request.
 */

import { DEFAULT_STOP, DEFAULT_TEXT } from "./default-text.js";
import { address, element } from "./dom.js";
import { nameEngine } from "./engines.js";
import { isSite } from "./site.js";

/**
 * @typedef {object} Question  A request, and what the page knows of its answer.
 * @property {import("../src/index.js").AnswerRequest & {stop: string[], singleBytes?: boolean,
 *   reasoning?: true, tools?: true}} request
 * @property {string} lang  The language of the answer, "" if it is not known.
 * @property {boolean} [own]  Whether it streams the reader's own text, without an engine.
 *
 * @typedef {{id: string, title: string, lang: string, prompt: string}} RecitedText
 */

const form = element("controls", HTMLFormElement);
const promptChoice = element("prompt-choice", HTMLSelectElement);
const prompt = element("prompt", HTMLInputElement);
const note = element("prompt-note", HTMLElement);
const text = element("own-text", HTMLTextAreaElement);
const cut = element("cut", HTMLSelectElement);
const pace = element("pace", HTMLSelectElement);
const fault = element("fault", HTMLSelectElement);
const channels = element("channels", HTMLInputElement);
const stopStrings = element("stop-strings", HTMLTextAreaElement);

const OWN_PROMPT = "\u0000prompt";
const OWN_MESSAGE = "\u0000message";
/**
 * Questions for any model, in its chat template. Their answers have characters of several bytes.
 */
const QUESTIONS = [
  {
    title: "Emoji and four languages",
    text: "Say hello in Japanese, Arabic, Thai and Russian, with a flag emoji for each.",
  },
  {
    title: "A haiku in Japanese",
    text: "Write a haiku about rain in Japanese, then explain it in English.",
  },
  {
    title: "A table",
    text: "Make a Markdown table of five fruits with their emoji, and their names in Hindi and Chinese.",
  },
  {
    title: "Reasoning",
    text: "How many letters has the word “naïveté”? Think first, then answer.",
  },
];
/** The scripted engine refuses a longer text (detok_py/bridge/engines/scripted.py). */
const MAX_TEXT = 1 << 18;
/** A longer text makes an address that programs cut. */
const MAX_ADDRESS = 2000;

const addressText = address.get("text") ?? "";
/** @type {RecitedText[]} */
let recitedTexts = [];
/** How many times the prompts were loaded, and whether the reader has chosen one. */
let loads = 0;
let promptChosen = false;
/** Whether the reader has written a stop string. */
let stopChosen = false;

/** Whether the address asks for a stream without a press of Start. */
export const startsByItself = ["text", "prompt", "message", "start"].some((name) =>
  address.has(name),
);

/** @param {() => void} start */
export function onSubmit(start) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    start();
  });
}

/**
 * Fill the list of prompts: with the texts of the embedded engine, if that is attached, else with
 * questions for any model.
 * @param {boolean} recites
 */
export async function loadPrompts(recites) {
  const mine = ++loads;
  /** @type {RecitedText[]} */
  let texts = [];
  if (recites && !isSite) {
    try {
      const response = await fetch("/texts.json");
      if (response.ok) texts = await response.json();
    } catch {
      // The bridge is not reachable. Loading the runtime reports that.
    }
  }
  if (mine !== loads) return; // another engine has been chosen
  recitedTexts = texts;
  const before = promptChoice.value;
  const questions = recites ? [] : QUESTIONS.map(({ title, text }) => new Option(title, text));
  promptChoice.replaceChildren(
    ...recitedTexts.map(({ id, title }) => new Option(title, id)),
    ...questions,
    ...(recites ? [] : [new Option("Your own message…", OWN_MESSAGE)]),
    new Option(
      recites ? "Your own prompt…" : "Your own prompt, without a chat template…",
      OWN_PROMPT,
    ),
  );
  if ([...promptChoice.options].some(({ value }) => value === before)) promptChoice.value = before;
  // The choices in the address apply until the reader makes others.
  if (promptChosen) return showFields();
  for (const [name, own] of /** @type {const} */ ([
    ["prompt", OWN_PROMPT],
    ["message", OWN_MESSAGE],
  ])) {
    const wanted = address.get(name);
    if (wanted === null) continue;
    const known =
      name === "prompt"
        ? recitedTexts.find(({ id, prompt }) => id === wanted || prompt === wanted)?.id
        : QUESTIONS.find(({ text }) => text === wanted && !recites)?.text;
    if (own === OWN_MESSAGE && recites) promptChoice.add(new Option("Your own message…", own));
    promptChoice.value = known ?? own;
    if (!known) prompt.value = wanted;
  }
  showFields();
}

/** Why the form cannot be sent, in a sentence that says what to do; "" if it can. */
export function refusal() {
  if (source() !== "text") return "";
  const given = textToStream();
  const half = /\p{Surrogate}/u.exec(given);
  if (half)
    return `Your text has half of a character at place ${half.index + 1} (a lone surrogate, U+${given.charCodeAt(half.index).toString(16).toUpperCase()}). No bytes stand for it: delete it, then start.`;
  const length = given.length > MAX_TEXT ? [...given].length : 0;
  if (length > MAX_TEXT)
    return `Your text has ${length.toLocaleString("en")} characters; at most ${MAX_TEXT.toLocaleString("en")} are streamed. Shorten it by ${(length - MAX_TEXT).toLocaleString("en")}.`;
  return "";
}

/** The request of the form. @returns {Question} */
export function readForm() {
  const question = readQuestion();
  return channels.checked
    ? { ...question, request: { ...question.request, reasoning: true, tools: true } }
    : question;
}

/** @returns {Question} */
function readQuestion() {
  dropDefaultStop();
  const stop = readStops();
  if (source() === "engine") {
    const chosen = promptChoice.value;
    const recited = recitedTexts.find(({ id }) => id === chosen);
    if (recited) return { request: { prompt: recited.prompt, stop }, lang: recited.lang };
    if (chosen === OWN_PROMPT) return { request: { prompt: prompt.value, stop }, lang: "" };
    const content = chosen === OWN_MESSAGE ? prompt.value : chosen;
    return { request: { messages: [{ role: "user", content }], stop }, lang: "" };
  }
  return ownText(textToStream(), {
    cut: cut.value,
    pace: Number(pace.value),
    fault: fault.value,
    stop,
  });
}

/**
 * A question for a text that the bridge itself streams.
 * @param {string} given
 * @param {{cut: string, pace: number, fault?: string, stop: string[]}} options
 * @returns {Question}
 */
export function ownText(given, { cut, pace, fault = "", stop }) {
  const params = {
    engine: "scripted",
    text: given,
    cut,
    pace,
    faults: faultsFor(fault, given),
    seed: 1,
  };
  return {
    request: { prompt: "", params, stop, singleBytes: cut === "byte" },
    lang: "",
    own: true,
  };
}

/**
 * The first text that the embedded model recites: good morning in forty languages. Undefined with
 * another engine.
 * @returns {Question | undefined}
 */
export function firstRecited() {
  const [first] = recitedTexts;
  return first && { request: { prompt: first.prompt, stop: [] }, lang: first.lang };
}

/** Write the request of the form into the address, so that it can be shared. */
export function writeAddress() {
  const url = new URL(location.href);
  const { searchParams: query } = url;
  for (const name of ["text", "cut", "pace", "fault", "stop", "prompt", "message", "start"])
    query.delete(name);
  const given = source() === "text" ? textToStream() : "";
  if (source() === "text") {
    if (given.length < MAX_ADDRESS) query.set("text", given);
    if (cut.value !== "token") query.set("cut", cut.value);
    query.set("pace", pace.value);
    if (fault.value) query.set("fault", fault.value);
  } else {
    const chosen = promptChoice.value;
    const own = chosen === OWN_PROMPT || chosen === OWN_MESSAGE;
    const raw = chosen === OWN_PROMPT || recitedTexts.some(({ id }) => id === chosen);
    query.set(raw ? "prompt" : "message", own ? prompt.value : chosen);
  }
  nameEngine(query);
  if (channels.checked) query.set("channels", "apart");
  else query.delete("channels");
  for (const one of readStops()) query.append("stop", one);
  if (url.search.length > MAX_ADDRESS)
    for (const name of ["text", "prompt", "message"]) query.delete(name);
  url.hash = "";
  history.replaceState(null, "", url);
}

/** One stop string a line; `\n`, `\t` and `\\` stand for a line end, a tab and a backslash. */
function readStops() {
  /** @type {Record<string, string>} */
  const escapes = { n: "\n", t: "\t", "\\": "\\" };
  return stopStrings.value
    .split("\n")
    .filter(Boolean)
    .map((line) => line.replace(/\\([nt\\])/g, (_, letter) => escapes[letter] ?? letter));
}

/** @param {string[]} stop */
function writeStops(stop) {
  stopStrings.value = stop
    .map((one) => one.replace(/\\/g, "\\\\").replace(/\n/g, "\\n").replace(/\t/g, "\\t"))
    .join("\n");
}

/**
 * A text area turns every line end into \n. Text from the address keeps its own until the reader
 * changes it.
 */
function textToStream() {
  return text.value === addressText.replace(/\r\n?/g, "\n") ? addressText : text.value;
}

/**
 * The scripted engine's parameter for a fault. Positions are in bytes; the end and the crash fall
 * inside a character if the text has one of more than a byte.
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

/** The stop string of the default text is removed with that text. */
function dropDefaultStop() {
  const other = source() === "text" && text.value !== DEFAULT_TEXT;
  if (other && stopStrings.value === DEFAULT_STOP && !stopChosen) stopStrings.value = "";
}

function source() {
  return new FormData(form).get("source");
}

function showFields() {
  for (const field of form.querySelectorAll("[data-for]"))
    if (field instanceof HTMLElement) field.hidden = field.dataset.for !== source();
  const own = promptChoice.value === OWN_PROMPT || promptChoice.value === OWN_MESSAGE;
  prompt.hidden = !own;
  const noise = own && recitedTexts.length > 0;
  note.hidden = !noise || source() !== "engine";
  note.textContent = noise
    ? "This engine is a tiny model that knows the listed texts by heart. To any other prompt it answers with noise; that is the model, not the decoding."
    : "";
  if (source() === "text" && !text.value && !stopStrings.value) {
    text.value = DEFAULT_TEXT;
    stopStrings.value = DEFAULT_STOP;
  }
}

/**
 * Choose a value in a list, also one that the list does not have.
 * @param {HTMLSelectElement} list
 * @param {string | null} value
 */
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
const askedPace = Number(address.get("pace"));
if (askedPace >= 0 && askedPace < Infinity) choose(pace, address.get("pace"));
const askedFault = address.get("fault") ?? "";
if ([...fault.options].some(({ value }) => value === askedFault)) fault.value = askedFault;
channels.checked = address.has("channels");
writeStops(address.getAll("stop").filter(Boolean));
form.addEventListener("change", showFields);
for (const field of [promptChoice, prompt])
  field.addEventListener("input", () => (promptChosen = true));
text.addEventListener("input", dropDefaultStop);
stopStrings.addEventListener("input", () => (stopChosen = true));
showFields();
