/** Read the chunks of a caller: token ids or bytes, in any container. */

/** What a chunk is, in an error. @param {any} chunk */
const kindOf = (chunk) =>
  typeof (chunk ?? null) === "object"
    ? (chunk?.constructor?.name ?? String(chunk))
    : `${typeof chunk} ${chunk}`;

/** @param {unknown} chunk @returns {number[]} */
export function asIds(chunk) {
  // Small numbers in bytes are text, and not ids.
  const isView = ArrayBuffer.isView(chunk) && !/^(Data|Uint8)/.test(kindOf(chunk));
  const ids =
    typeof chunk === "number"
      ? [chunk]
      : Array.isArray(chunk)
        ? chunk
        : isView
          ? Array.from(/** @type {any} */ (chunk), Number)
          : undefined;
  for (const id of ids ?? [chunk])
    if (!Number.isSafeInteger(id))
      throw new TypeError(
        `With a vocabulary, chunks are token ids: whole numbers, not ${kindOf(id)}. For bytes leave it out.`,
      );
  return /** @type {number[]} */ (ids);
}

/** @param {unknown} chunk @returns {Uint8Array} */
export function asBytes(chunk) {
  if (chunk instanceof ArrayBuffer) return new Uint8Array(chunk);
  if (ArrayBuffer.isView(chunk))
    return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  throw new TypeError(
    `Without a vocabulary, chunks are bytes (a BufferSource), not ${kindOf(chunk)}.`,
  );
}
