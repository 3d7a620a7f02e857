/**
 * The fourth pane: the same stream by a rule that was found in a program. The reader chooses the
 * rule, and sees what it lost, doubled, broke or showed late.
 *
 * In: the recording on the page, and how many of its steps are shown. A long recording is processed
 * in tasks of a few milliseconds, so that the page stays responsive, and painted every part of a
 * second and when all is done.
 */

import { address, element, writeParameter } from "./dom.js";
import { nameDamage } from "./faults.js";
import { TextPane } from "./panes.js";
import { WildMarks } from "./wild-marks.js";
import { WILD_RULES, WildStream } from "./wild-rules.js";

/** @typedef {import("./recording.js").Recording} Recording */
/** @typedef {import("./wild-rules.js").Counts} Counts */

/**
 * The milliseconds that one task works, and those between two paints of a long recording.
 */
const TASK_MS = 8;
const PAINT_MS = 250;
/** How many steps pass between two looks at the clock. */
const STEPS = 64;
const COUNTED = /** @type {const} */ (["lost", "doubled", "broken", "late"]);

const list = element("wild-rule", HTMLSelectElement);
const does = element("wild-does", HTMLElement);
const link = element("wild-link", HTMLAnchorElement);
const tally = element("tally-wild", HTMLElement);

const pane = new TextPane(element("pane-wild", HTMLElement), "wild");
/** While it is hidden, no step is processed: the results would take memory. */
const holder = /** @type {HTMLElement} */ (pane.element.closest(".pane"));
new MutationObserver(workOn).observe(holder, { attributeFilter: ["hidden"] });
/** How many steps are on the page, and when more of them are shown at the earliest. */
let painted = 0;
let paintDue = 0;

/** @type {Recording | undefined} */
let recording;
let position = 0;
/** The rule at work, the text that each step added, its parts, and the counts after it. */
let stream = new WildStream(chosenRule());
/** @type {string[]} */
let pieces = [];
let marks = new WildMarks();
/** @type {import("./recording.js").Damage[][]} */
let parts = [];
/** @type {Counts[]} */
let counts = [];
/** @type {ReturnType<typeof setTimeout> | undefined} */
let later;

function chosenRule() {
  const [first] = WILD_RULES;
  const rule = WILD_RULES.find(({ id }) => id === list.value) ?? first;
  if (!rule) throw new Error("There are no rules.");
  return rule;
}

/** Begin with the chosen rule at the first step. */
function restart() {
  const rule = chosenRule();
  does.textContent = rule.does;
  link.textContent = rule.where;
  link.href = rule.link;
  stream = new WildStream(rule);
  pieces = [];
  parts = [];
  marks = new WildMarks();
  counts = [];
  pane.clear();
  painted = 0;
}

/** Show the first `to` steps of a recording. @param {Recording} shown @param {number} to */
export function paintWild(shown, to) {
  if (shown !== recording) {
    recording = shown;
    restart();
  }
  position = to;
  work();
}

/** Scroll the pane to its end. This forces a layout, so it comes last in a frame. */
export function keepWildEnd() {
  pane.keepEnd();
}

/** Process the steps up to the position, then paint. */
function work() {
  clearTimeout(later);
  if (!recording || holder.hidden) return;
  const begun = performance.now();
  while (pieces.length < position) {
    const until = Math.min(position, pieces.length + STEPS);
    for (let n = pieces.length; n < until; n++) {
      const piece = recording.isEnd(n) ? stream.flush() : stream.push(recording.bytesOf(n));
      pieces.push(piece);
      parts.push(marks.push(recording, n, piece));
      counts.push(stream.counts);
    }
    if (performance.now() - begun > TASK_MS) break;
  }
  const behind = pieces.length < position;
  if (behind) later = setTimeout(workOn);
  if (!behind || begun >= paintDue || position < painted) paint();
}

function workOn() {
  work();
  pane.keepEnd();
}

function paint() {
  paintDue = performance.now() + PAINT_MS;
  const to = Math.min(position, pieces.length);
  if (to > painted) pane.append(pieces.slice(painted, to).join(""), partsOf(painted, to));
  else if (to < painted) pane.truncate(pane.length - pieces.slice(to, painted).join("").length);
  painted = to;
  const counted = counts[to - 1];
  for (const name of COUNTED) {
    const value = tally.querySelector(`[data-count=${name}]`);
    const count = counted?.[name] ?? 0;
    if (!value) continue;
    if (value.textContent !== String(count)) value.textContent = String(count);
    value.classList.toggle("bad", count > 0);
  }
}

/** The marks of some steps, with their names. @param {number} from @param {number} to */
function partsOf(from, to) {
  const shown = /** @type {Recording} */ (recording);
  return parts
    .slice(from, to)
    .flatMap((some) =>
      some.map(({ step, ...part }) => ({ ...part, name: nameDamage(shown, step, part.kind) })),
    );
}

list.append(...WILD_RULES.map(({ id, name }) => new Option(name, id)));
const wanted = address.get("rule");
if (WILD_RULES.some(({ id }) => id === wanted)) list.value = wanted ?? "";
list.addEventListener("change", () => {
  writeParameter("rule", list.value);
  restart();
  workOn();
});
restart();
