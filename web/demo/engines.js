/**
 * The engine picker: the engines of the bridge, and which of them answers. In: `/info`, and the
 * address (`?engine=NAME`). Out: the address to connect to. With one engine there is no picker.
 */

import { address, element, writeParameter } from "./dom.js";
import { isSite } from "./site.js";

/** @typedef {import("./source.js").Engine} Engine */

const field = element("engine-field", HTMLElement);
const picker = element("engine", HTMLSelectElement);

/**
 * Engines by their names, the first one first.
 * @type {Map<string, Engine & {down?: string | null}>}
 */
let engines = new Map();
/** The name of the chosen engine; "" for the first. */
let chosen = address.get("engine") ?? "";

/**
 * The chosen engine, as the bridge describes it; undefined if the bridge has no such engine or is
 * not reachable.
 */
export const attached = () => engines.get(chosen || picker.value);

/** The address at which the page asks for an answer. */
export const streamAddress = () =>
  chosen ? `/stream?engine=${encodeURIComponent(chosen)}` : "/stream";

/** Ask the bridge for its engines. If that fails, the `hello` of the first answer names one. */
export async function loadEngines() {
  if (isSite) return;
  try {
    const response = await fetch("/info");
    if (!response.ok) return;
    /** @type {{engines: {id: string, engine: Engine & {down?: string | null}}[]}} */
    const info = await response.json();
    engines = new Map(info.engines.map(({ id, engine }) => [id, engine]));
  } catch {
    return; // The bridge is away. The runtime's loading reports that.
  }
  picker.replaceChildren(...[...engines].map(([id, engine]) => new Option(nameOf(id, engine), id)));
  if (chosen && !engines.has(chosen)) picker.add(new Option(`${chosen} (not here)`, chosen));
  if (chosen) picker.value = chosen;
  field.hidden = picker.options.length < 2;
}

/** @param {string} id @param {Engine & {down?: string | null}} engine */
function nameOf(id, { name, model, down }) {
  const about = down ? "down" : (model ?? name);
  return about && about !== id ? `${id} · ${about}` : id;
}

/** @param {() => void} change  Called when another engine was chosen. */
export function onEngineChange(change) {
  picker.addEventListener("change", () => {
    chosen = picker.value;
    writeParameter("engine", chosen);
    change();
  });
}

/** Write the engine into an address, if there is a choice. @param {URLSearchParams} query */
export function nameEngine(query) {
  if (!field.hidden) query.set("engine", picker.value);
}

/** The picker is disabled while an answer streams. @param {boolean} streaming */
export function holdEngine(streaming) {
  picker.disabled = streaming;
}
