/**
 * The lanes of time, drawn when the reader asks for them: for each token how long after the one
 * before it came, how long detok decoded it, how long its text waited for later tokens, and how
 * long the page took to paint it.
 *
 * uPlot draws them. It is loaded from this bridge when the tab is opened for the first time.
 */

import { element, make } from "./dom.js";

/** @typedef {import("./recording.js").Recording} Recording */
/** @typedef {import("uplot")} Plot */

const LIBRARY = new URL("../examples/built/uplot.js", import.meta.url).href;
const STYLE = new URL("../examples/built/uplot.css", import.meta.url).href;
/** More points than pixels show nothing more. */
const MOST_POINTS = 20_000;

const panel = element("times", HTMLElement);
/** @type {Promise<typeof import("uplot")> | undefined} */
let library;
/** @type {Plot | undefined} */
let plot;
/** How often times were asked for: while the library loads, another stream may be opened. */
let asked = 0;

/** Each has a shape, because colours can be forced: its corners around a point, in half sizes. */
const LANES = [
  { label: "since the one before", colour: "--peer", sign: "■", corners: "-2,-2 2,-2 2,2 -2,2" },
  { label: "decoding", colour: "--ours", sign: "▲", corners: "0,-3 3,2 -3,2" },
  { label: "waiting for later tokens", colour: "--wait", sign: "◆", corners: "0,-3 3,0 0,3 -3,0" },
  { label: "arrival to painted", colour: "--wrong", sign: "▬", corners: "-4,-1 4,-1 4,1 -4,1" },
];

/**
 * @param {Recording | undefined} recording
 * @param {Float64Array} painted  When each step was painted: milliseconds since the stream began.
 */
export async function drawTimes(recording, painted) {
  const mine = ++asked;
  if (recording && !recording.timed && !recording.steps)
    return say("This file does not say when each chunk came.");
  if (recording?.steps)
    return say(
      `The times in this file are ${recording.clock}: how long a ${recording.unit} took is not known.`,
    );
  if (recording && !recording.ended && recording.count < 2)
    return say("When this stream has ended, its times will be drawn here.");
  const lanes = recording && lanesOf(recording, painted);
  if (!recording || !lanes || lanes.count < 2)
    return say("Stream something first: here its times will be drawn.");
  try {
    library ??= load();
    const uPlot = await library;
    if (mine !== asked) return;
    const style = getComputedStyle(panel);
    plot?.destroy();
    const { every, data } = drawnOf(lanes);
    panel.replaceChildren(summary(lanes.values, recording.unit, every));
    const ink = style.getPropertyValue("--soft") || style.color;
    plot = new uPlot(
      {
        width: panel.clientWidth - 24,
        height: Math.max(90, panel.clientHeight - 40),
        legend: { show: false },
        scales: { x: { time: false }, y: { distr: 3 } },
        axes: [
          { stroke: style.color, grid: { stroke: ink, width: 0.2 }, size: 24 },
          {
            stroke: style.color,
            grid: { stroke: ink, width: 0.2 },
            size: 64,
            values: milliseconds,
          },
        ],
        series: [
          { label: recording.unit },
          ...LANES.map(({ label, colour, corners }) => {
            const stroke = resolved(colour);
            return {
              label,
              stroke,
              width: 1,
              points: { show: true, size: 3, fill: stroke, paths: marksOf(corners) },
              paths: () => null,
            };
          }),
        ],
      },
      data,
      panel,
    );
    plot.root.querySelector("canvas")?.setAttribute("aria-hidden", "true");
  } catch {
    library = undefined;
    if (mine !== asked) return;
    say("The plotting library could not be loaded from this bridge, so the times are not drawn.");
  }
}

/** @param {string} sentence */
function say(sentence) {
  plot?.destroy();
  plot = undefined;
  panel.replaceChildren(make("p", {}, sentence));
}

async function load() {
  document.head.append(make("link", { rel: "stylesheet", href: STYLE }));
  return (await import(LIBRARY)).default;
}

/** @param {Plot} _ @param {number[]} ticks */
const milliseconds = (_, ticks) => ticks.map((tick) => (tick ? `${tick} ms` : ""));

/**
 * Draws the points of a lane in its shape.
 * @param {string} corners
 */
function marksOf(corners) {
  const places = corners.split(" ").map((corner) => corner.split(",").map(Number));
  /** @param {Plot} plot @param {number} lane @param {number} first @param {number} last */
  return (plot, lane, first, last) => {
    const path = new Path2D();
    for (let n = first; n <= last; n++) {
      const value = plot.data[lane]?.[n];
      if (value === null || value === undefined) continue;
      const x = plot.valToPos(plot.data[0][n] ?? 0, "x", true);
      const y = plot.valToPos(value, "y", true);
      for (const [i, [dx = 0, dy = 0]] of places.entries())
        path[i ? "lineTo" : "moveTo"](x + dx * devicePixelRatio, y + dy * devicePixelRatio);
      path.closePath();
    }
    return { stroke: path, fill: path, clip: null, flags: 3 };
  };
}

/** A colour of the palette, as the canvas takes it. @param {string} name */
function resolved(name) {
  const probe = make("span");
  probe.style.color = `var(${name})`;
  panel.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/**
 * The times of every step, lane by lane.
 * @param {Recording} recording
 * @param {Float64Array} painted
 */
export function lanesOf(recording, painted) {
  const { count } = recording;
  /** @type {(number | null)[][]} */
  const values = LANES.map(() => Array(count).fill(null));
  const [gaps, decoding, waiting, painting] = /** @type {[any[], any[], any[], any[]]} */ (values);
  for (let n = 0, open = 0; n < count; n++) {
    const at = recording.timeOf(n);
    if (n) gaps[n] = positive(at - recording.timeOf(n - 1));
    decoding[n] = positive(recording.decodingOf(n));
    if (painted[n]) painting[n] = positive((painted[n] ?? 0) - at);
    const held = recording.heldBytes(n + 1).length > 0 || recording.heldText(n + 1) !== "";
    if (held) continue;
    for (; open < n; open++) waiting[open] = positive(at - recording.timeOf(open));
    open = n + 1;
  }
  return { count, values };
}

/**
 * What is drawn of the lanes: of every so many steps the longest time of each lane.
 * @param {{count: number, values: (number | null)[][]}} lanes
 */
export function drawnOf({ count, values }) {
  const every = Math.ceil(count / MOST_POINTS);
  const steps = Array.from({ length: Math.ceil(count / every) }, (_, n) => n * every + 1);
  const longest = values.map((lane) =>
    steps.map((step) => {
      const some = lane.slice(step - 1, step - 1 + every);
      return some.reduce((most, one) => ((one ?? 0) > (most ?? 0) ? one : most), null);
    }),
  );
  return { every, data: /** @type {import("uplot").AlignedData} */ ([steps, ...longest]) };
}

/** A logarithmic scale has no place for 0. @param {number} value */
const positive = (value) => (value > 0 ? value : null);

/**
 * The medians, each in the colour of its lane. Most chunks of a burst come 0 ms after the one
 * before, and most tokens wait 0 ms.
 * @param {(number | null)[][]} values
 * @param {string} unit
 * @param {number} every  Of how many steps one is drawn.
 */
function summary(values, unit, every) {
  const line = make("p", {}, `Medians of what took longer than 0 ms, for each ${unit}: `);
  LANES.forEach(({ label, colour, sign }, n) => {
    const known = (values[n] ?? []).filter((value) => value !== null).sort((a, b) => a - b);
    const middle = known[known.length >> 1];
    const time = middle === undefined ? "–" : `${short(middle)} ms`;
    const lane = make("b", {}, `${sign} ${label} ${time}`);
    lane.style.color = `var(${colour})`;
    line.append(lane, " ");
  });
  if (every > 1) line.append(`Of every ${every} ${unit}s, the longest times are drawn.`);
  return line;
}

/** @param {number} value */
const short = (value) => (value < 1 ? value.toPrecision(2) : value.toFixed(value < 10 ? 1 : 0));
