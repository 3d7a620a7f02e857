/** A token of Python (detok_py/page/answer.py) as an object. */

/**
 * @typedef {object} TokenRow  A token, and what it did.
 * @property {number | null} id  Null if the engine gave no id.
 * @property {Uint8Array} bytes  Its bytes.
 * @property {string} text       The text that this token made certain.
 * @property {string} [channel]  Of that text: "content", "reasoning" or "tool_call".
 * @property {Uint8Array} heldBytes  Bytes of an unfinished character, held after this token.
 * @property {string} heldText   Text held after this token, as it may become a stop string or a
 *   tag.
 * @property {string | null} special  The name of a special token that is skipped.
 *
 * @typedef {[number | null, string, [string, string][], string, string, string | null]} CrossedRow
 */

/** @param {CrossedRow} row @returns {TokenRow} */
export const rowOf = ([id, bytes, deltas, heldBytes, heldText, special]) => ({
  id,
  bytes: fromHex(bytes),
  text: deltas.map(([, text]) => text).join(""),
  channel: deltas.at(-1)?.[0],
  heldBytes: fromHex(heldBytes),
  heldText,
  special,
});

/** @param {string} hex */
export function fromHex(hex) {
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}
