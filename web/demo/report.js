/**
 * Copy report: a stream as Markdown for a bug tracker, with versions, the text of each pane around
 * the first fault, the bytes of the faulty tokens, and for a small capture a link that opens it.
 * In: a recording. Out: text in the clipboard.
 */

import { captureText } from "./captures.js";
import { visible } from "./characters.js";
import { element } from "./dom.js";
import { brokenBy, countFaults, describeFault, describePlace } from "./faults.js";
import { hexOf, PANES } from "./recording.js";
import { runtimeName } from "./runtime.js";

/** @typedef {import("./recording.js").Recording} Recording */
/** @typedef {import("./captures.js").Described} Described */

const MOST_FAULTS = 20;
const AROUND = 120;
/** A longer fragment makes a link that programs cut. */
const MOST_LINK = 6000;
const FRAGMENT = "#capture=";
const TOO_LARGE =
  "The stream is too large for a link. Attach the file that Save writes: any detok page opens it.";
const ELSEWHERE =
  "Any other detok page opens it as well: paste this report there, or put the link's `#capture=…` behind the address.";
const TITLE = "### Stream, as seen by detok";

/** What an element of the page says. @param {string} id */
const shown = (id) => element(id, HTMLElement).textContent;

/** @param {Recording} recording @param {Described} described */
export async function reportText(recording, described) {
  const { faults, unit, notRead } = recording;
  /** @param {import("./recording.js").Verdict} verdict */
  const line = (verdict) =>
    `- ${brokenBy(verdict)}, ${verdict.count} ${verdict.count === 1 ? "place" : "places"} (rule \`${verdict.rule}\`): ${verdict.said}`;
  const end = described.end;
  const [first] = faults;
  const [count, inDoubt] = countFaults(recording);
  const picture = PANES.map((name) => {
    const track = recording.tracks[name];
    const middle = first ? track.lengthAt(first.step) : 0;
    const text = track.text(0, recording.length);
    const [from, to] = around(text, middle);
    const apart = name === "held" ? recording.channels : [];
    return `${{ held: "detok       ", naive: "chunk alone ", stream: "stream: true" }[name]} ${picked(text, from, to, apart)}`;
  });
  // A block of code ends at as many backticks as it begins with.
  let fence = "```";
  while (picture.some((line) => line.includes(fence))) fence += "`";
  // A trace with a dot for each byte beyond ASCII.
  const isBlind = !count && /cannot be seen/.test(recording.verdict ?? "");
  const lines = [
    TITLE,
    "",
    ...(recording.verdict
      ? [`**${recording.verdict}**`, "", ...recording.verdicts.map(line), ""]
      : []),
    `- Source: ${shown("source-name")}; engine: ${shown("engine-name")}; device: ${shown("engine-device")}; arrives as: ${shown("engine-fidelity")}; format: ${recording.format ?? "none"}`,
    `- detok: ${runtimeName()}; browser: ${navigator.userAgent}`,
    `- ${recording.count} ${unit}${recording.count === 1 ? "" : "s"}${timeOf(recording, described)}${recording.stop.length ? `; stop strings: ${recording.stop.map((one) => JSON.stringify(one)).join(", ")}` : ""}`,
    `- Ended: ${recording.ended ? end?.message || [end?.reason, end?.note].filter(Boolean).join(", ") || "no reason given" : "not yet when this was copied"}`,
    `- Faults: ${isBlind ? "not known" : count}${inDoubt ? `; not known whether there are, in ${inDoubt} place${inDoubt === 1 ? "" : "s"}` : ""}${describeSplits(recording)}`,
    ...says("By the server’s count", described.header.source?.usage),
    ...says("By the HAR", described.header.source?.timings),
    ...(notRead ? [`- ${notRead}`] : []),
    "",
    first
      ? `The text around the first ${first.verdict?.less === "doubt" ? "place in doubt" : "fault"} (${unit} ${first.step + 1}):`
      : `The ${recording.tracks.held.text(0, recording.length).length > AROUND ? "beginning of the " : ""}text:`,
    "",
    `${fence}text`,
    ...picture,
    fence,
  ];
  if (faults.length) lines.push("", ...tableOf(recording));
  const link = await linkOf(await captureText(recording, described));
  if (link) lines.push("", ELSEWHERE, "", `[Open this stream in detok](${link})`);
  else lines.push("", TOO_LARGE);
  return `${lines.join("\n")}\n`;
}

/** The faults, as lines of a Markdown table. @param {Recording} recording */
export function tableOf(recording) {
  const { faults, unit } = recording;
  const bytes = unit === "chunk" ? "its text in UTF-8" : "bytes";
  const lines = [`| ${unit} | id | ${bytes} | what happened |`, "|---|---|---|---|"];
  for (const fault of faults.slice(0, MOST_FAULTS)) {
    const { id, bytes } = recording.step(fault.step);
    const said = (fault.verdict ? describePlace : describeFault)(recording, fault);
    lines.push(`| ${fault.step + 1} | ${id ?? "–"} | \`${hexOf(bytes, 16)}\` | ${cellOf(said)} |`);
  }
  if (faults.length > MOST_FAULTS) lines.push("", `… ${faults.length - MOST_FAULTS} more.`);
  return lines;
}

/** A text that neither "|" nor a line end takes out of its cell. @param {string} text */
const cellOf = (text) => text.replace(/[\r\n]/g, visible).replace(/[\\|]/g, "\\$&");

/**
 * The title and the description of a stream, for a test.
 * @param {Recording} recording
 */
export function aboutStream({ count, unit, splits, verdict }) {
  const title = `A stream of ${shown("engine-name")}: ${count} ${unit}s, ${splits.length} of which begin or end inside a character.`;
  return { title, about: `${verdict || "Recorded live."} Recorded with detok ${runtimeName()}.` };
}

/**
 * A line of the report, if the file says so.
 * @param {string} who
 * @param {unknown} what
 */
const says = (who, what) => (typeof what === "string" && what ? [`- ${who}: ${what}`] : []);

/** @param {Recording} recording */
function describeSplits({ splits: { length }, unit }) {
  if (!length) return "";
  const steps = length === 1 ? `1 ${unit} begins or ends` : `${length} ${unit}s begin or end`;
  return `; ${steps} inside a character, which is no fault`;
}

/** @param {Recording} recording @param {Described} described */
function timeOf(recording, { header }) {
  if (!recording.timed && recording.steps) return `, in which the times are ${recording.clock}`;
  if (!recording.timed) return ", when each came is not in this file";
  const clock = header.source?.times;
  const seconds = recording.secondsOf(recording.timeOf(recording.length - 1), 2);
  const coarse = recording.steps ? ` (${recording.clock})` : "";
  if (!clock) return ` in ${seconds} s`;
  const back = header.source?.back;
  if (back)
    return `; the times of its ${clock} go back in line ${back}, so what they span is not known`;
  // The first and the last event may be others than those with text.
  const first = header.source?.since ? "the answer's first event to the" : "its first event to its";
  const done = header.source?.done ? " before [DONE]" : "";
  return `; ${seconds} s from ${first} last${done}, by the times of its ${clock}${coarse}`;
}

/**
 * A part of a text with its invisible characters visible, and reasoning and calls in brackets.
 * @param {string} text
 * @param {number} from
 * @param {number} to
 * @param {Recording["channels"]} channels
 */
function picked(text, from, to, channels) {
  let out = "";
  let at = from;
  for (const { from: first, to: last, channel } of channels) {
    const [begin, end] = [Math.max(first, from), Math.min(last, to)];
    if (begin >= end) continue;
    const inside = visible(text.slice(begin, end));
    out += `${visible(text.slice(at, begin))}[${channel.replace("_", " ")}: ${inside}]`;
    at = end;
  }
  return out + visible(text.slice(at, to));
}

/**
 * Where the characters around a place begin and end. Half of a surrogate pair would be a � that no
 * pane has.
 * @param {string} text
 * @param {number} middle
 * @returns {[number, number]}
 */
function around(text, middle) {
  let from = Math.max(0, middle - AROUND);
  let to = Math.min(text.length, middle + AROUND);
  if (isInside(text, from)) from--;
  if (isInside(text, to)) to++;
  return [from, to];
}

/**
 * Whether a place is between the two halves of a surrogate pair.
 * @param {string} text
 * @param {number} at
 */
const isInside = (text, at) => at > 0 && (text.codePointAt(at - 1) ?? 0) > 0xffff;

/**
 * A link to this page with a capture in its fragment, "" if it would be too long.
 * @param {string} capture
 */
async function linkOf(capture) {
  const packed = new Blob([capture]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(packed).arrayBuffer());
  if (bytes.length > MOST_LINK) return "";
  const base64 = btoa(String.fromCharCode(...bytes));
  const fragment = base64.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  return `${location.origin}${location.pathname}${FRAGMENT}${fragment}`;
}

/** Whether this page's address has a capture. */
export const isLinked = () => location.hash.startsWith(FRAGMENT);

/** The capture in this page's address. @returns {Promise<File>} */
export const linkedCapture = () => unpacked(location.hash);

/**
 * The capture in a report, or in a link alone; undefined if the file is neither.
 * @param {File} file
 */
export async function captureIn(file) {
  if (file.size > MOST_REPORT) return undefined;
  const text = (await file.text()).trim();
  const link = text.startsWith(TITLE)
    ? text.slice(text.lastIndexOf("[Open this stream in detok]("))
    : text;
  const [, fragment] = /(?:^|^https?:\S+|\(http\S+)(#capture=[\w-]+)\)?(?:$|\s)/.exec(link) ?? [];
  return fragment ? unpacked(fragment) : undefined;
}

/** A larger file is not a report. */
const MOST_REPORT = 1 << 20;

/** @param {string} fragment */
async function unpacked(fragment) {
  const base64 = fragment.slice(FRAGMENT.length).replace(/-/g, "+").replace(/_/g, "/");
  try {
    const bytes = Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
    const opened = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new File([await new Response(opened).blob()], "the link's capture");
  } catch {
    throw new Error(
      "The capture in this link is damaged. Ask for the whole link, or for the file.",
    );
  }
}
