/**
 * The source line in the head of the page: where the stream that is shown comes from, and how exact
 * its data is. An engine is named only for what it said itself; a capture and the reader's own text
 * have a line of their own.
 */

import { element } from "./dom.js";
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
 */

const name = element("source-name", HTMLElement);
const engineName = element("engine-name", HTMLElement);
const device = element("engine-device", HTMLElement);
const fidelity = element("engine-fidelity", HTMLElement);
const markupSign = element("markup-sign", HTMLElement);
const formatField = element("format-field", HTMLElement);
const formatName = element("engine-format", HTMLElement);

/** What local-answer.js names as its device. */
const THIS_PAGE = "this page";

/** @type {Record<string, string>} */
const FIDELITIES = {
  ids: "token ids, exact",
  bytes: "bytes, exact",
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
    showSource({ kind: "text", engine: none });
  } else if (engine) showSource({ kind: "engine", engine });
}

/** @param {Source} source */
export function showSource({ kind, file, engine, fidelity: given, format }) {
  name.textContent = { engine: "engine", text: "your text", capture: file ?? "capture" }[kind];
  engineName.textContent =
    kind === "text"
      ? `none: ${isSite || engine?.device === THIS_PAGE ? THIS_PAGE : "the bridge"} cuts your text${engine?.model ? ` with ${engine.model}` : ""}`
      : [engine?.name, engine?.model].filter(Boolean).join(" · ") ||
        (kind === "capture" ? "not named in the capture" : "unknown");
  device.textContent = engine?.device || (kind === "text" ? "none" : "not reported");
  fidelity.textContent = FIDELITIES[given ?? engine?.fidelity ?? ""] ?? "unknown";
  formatName.textContent = format ?? "";
  formatField.hidden = markupSign.hidden = !format;
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
