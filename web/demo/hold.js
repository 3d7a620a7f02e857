/**
 * The held data under the first pane: the bytes of an unfinished character, with room for the
 * missing ones, and text that may be a stop string.
 */

import { element, make } from "./dom.js";
import { hexOf, toHex } from "./recording.js";

const hold = element("hold", HTMLElement);
const cells = element("hold-cells", HTMLElement);
const sentence = element("hold-text", HTMLElement);

/** @param {Uint8Array} bytes @param {string} text @param {string[]} stop */
export function showHold(bytes, text, stop) {
  const key = `${bytes} ${text}`;
  if (hold.dataset.key === key) return;
  hold.dataset.key = key;
  const missing = missingBytes(bytes);
  cells.replaceChildren(
    ...Array.from(bytes, (byte) => makeCell(toHex(byte), "byte held waiting")),
    ...Array.from({ length: missing }, () => makeCell("··", "byte missing")),
    ...(text ? [makeCell(text, "held-text")] : []),
  );
  const parts = [];
  if (bytes.length)
    parts.push(`waiting for ${missing} more byte${missing === 1 ? "" : "s"} after ${hexOf(bytes)}`);
  if (text) {
    const which = stop.some((one) => one.startsWith(text)) ? "the stop string" : "a tag";
    parts.push(`holding “${text}”: may be ${stop.length ? which : "a tag"}`);
  }
  sentence.textContent = parts.join("; ") || "nothing waits";
}

/**
 * How many more bytes the open character needs: its first byte begins with as many 1 bits as it has
 * bytes (RFC 3629, 3).
 * @param {Uint8Array} held
 */
function missingBytes(held) {
  const [first] = held;
  return first === undefined ? 0 : Math.max(0, Math.clz32(~(first << 24)) - held.length);
}

/** @param {string} text @param {string} className */
const makeCell = (text, className) => make("b", { className }, text);
