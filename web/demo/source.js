/**
 * The source line in the head of the page: where the shown stream comes from, and how exact its
 * data is. An engine is named only for a stream that it sent; a capture and the reader's own text
 * are sources of their own.
 */

import { element } from "./dom.js";
import { showFormat } from "./formats.js";
import { isSite } from "./site.js";

/** @typedef {"ids" | "bytes" | "text"} Fidelity */
/**
 * @typedef {{name?: string, model?: string | null, device?: string | null, fidelity?: string}}
 *   Engine
 */
/**
 * @typedef {object} Source
 * @property {"engine" | "text" | "capture"} kind
 * @property {string} [file]  The name of the capture.
 * @property {Engine} [engine]
 * @property {string} [fidelity]
 * @property {string | null} [format]  The name of the format that the stream is read in.
 * @property {string} [choice]  The format that the reader chose; if it is "" or missing, that which
 *   was found.
 * @property {boolean} [streams]  Whether there is a stream, and not only an engine.
 */

const name = element("source-name", HTMLElement);
const engineName = element("engine-name", HTMLElement);
const device = element("engine-device", HTMLElement);
const fidelity = element("engine-fidelity", HTMLElement);

/** What local-answer.js names as its device. */
const THIS_PAGE = "this page";

/** @type {Record<string, string>} */
const FIDELITIES = {
  ids: "token ids, exact",
  bytes: "bytes, exact",
  some: "bytes, exact; not all ids known",
  text: "text in chunks, decoded elsewhere",
};

/**
 * The reader's own text is cut by the bridge or by this page, not by an engine.
 * @param {string} data  What is sent: "bytes", or ids.
 * @param {Engine | undefined} engine  As hello named it: the bridge's, or that of local-answer.js.
 */
export function ownTextEngine(data, engine) {
  const here = engine?.device === THIS_PAGE;
  return {
    name: "detok, your text",
    model: here ? engine.model : null,
    device: here ? THIS_PAGE : null,
    fidelity: data === "bytes" ? "bytes" : "ids",
  };
}

/**
 * Name what the page is connected to, before the first answer.
 * @param {Engine | undefined} engine
 */
export function showEngine(engine) {
  if (isSite) {
    const none = { name: "none: this is a static page", device: "this browser" };
    showSource({ kind: "text", engine: none, streams: false });
  } else if (engine) showSource({ kind: "engine", engine, streams: false });
}

/** @type {Source} */
let last = { kind: "engine", streams: false };
/** The source that is shown. */
export const lastSource = () => last;

/** After a file that is no stream: whose stream is still on the page; "" if there is none. */
export function stillShown() {
  const { kind, streams = true } = last;
  if (!streams) return "";
  return ` The page still shows ${kind === "engine" ? "the engine’s answer" : name.textContent}.`;
}

/** @param {Source} source */
export function showSource(source) {
  last = source;
  const { kind, file, engine, fidelity: given, format, choice, streams = true } = source;
  name.textContent = { engine: "engine", text: "your text", capture: file ?? "capture" }[kind];
  engineName.textContent =
    kind === "text"
      ? `none: ${isSite || engine?.device === THIS_PAGE ? THIS_PAGE : "the bridge"} cuts your text${engine?.model ? ` with ${engine.model}` : ""}`
      : [engine?.name, engine?.model].filter(Boolean).join(" · ") ||
        (kind === "capture" ? "not named in the capture" : "unknown");
  device.textContent = engine?.device || (kind === "text" ? "none" : "not reported");
  fidelity.textContent = FIDELITIES[given ?? engine?.fidelity ?? ""] ?? "unknown";
  for (const cell of [name, engineName, device]) cell.title = cell.textContent ?? "";
  showFormat(format, { choice, shown: streams });
}

/**
 * How exact the data is that has come: an engine that sends bytes may be asked with a vocabulary,
 * and then the bridge knows the ids of most tokens, or of all.
 * @param {Engine | undefined} engine
 * @param {string} data  What is sent: "ids", "bytes" or "both".
 * @param {boolean} allIds  Whether every token that has come has its id.
 */
export function fidelityOf(engine, data, allIds) {
  if (engine?.fidelity !== "bytes" || data !== "both") return engine?.fidelity;
  return allIds ? "ids" : "some";
}

/** Show how exact the data is, while it comes. @param {string | undefined} given */
export function showFidelity(given) {
  last.fidelity = given;
  const said = FIDELITIES[given ?? ""] ?? "unknown";
  if (fidelity.textContent !== said) fidelity.textContent = said;
}

/**
 * What the steps of a stream are called.
 * @param {string | undefined} fidelity
 * @param {boolean} singleBytes
 * @returns {import("./recording.js").Unit}
 */
export function unitOf(fidelity, singleBytes = false) {
  if (fidelity === "text") return "chunk";
  return singleBytes ? "byte" : "token";
}
