/** The engine line in the head of the page: its name, its device and how exact its data is, as the bridge reports them. */

import { element } from "./dom.js";
import { isSite } from "./site.js";

/** @typedef {{name?: string, model?: string | null, device?: string | null, fidelity?: string}} Engine */

const name = element("engine-name", HTMLElement);
const device = element("engine-device", HTMLElement);
const fidelity = element("engine-fidelity", HTMLElement);

/** @type {Record<string, string>} */
const FIDELITIES = { ids: "token ids, exact", bytes: "bytes, exact", text: "text only" };

/** Ask the bridge for its engine. If that fails, the `hello` of the first answer brings it. */
export async function loadEngine() {
  if (isSite) return showEngine({ name: "none: this is a static page", device: "this browser" });
  try {
    const response = await fetch("/info");
    if (response.ok) showEngine((await response.json()).engine);
  } catch {
    // The bridge is away. The runtime's loading reports that.
  }
}

/** @param {Engine | undefined} engine */
export function showEngine(engine) {
  if (!engine) return;
  name.textContent = [engine.name, engine.model].filter(Boolean).join(" · ") || "unknown";
  device.textContent = engine.device || "not reported";
  fidelity.textContent = FIDELITIES[engine.fidelity ?? ""] ?? "unknown";
}
