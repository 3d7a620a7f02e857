/**
 * Playback: the recording on the page, where in it the reader is, and all that shows that place: panes, hold buffer,
 * counters, timeline and transport.
 *
 * In: recordings, finished or still growing. The reader moves by buttons and keys; player.js decides what that means.
 */

import { button, element } from "./dom.js";
import { Gauges } from "./gauges.js";
import { showHold } from "./hold.js";
import { sayStatus } from "./notices.js";
import { TextPane } from "./panes.js";
import { Player } from "./player.js";
import { Timeline } from "./timeline.js";
import { paintWild } from "./wild-pane.js";

/** @typedef {import("./recording.js").Pane} Pane */
/** @typedef {import("./recording.js").Recording} Recording */

/** While a stream runs, the counters change at most this often. */
const GAUGES_MS = 100;

const pauseButton = button("pause");
const scrub = element("scrub", HTMLInputElement);
const position = element("position", HTMLOutputElement);
const speed = element("speed", HTMLSelectElement);

const panes = { held: makePane("held"), naive: makePane("naive"), stream: makePane("stream") };
const gauges = new Gauges(panes);
const timeline = new Timeline(element("timeline", HTMLElement), (step) => player.seek(step));
const player = new Player(panes, timeline, onPaint);
let gaugesDue = 0;
/** @type {(() => void) | undefined} */
let onEnd;

/** @param {Pane} name */
function makePane(name) {
  return new TextPane(element(`pane-${name}`, HTMLElement), `broken-${name}`);
}

/**
 * Show another recording from its first step.
 * @param {Recording} recording
 * @param {"live" | "playing"} mode  Follow it as it grows, or play it at the recorded pace.
 * @param {{lang?: string, onEnd?: () => void}} [options]  The language of the text. `onEnd` is called once, when the
 *   recording has ended and its last step is on the page, or the reader is at another place of it.
 */
export function show(recording, mode, options = {}) {
  gauges.clear();
  onEnd = options.onEnd;
  for (const pane of Object.values(panes)) pane.element.lang = options.lang ?? "";
  player.load(recording, mode);
  showTransport();
}

/** The recording has grown: paint in the next frame. */
export function wake() {
  player.wake();
}

/** @returns {Recording | undefined} */
export function shownRecording() {
  return player.recording;
}

export function countWords() {
  return panes.held.element.textContent?.trim().split(/\s+/).filter(Boolean).length ?? 0;
}

/** @param {{from: number, to: number}} painted */
function onPaint({ from, to }) {
  const { recording } = player;
  if (!recording) return;
  paintWild(recording, to);
  const live = player.mode === "live";
  if (live && to > from) measurePaint(recording, from, to);
  const last = recording.steps[to - 1];
  showHold(last?.heldBytes ?? new Uint8Array(0), last?.heldText ?? "");
  gauges.addSteps(recording, from, to);
  const over = recording.ended && (player.atEnd || !live);
  if (to === from || over || !live || performance.now() >= gaugesDue) {
    gaugesDue = performance.now() + GAUGES_MS;
    gauges.show(recording, player.position);
    showTransport();
  }
  if (!over) return;
  const ended = onEnd;
  onEnd = undefined;
  ended?.();
}

/** Note how long the steps of this frame took from their arrival until they were painted. @param {Recording} recording @param {number} from @param {number} to */
function measurePaint(recording, from, to) {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    // This task comes after the frame's rendering.
    const now = performance.timeOrigin + performance.now() - (recording.begun ?? 0);
    for (const { at, end, text } of recording.steps.slice(from, to))
      if (text.held && !end) gauges.addPaint(now - at);
    port1.close();
  };
  port2.postMessage(null);
}

/** Whether text comes by itself: live, or played. */
function isMoving() {
  const growing = player.recording !== undefined && !player.recording.ended;
  return player.mode === "playing" || (player.mode === "live" && growing);
}

function showTransport() {
  const { length, recording } = player;
  scrub.max = String(length);
  scrub.value = String(player.position);
  position.textContent = `${player.position} / ${length}`;
  pauseButton.textContent = isMoving() ? "Pause" : "Play";
  pauseButton.disabled = !length && (recording?.ended ?? true);
  document.documentElement.dataset.playback = player.mode;
}

// ---------------------------------------------------------------- what the reader does

function togglePause() {
  if (isMoving()) player.pause();
  else player.play();
}

function seekFault() {
  const at = player.recording?.nextFault(player.position) ?? -1;
  if (at >= 0) player.seek(at + 1);
  else sayStatus("No later token was broken.");
}

const toStart = () => player.seek(0);
const stepBack = () => player.step(-1);
const stepOn = () => player.step(1);
const toEnd = () => player.follow();

pauseButton.addEventListener("click", togglePause);
button("to-start").addEventListener("click", toStart);
button("step-back").addEventListener("click", stepBack);
button("step").addEventListener("click", stepOn);
button("to-end").addEventListener("click", toEnd);
button("next-fault").addEventListener("click", seekFault);
scrub.addEventListener("input", () => player.seek(Number(scrub.value)));
speed.addEventListener("change", () => player.setSpeed(Number(speed.value)));

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

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  // A field, button or scrolling text that has the focus keeps its keys.
  if (
    event.target instanceof Element &&
    event.target.closest("input, select, textarea, button, summary, [role=log]")
  )
    return;
  const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

gauges.show(undefined, 0);
showTransport();
