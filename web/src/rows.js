/** Tokens as Python gives them (detok_py/page/answer.py), and as objects. */

/**
 * @typedef {object} TokenRow  A token, and what it did.
 * @property {number | null} id  Null if the engine gave no id.
 * @property {Uint8Array} bytes  Its bytes.
 * @property {string} text       The text that this token made certain.
 * @property {string} [channel]  That of the text: "content", "reasoning" or "tool_call".
 * @property {Uint8Array} heldBytes  Bytes of an unfinished character, held after this token.
 * @property {string} heldText   Text held after this token, because it may become a stop string or
 *   a tag.
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
function fromHex(hex) {
  const digit = (/** @type {number} */ at) => {
    const code = hex.charCodeAt(at);
    return (code & 15) + (code > 57 ? 9 : 0);
  };
  // A row of a file can have megabytes, so no array of its digits is made.
  return new Uint8Array(hex.length / 2).map((_, n) => digit(2 * n) * 16 + digit(2 * n + 1));
}
