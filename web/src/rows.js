/** A token as Python tells it (detok_py/page/answer.py), as an object. */

/**
 * @typedef {object} TokenRow
 * @property {number | null} id  Null if the engine gave no id.
 * @property {Uint8Array} bytes
 * @property {string} text       The text that this token made certain.
 * @property {Uint8Array} heldBytes  Bytes of an unfinished character, held after this token.
 * @property {string} heldText   Text held after this token, as it may become a stop string or a tag.
 * @property {string | null} special  The name of a special token that is skipped.
 *
 * @typedef {[number | null, string, [string, string][], string, string, string | null]} CrossedRow
 */

/** @param {CrossedRow} row @returns {TokenRow} */
export const rowOf = ([id, bytes, deltas, heldBytes, heldText, special]) => ({
  id,
  bytes: fromHex(bytes),
  text: deltas.map(([, text]) => text).join(""),
  heldBytes: fromHex(heldBytes),
  heldText,
  special,
});

/** @param {string} hex */
export function fromHex(hex) {
  const bytes = new Uint8Array(hex.length / 2);
  for (let at = 0; at < bytes.length; at++) bytes[at] = parseInt(hex.slice(2 * at, 2 * at + 2), 16);
  return bytes;
}
