/** The hold buffer under the first pane: the bytes of an open character with room for those that it still needs, and held text. */

import { element } from "./dom.js";
import { toHex } from "./recording.js";

const hold = element("hold", HTMLElement);
const cells = element("hold-cells", HTMLElement);
const sentence = element("hold-text", HTMLElement);

/** @param {Uint8Array} bytes @param {string} text */
export function showHold(bytes, text) {
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
  if (bytes.length) parts.push(`${Array.from(bytes, toHex).join(" ")} needs ${missing} more`);
  if (text) parts.push(`${text.length} characters could begin a stop string`);
  sentence.textContent = parts.join("; ") || "nothing is held";
}

/** How many more bytes the held character needs: its first byte begins with as many 1 bits as it has bytes (RFC 3629, 3). @param {Uint8Array} held */
function missingBytes(held) {
  const [first] = held;
  return first === undefined ? 0 : Math.max(0, Math.clz32(~(first << 24)) - held.length);
}

/** @param {string} text @param {string} className */
function makeCell(text, className) {
  return Object.assign(document.createElement("b"), { textContent: text, className });
}
