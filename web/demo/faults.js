/**
 * The faults of a stream: the list with the cause and the bytes of each, the marks on the scrubber,
 * and the button that goes from one to the next.
 */

import { quotable } from "./characters.js";
import { button, element, make, makeButton } from "./dom.js";
import { begunPlaces, hexOf } from "./recording.js";

/** @typedef {import("./recording.js").Recording} Recording */
/** @typedef {import("./recording.js").Fault} Fault */
/** @typedef {import("./recording.js").Verdict} Verdict */

const MOST_ROWS = 200;
const NO_STREAM = "Stream something first: here its faults will be listed.";
const NO_FAULT = "No fault so far: every character arrived whole, or was put together.";

const list = element("fault-list", HTMLOListElement);
const none = element("faults-none", HTMLElement);
const tab = button("tab-faults");
const place = element("fault-place", HTMLElement);
const canvas = element("breaks", HTMLCanvasElement);
const panel = element("faults", HTMLElement);

/** With what a step came. @param {Recording} recording @param {number} step */
function whereIs(recording, step) {
  const { line, event } = recording.step(step);
  return line === undefined ? `event ${event}` : `line ${line}, event ${event}`;
}

/** What happened, in a sentence. @param {Recording} recording @param {Fault} fault */
export function describeFault(recording, { step, kind, verdict, place }) {
  const where = whereIs(recording, step);
  if (verdict) return `${brokenBy(verdict)} (${where}): ${change(place)}${verdict.said}`;
  const damage = recording.damageOf(step);
  if (damage) return `Broken before it reached this page (${where}): ${damage}`;
  return {
    invalid: `These bytes are not UTF-8: broken before they reached this page (${where}).`,
    marked: `The text has a � in it: broken before it reached this page (${where}), or written by the model.`,
    written: `The bytes EF BF BD are a �: written by the model, or broken before they reached this page (${where}).`,
    cut: `The stream ended inside a character (${where}).`,
    judged: "",
  }[kind];
}

/**
 * Who broke it and what it became, without the reason.
 * @param {Recording} recording
 * @param {Fault} fault
 */
export function describePlace(recording, { step, verdict, place }) {
  const where = whereIs(recording, step);
  return `${verdict ? brokenBy(verdict) : WHO.unknown} (${where}). ${change(place)}`.trim();
}

/** Who broke it. @type {Record<import("../src/capture.js").Verdict["who"], string>} */
const WHO = {
  engine: "Broken by the engine",
  proxy: "Broken by a proxy",
  client: "Broken by a client",
  unknown: "Not known by whom",
  nobody: "No fault",
};

/** Who else it may have been. @type {Record<Verdict["less"], string>} */
const OR_ELSE = {
  "": "",
  model: ", unless the model wrote the �",
  recorder: ", or by what recorded it",
  sender: ", by the server, or by what recorded it",
  server: ", or by the server",
  gateway: ", or by a gateway",
  read: ", or by what recorded it",
  reader: ", by the server, by a proxy, or by what recorded it",
  doubt: "",
};

/** Who broke it, as far as its rule knows. @param {Verdict} verdict */
export const brokenBy = ({ who, less }) => WHO[who] + OR_ELSE[less];

/**
 * What a text became, if the right text is known.
 * @param {import("../src/capture.js").BrokenPlace | undefined} place
 */
const change = (place) =>
  !place?.right
    ? ""
    : place.got
      ? `“${short(place.right)}” arrived as “${short(place.got)}”. `
      : `“${short(place.right)}” did not arrive. `;

/**
 * How many places are broken, by anyone; and how many may be. What is wrong in two ways is one
 * place.
 * @param {Recording} recording
 * @returns {[broken: number, inDoubt: number]}
 */
export function countFaults({ verdicts, faults }) {
  if (!verdicts.length) return [faults.length, 0];
  const count = (/** @type {boolean} */ inDoubt) => {
    const seen = new Set();
    let sum = 0;
    for (const { who, less, places, count } of verdicts) {
      if (who === "nobody" || (less === "doubt") !== inDoubt) continue;
      const rows = [...new Set(places.map(({ row }) => row))];
      sum += count - rows.filter((row) => seen.has(row)).length;
      for (const row of rows) seen.add(row);
    }
    return sum;
  };
  return [count(false), count(true)];
}

/** @param {string} text */
function short(text) {
  const letters = [...text];
  return quotable(letters.length > 24 ? `${letters.slice(0, 23).join("")}…` : text);
}

/** What it means that a step begins or ends inside a character. @param {Recording} recording */
export const describeSplit = ({ unit }) =>
  `The ${unit} begins or ends inside a character. That is no fault: detok puts the character together. A decoder of single chunks breaks it.`;

/**
 * The sentence of a mark in the text.
 * @param {Recording} recording
 * @param {number} step  With which it arrived.
 * @param {string} mark  "damage" or "written".
 */
export function nameDamage(recording, step, mark) {
  for (const verdict of recording.verdicts) {
    const place = verdict.places.find(({ row }) => row === step);
    if (place) return describeFault(recording, { step, kind: "judged", verdict, place });
  }
  const listed = recording.faults[recording.faultIndex(step)]?.kind === "marked";
  const kind = mark === "written" ? mark : listed ? "marked" : "invalid";
  return describeFault(recording, { step, kind });
}

/** How many steps one entry of the list names. */
const MOST_NAMED = 12;
let listed = "";
let drawn = "";
/** @type {Recording | undefined} */
let shown;

/** Goes to a position. @type {(position: number) => void} */
let seek;

/** @param {(position: number) => void} chosen  Called when the reader chooses a fault. */
export function onFaultChosen(chosen) {
  seek = chosen;
}

/**
 * Show the faults that have come, on the scrubber and in the list.
 * @param {Recording | undefined} recording
 */
export function showFaults(recording) {
  const [count, inDoubt] = recording ? countFaults(recording) : [0, 0];
  const counts = [count || "", inDoubt ? `${inDoubt} in doubt` : ""].filter(Boolean).join(", ");
  const name = counts ? `Faults (${counts})` : "Faults";
  if (tab.textContent !== name) tab.textContent = name;
  drawMarks(recording);
  if (panel.hidden) {
    listed = "";
    return;
  }
  const key = `${counts} ${recording?.splits.length} ${recording?.ended}`;
  if (listed === key && shown === recording) return;
  // A button that has the focus stays while more comes.
  if (recording && !recording.ended && shown === recording && list.contains(document.activeElement))
    return;
  listed = key;
  shown = recording;
  none.textContent = !recording ? NO_STREAM : recording.verdict || (counts ? "" : NO_FAULT);
  none.hidden = !none.textContent;
  list.replaceChildren(...(recording ? entries(recording) : []));
}

/** @param {Recording} recording */
function entries(recording) {
  const { faults, verdicts, splits } = recording;
  const alone = faults.filter(({ verdict }) => !verdict);
  const made = [
    ...verdicts.map((one) => group(recording, one)),
    ...alone.slice(0, MOST_ROWS).map((fault) => row(recording, fault)),
  ];
  if (alone.length > MOST_ROWS) {
    const more = `… ${alone.length - MOST_ROWS} more: the button Next fault goes through all of them.`;
    made.push(make("li", {}, more));
  }
  if (splits.length) {
    const all = `${splits.length} ${recording.unit}${splits.length === 1 ? " begins or ends" : "s begin or end"}`;
    const said = `${all} inside a character: no fault. detok puts the characters together; a decoder of single chunks breaks them. `;
    made.push(make("li", { className: "no-fault" }, said, ...buttons(recording, splits)));
  }
  return made;
}

/** An entry for all places of a verdict. @param {Recording} recording @param {Verdict} verdict */
function group(recording, verdict) {
  const { count, places, said } = verdict;
  const who = `${brokenBy(verdict)}${count > 1 ? `, ${count} times` : ""}: `;
  const item = make("li", {}, make("b", {}, who), said, " ");
  for (const place of begunPlaces(places).slice(0, MOST_NAMED)) {
    const where = whereIs(recording, place.row);
    item.append(stepButton(recording, place.row), ` (${where}) ${change(place)} `);
  }
  if (count > MOST_NAMED) item.append(`… and ${count - MOST_NAMED} more like these.`);
  return item;
}

/** Buttons that go to steps. @param {Recording} recording @param {number[]} steps */
function buttons(recording, steps) {
  const made = steps.slice(0, MOST_NAMED).flatMap((step) => [stepButton(recording, step), " "]);
  return steps.length > MOST_NAMED ? [...made, `… and ${steps.length - MOST_NAMED} more.`] : made;
}

/** Announce the fault at which the reader is. @param {string} sentence */
export function sayFault(sentence) {
  place.textContent = sentence;
}

/** @param {Recording} recording @param {Fault} fault */
function row(recording, fault) {
  const bytes = make("code", {}, hexOf(recording.bytesOf(fault.step), 16) || "no bytes");
  const said = ` ${describeFault(recording, fault)}`;
  return make("li", {}, stepButton(recording, fault.step), " ", bytes, said);
}

/** A button that goes to a step. @param {Recording} recording @param {number} step */
const stepButton = ({ unit }, step) => makeButton(`${unit} ${step + 1}`, () => seek(step + 1));

/** The size of the canvas. Reading it from the element would force a layout. */
let width = 0;
let height = 0;
/** @type {Recording | undefined} */
let marked;
/**
 * While a stream grows, all marks move a little. They are drawn again after this many milliseconds.
 */
const MARKS_MS = 1000;
let drawnAt = 0;
new ResizeObserver(() => {
  width = canvas.clientWidth;
  height = canvas.clientHeight;
  drawMarks(marked);
}).observe(canvas);

/** @param {Recording | undefined} recording */
function drawMarks(recording) {
  const places = recording?.places ?? [];
  const length = recording?.length ?? 0;
  const key = `${places.length} ${length} ${width}`;
  if ((key === drawn && marked === recording) || !width) return;
  const growing = marked === recording && recording && !recording.ended;
  if (growing && performance.now() < drawnAt + MARKS_MS) return;
  drawnAt = performance.now();
  marked = recording;
  drawn = key;
  const scale = devicePixelRatio;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const context = canvas.getContext("2d");
  if (!context || !length) return;
  context.scale(scale, scale);
  context.fillStyle = getComputedStyle(canvas).color;
  // The middle of the thumb goes from half a thumb to the width less half a thumb.
  const thumb = 16;
  let last = -1;
  for (const step of places) {
    const x = Math.round(thumb / 2 + ((width - thumb) * (step + 1)) / length);
    if (x !== last) context.fillRect(x, 0, 1, height);
    last = x;
  }
}
