// Streams as lists, and lists as streams.

/** All that comes. @param {AsyncIterable<any>} stream */
export async function listOf(stream) {
  const list = [];
  for await (const one of stream) list.push(one);
  return list;
}

/** Bytes in parts of a size. @param {Uint8Array} bytes @param {number} size */
export const inParts = (bytes, size) =>
  ReadableStream.from(
    Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) =>
      bytes.slice(n * size, (n + 1) * size),
    ),
  );
