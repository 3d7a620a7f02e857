/**
 * The faults of a stream: the list with the cause and the bytes of each, the marks on the scrubber,
 * and the button that goes from one to the next.
 */

import { button, element } from "./dom.js";
import { hexOf } from "./recording.js";

/** @typedef {import("./recording.js").Recording} Recording */
/** @typedef {import("./recording.js").Fault} Fault */

const MOST_ROWS = 200;

const list = element("fault-list", HTMLOListElement);
const none = element("faults-none", HTMLElement);
const tab = button("tab-faults");
const place = element("fault-place", HTMLElement);
const canvas = element("breaks", HTMLCanvasElement);
const panel = element("faults", HTMLElement);

/** What happened, in a sentence. @param {Recording} recording @param {Fault} fault */
export function describeFault(recording, { step, kind }) {
  const { unit } = recording;
  const { line, event } = recording.step(step);
  const where = line === undefined ? `event ${event}` : `line ${line}, event ${event}`;
  const damage = recording.damageOf(step);
  if (damage) return `Broken before it reached this page (${where}): ${damage}`;
  return {
    split: `The ${unit} begins or ends inside a character. detok puts the character together; a decoder of single chunks breaks it.`,
    invalid: `These bytes are not UTF-8: broken before they reached this page (${where}).`,
    marked: `The text has a � in it: broken before it reached this page (${where}), or written by the model.`,
    written: `The bytes EF BF BD are a �: written by the model, or broken before they reached this page (${where}).`,
    cut: `The stream ended inside a character (${where}).`,
  }[kind];
}

/**
 * What a mark in the text says.
 * @param {Recording} recording
 * @param {number} step  With which it arrived.
 * @param {string} mark  "damage" or "written".
 */
export function nameDamage(recording, step, mark) {
  const listed = recording.faults[recording.nextFault(step)]?.kind === "marked";
  const kind = mark === "written" ? mark : listed ? "marked" : "invalid";
  return describeFault(recording, { step, kind });
}

let listed = 0;
let drawn = "";
/** @type {Recording | undefined} */
let shown;

/** @param {(position: number) => void} seek */
export function onFaultChosen(seek) {
  list.addEventListener("click", ({ target }) => {
    const row = target instanceof Element ? target.closest("[data-step]") : null;
    if (row instanceof HTMLElement) seek(Number(row.dataset.step) + 1);
  });
}

/**
 * Show the faults that have come, on the scrubber and in the list.
 * @param {Recording | undefined} recording
 */
export function showFaults(recording) {
  const count = recording?.faults.length ?? 0;
  const name = count ? `Faults (${count})` : "Faults";
  if (tab.textContent !== name) tab.textContent = name;
  drawMarks(recording);
  if (panel.hidden) {
    listed = -1;
    return;
  }
  if (listed === count && shown === recording) return;
  listed = count;
  shown = recording;
  none.hidden = count > 0;
  if (!recording) return list.replaceChildren();
  list.replaceChildren(
    ...recording.faults.slice(0, MOST_ROWS).map((fault) => row(recording, fault)),
  );
  if (count > MOST_ROWS) {
    const more = document.createElement("li");
    more.textContent = `… ${count - MOST_ROWS} more: the button Next fault goes through all of them.`;
    list.append(more);
  }
}

/** Announce the fault at which the reader is. @param {string} sentence */
export function sayFault(sentence) {
  place.textContent = sentence;
}

/** @param {Recording} recording @param {Fault} fault */
function row(recording, fault) {
  const item = document.createElement("li");
  const go = document.createElement("button");
  go.type = "button";
  go.dataset.step = String(fault.step);
  go.textContent = `${recording.unit} ${fault.step + 1}`;
  const bytes = document.createElement("code");
  bytes.textContent = hexOf(recording.bytesOf(fault.step), 16) || "no bytes";
  item.append(go, " ", bytes, ` ${describeFault(recording, fault)}`);
  return item;
}

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
  const faults = recording?.faults ?? [];
  const length = recording?.length ?? 0;
  const key = `${faults.length} ${length} ${width}`;
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
  for (const { step } of faults) {
    const x = Math.round(thumb / 2 + ((width - thumb) * (step + 1)) / length);
    if (x !== last) context.fillRect(x, 0, 1, height);
    last = x;
  }
}
