// Streams as lists, lists as streams, and waiting.

/** All that comes. @param {AsyncIterable<any>} stream */
export async function listOf(stream) {
  const list = [];
  for await (const one of stream) list.push(one);
  return list;
}

/** Wait until something holds; fail after a minute. @param {() => unknown} holds */
export async function until(holds, what = String(holds)) {
  for (const late = Date.now() + 60_000; !holds(); await new Promise(setImmediate))
    if (Date.now() > late) throw new Error(`not in a minute: ${what}`);
}

/** Bytes in parts of a size. @param {Uint8Array} bytes @param {number} size */
export const inParts = (bytes, size) =>
  ReadableStream.from(
    Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) =>
      bytes.slice(n * size, (n + 1) * size),
    ),
  );
