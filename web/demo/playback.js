/**
 * Playback: the recording, the reader's position in it, and the elements that show that position:
 * panes, held bytes, counters, list of tokens and transport.
 *
 * In: recordings, finished or still growing, and the reader's buttons and keys. player.js moves the
 * playhead.
 */

import { namesOf } from "./characters.js";
import { button, element } from "./dom.js";
import {
  describeFault,
  describeSplit,
  nameDamage,
  onFaultChosen,
  sayFault,
  showFaults,
} from "./faults.js";
import { Gauges } from "./gauges.js";
import { showHold } from "./hold.js";
import { sayStatus } from "./notices.js";
import { TextPane } from "./panes.js";
import { Player } from "./player.js";
import { PANES } from "./recording.js";
import { onTab } from "./tabs.js";
import { describeStep, Timeline } from "./timeline.js";
import { drawTimes } from "./times.js";
import { keepWildEnd, paintWild } from "./wild-pane.js";

/** @typedef {import("./recording.js").Pane} Pane */
/** @typedef {import("./recording.js").Recording} Recording */

/**
 * Milliseconds between two changes while text moves: of the counters; and of the transport and the
 * fourth pane.
 */
const GAUGES_MS = 290;
const TRANSPORT_MS = 190;

const transport = element("transport", HTMLElement);
const pauseButton = button("pause");
const catchUp = button("catch-up");
const scrub = element("scrub", HTMLInputElement);
const position = element("position", HTMLElement);
const speed = element("speed", HTMLSelectElement);
const details = element("token-details", HTMLElement);

const panes = { held: makePane("held"), naive: makePane("naive"), stream: makePane("stream") };
export const gauges = new Gauges();
const timeline = new Timeline(element("timeline", HTMLElement), { seek, point });
const player = new Player(panes, timeline, { nameDamage, onPaint, onWritten: keepWildEnd });
let gaugesDue = 0;
let transportDue = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let left;
/** @type {(() => void) | undefined} */
let onEnd;
/** When each step was painted, for the lanes of time. @type {Float64Array} */
let painted = new Float64Array(0);

/** @param {Pane} name */
function makePane(name) {
  return new TextPane(element(`pane-${name}`, HTMLElement), name);
}

/**
 * Show another recording from its first step.
 * @param {Recording} recording
 * @param {"live" | "playing"} mode  Follow it as it grows, or play it.
 * @param {{lang?: string, onEnd?: () => void}} [options]  The language of the text. `onEnd` is
 *   called once after the end of the recording: when its last step is on the page, or at once if
 *   the reader does not follow it live.
 */
export function show(recording, mode, options = {}) {
  gauges.clear();
  sayFault("");
  painted = new Float64Array(0);
  onEnd = options.onEnd;
  for (const pane of Object.values(panes)) pane.element.lang = options.lang ?? "";
  player.load(recording, mode);
  transportDue = 0;
  showTransport();
  redrawTimes();
}

/** Draw the times of the shown recording, if they are on the page. */
function redrawTimes() {
  if (!element("times", HTMLElement).hidden) void drawTimes(player.recording, painted);
}

// The canvas has the colours of the moment in which it was drawn.
for (const colours of ["(prefers-color-scheme: dark)", "(forced-colors: active)"])
  matchMedia(colours).addEventListener("change", redrawTimes);

/** The recording has grown: paint in the next frame. */
export const wake = () => player.wake();

/** @returns {Recording | undefined} */
export function shownRecording() {
  return player.recording;
}

/** Show or hide the transport. @param {boolean} shown */
export function showPlayback(shown) {
  transport.hidden = !shown;
}

/**
 * How many characters the recording has, as "1 character": code points, because not every language
 * has spaces between words. The panes may not show all of them yet.
 */
export function countedCharacters() {
  const { recording } = player;
  const count = [...(recording?.tracks.held.text(0, recording.length) ?? "")].length;
  return `${count} ${count === 1 ? "character" : "characters"}`;
}

/** Play this many tokens a second; 0: as they came. @param {number} tokens */
export function setSpeed(tokens) {
  if (![...speed.options].some(({ value }) => value === String(tokens)))
    speed.append(new Option(`${tokens} tokens / s`, String(tokens)));
  speed.value = String(tokens);
  player.setSpeed(tokens);
}

/** @param {{from: number, to: number}} paintedSteps */
function onPaint({ from, to }) {
  const { recording } = player;
  if (!recording) return;
  const live = player.mode === "live";
  // A recorded stream did not arrive now: it has no beginning by this clock.
  if (live && to > from && recording.begun) measurePaint(recording, from, to);
  showHold(recording.heldBytes(to), recording.heldText(to), recording.stop);
  const over = recording.ended && (player.atEnd || !live);
  const settled = to === from || over || player.mode === "paused";
  if (settled || performance.now() >= gaugesDue) {
    gaugesDue = performance.now() + GAUGES_MS;
    gauges.show(recording, player.position);
    showFaults(recording);
  }
  if (settled || to - from <= 1 || performance.now() >= transportDue) {
    transportDue = performance.now() + TRANSPORT_MS;
    showTransport();
    paintWild(recording, to);
  } else {
    // If nothing more comes, one more frame draws the parts that this one skipped.
    left ??= setTimeout(() => {
      left = undefined;
      player.wake();
    }, TRANSPORT_MS);
  }
  if (player.mode === "paused" || over) showDetails(player.position - 1);
  else showDetails(-1);
  if (!over) return;
  if (onEnd) redrawTimes();
  const ended = onEnd;
  onEnd = undefined;
  ended?.();
}

/**
 * The steps that frames have painted, and a message whose task runs after the frame's rendering.
 * @type {{recording: Recording, from: number, to: number}[]}
 */
const frames = [];
const afterFrame = new MessageChannel();
afterFrame.port1.onmessage = () => {
  const frame = frames.shift();
  if (!frame || frame.recording !== player.recording) return;
  const { recording, from, to } = frame;
  const now = performance.timeOrigin + performance.now() - (recording.begun ?? 0);
  if (to > painted.length) {
    const larger = new Float64Array(Math.max(1024, 2 * to));
    larger.set(painted);
    painted = larger;
  }
  painted.fill(now, from, to);
  for (let n = from; n < to; n++)
    if (recording.tracks.held.pieces[n] && !recording.isEnd(n))
      gauges.addPaint(now - recording.timeOf(n));
};

/**
 * Note when the steps of this frame were painted.
 * @param {Recording} recording
 * @param {number} from
 * @param {number} to
 */
function measurePaint(recording, from, to) {
  frames.push({ recording, from, to });
  afterFrame.port2.postMessage(null);
}

/** Whether text is moving: live, or played. */
function isMoving() {
  return player.mode === "playing" || (player.mode === "live" && isGrowing());
}

function isGrowing() {
  return player.recording !== undefined && !player.recording.ended;
}

function showTransport() {
  const { length, recording, behind } = player;
  if (scrub.max !== String(length)) scrub.max = String(length);
  if (scrub.value !== String(player.position)) scrub.value = String(player.position);
  const late = isGrowing() && player.mode !== "live" && behind > 0;
  write(position, `${player.position} / ${length}${late ? `, ${behind} behind` : ""}`);
  write(pauseButton, isMoving() ? "Pause" : "Play");
  pauseButton.disabled = !length && (recording?.ended ?? true);
  if (!late && document.activeElement === catchUp) pauseButton.focus({ preventScroll: true });
  catchUp.hidden = !late;
  const { dataset } = document.documentElement;
  if (dataset.playback !== player.mode) dataset.playback = player.mode;
}

/** @param {HTMLElement} where @param {string} text */
function write(where, text) {
  if (where.textContent !== text) where.textContent = text;
}

// ---------------------------------------------------------------- token ↔ characters

/**
 * Describe a step, and mark its characters in every pane.
 * @param {number} step  -1 for none.
 */
function showDetails(step) {
  const { recording } = player;
  const known = recording !== undefined && step >= 0 && step < recording.length;
  const names = known ? namesOf(recording.tracks.held.text(step, step + 1)) : [];
  write(details, known ? [describeStep(recording, step), ...names].join(" · ") : "");
  for (const name of PANES) {
    const track = recording?.tracks[name];
    const from = known && step < player.position ? (track?.lengthAt(step) ?? 0) : 0;
    panes[name].link(from, known && step < player.position ? (track?.lengthAt(step + 1) ?? 0) : 0);
  }
}

/** The reader points at a step; -1: at none. @param {number} step */
function point(step) {
  timeline.link(step);
  showDetails(step < 0 && player.mode === "paused" ? player.position - 1 : step);
}

for (const name of PANES) {
  const pane = panes[name];
  let due = false;
  pane.element.addEventListener("pointermove", ({ clientX, clientY }) => {
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      const offset = pane.offsetAt(clientX, clientY);
      point(offset < 0 ? -1 : (player.recording?.tracks[name].stepAt(offset) ?? -1));
    });
  });
  pane.element.addEventListener("pointerleave", () => point(-1));
}

// ---------------------------------------------------------------- what the reader does

/** @param {number} to */
function seek(to) {
  player.seek(to);
  revealSoon(to);
}

/** After the paint of a place in the text, scroll it into view. @param {number} to */
function revealSoon(to) {
  requestAnimationFrame(() => {
    const { recording } = player;
    if (!recording) return;
    for (const name of PANES) panes[name].reveal(recording.tracks[name].lengthAt(to));
  });
}

function togglePause() {
  if (isMoving()) player.pause();
  else player.play();
}

function seekFault() {
  const { recording } = player;
  const places = recording?.places ?? [];
  const count = places.length;
  if (!recording || !count) {
    sayFault("no fault");
    return sayStatus("There is no fault in this stream.");
  }
  const from = player.target ?? player.position;
  const found = places.findIndex((step) => step >= from);
  const index = found < 0 ? 0 : found;
  const step = /** @type {number} */ (places[index]);
  const wrapped = found < 0 ? ", from the beginning again" : "";
  const [name, fault] = [recording.faults.length ? "fault" : "split", recording.faults[index]];
  seek(step + 1);
  sayFault(`${name} ${index + 1} of ${count}${wrapped}`);
  const said = fault ? describeFault(recording, fault) : describeSplit(recording);
  const title = `${name[0]?.toUpperCase()}${name.slice(1)}`;
  sayStatus(`${title} ${index + 1} of ${count}${wrapped}. ${said}`);
}

const toStart = () => player.seek(0);
const stepBack = () => player.step(-1);
const stepOn = () => player.step(1);
export const toEnd = () => player.follow();
/** Do not call `onEnd` for the shown recording. */
export const leave = () => (onEnd = undefined);

pauseButton.addEventListener("click", togglePause);
button("to-start").addEventListener("click", toStart);
button("step-back").addEventListener("click", stepBack);
button("step").addEventListener("click", stepOn);
button("to-end").addEventListener("click", toEnd);
catchUp.addEventListener("click", toEnd);
button("next-fault").addEventListener("click", seekFault);
scrub.addEventListener("input", () => player.seek(Number(scrub.value)));
speed.addEventListener("change", () => player.setSpeed(Number(speed.value)));
onFaultChosen(seek);
onTab((id) => {
  showFaults(player.recording);
  if (id === "times") void drawTimes(player.recording, painted);
});

/** @type {Record<string, () => void>} */
const keys = {
  " ": togglePause,
  ArrowLeft: stepBack,
  ArrowRight: stepOn,
  ",": stepBack,
  ".": stepOn,
  Home: toStart,
  End: toEnd,
  f: seekFault,
};
/** What writes a character is a key of the page only where the stream has the focus. */
const IN_STREAM = [",", ".", "f"];
/** With Shift they extend a selection. */
const EXTENDING = ["ArrowLeft", "ArrowRight", "Home", "End"];
/**
 * An element keeps the keys that it uses: a field all, a button the space bar, a list the arrows.
 */
const OWN_KEYS = [
  { keys: Object.keys(keys), selector: "input[type=text], select, textarea" },
  { keys: [" "], selector: "button, summary, input, a" },
  { keys: EXTENDING, selector: "input, [role=tab]" },
];

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const act = keys[key];
  const { target } = event;
  if (!act || (event.shiftKey && EXTENDING.includes(key))) return;
  const at = (/** @type {string} */ selector) =>
    target instanceof Element && target.closest(selector) !== null;
  if (IN_STREAM.includes(key) && !at(".stage")) return;
  if (OWN_KEYS.some((own) => own.keys.includes(key) && at(own.selector))) return;
  event.preventDefault();
  act();
});

gauges.show(undefined, 0);
showTransport();
