/** Read the chunks of a caller: token ids or bytes, in any container. */

/** @param {unknown} chunk @returns {number[]} */
export function asIds(chunk) {
  const ids =
    typeof chunk === "number"
      ? [chunk]
      : Array.isArray(chunk)
        ? chunk
        : ArrayBuffer.isView(chunk) && !(chunk instanceof DataView)
          ? Array.from(/** @type {any} */ (chunk), Number)
          : undefined;
  if (!ids?.every((id) => Number.isSafeInteger(id)))
    throw new TypeError("DetokStream with a vocabulary takes token ids: whole numbers.");
  return ids;
}

/** @param {unknown} chunk @returns {Uint8Array} */
export function asBytes(chunk) {
  if (chunk instanceof ArrayBuffer) return new Uint8Array(chunk);
  if (ArrayBuffer.isView(chunk))
    return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  throw new TypeError(
    `DetokStream without a vocabulary takes bytes (a BufferSource), not ${typeof chunk}.`,
  );
}
