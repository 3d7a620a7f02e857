/**
 * Unpacks gzip, zlib, Brotli where the browser has it, and a zip archive with one file in it.
 *
 * In: bytes, and the name of their file. Out: what is in them; other bytes unchanged. gzip is RFC
 * 1952, zlib RFC 1950; a zip archive is read by the directory at its end (APPNOTE 4.3).
 */

/** More is not unpacked: a small file can expand to terabytes. */
const MOST_BYTES = 64 << 20;
/** How many times a file may be packed; a zip archive of a .gz is packed twice. */
const MOST_LAYERS = 3;

/** @param {Uint8Array<ArrayBuffer>} bytes @param {string} [name] */
export async function unpack(bytes, name = "") {
  for (let layer = 0; layer < MOST_LAYERS; layer++) {
    const inner = await unpackOnce(bytes, name).catch(() => undefined);
    if (!inner) break;
    bytes = inner;
    name = "";
  }
  return bytes;
}

/**
 * How a file is packed, by its first four bytes and its name; "" if it is not.
 * @param {Uint8Array} bytes
 * @param {string} name
 */
export function packingOf([a = 0, b = 0, c = 0, d = 0], name) {
  if (a === 0x1f && b === 0x8b) return "gzip";
  if ((a & 0x8f) === 8 && (a * 256 + b) % 31 === 0) return "deflate";
  if (a === 0x50 && b === 0x4b && c === 3 && d === 4) return "zip";
  return name.endsWith(".br") ? "brotli" : "";
}

/** @param {Uint8Array<ArrayBuffer>} bytes @param {string} name */
async function unpackOnce(bytes, name) {
  const packing = packingOf(bytes, name);
  if (packing === "zip") return fileOfZip(bytes);
  return packing ? inflate(bytes, packing) : undefined;
}

/** @param {Uint8Array<ArrayBuffer>} bytes @param {string} format */
async function inflate(bytes, format) {
  const open = new DecompressionStream(/** @type {CompressionFormat} */ (format));
  const parts = [];
  let size = 0;
  for await (const part of readAll(new Blob([bytes]).stream().pipeThrough(open))) {
    size += part.length;
    if (size > MOST_BYTES) throw new RangeError("It is too large.");
    parts.push(part);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/**
 * Iterate a stream; Safari cannot do so with `for await` alone.
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} stream
 */
async function* readAll(stream) {
  const reader = stream.getReader();
  try {
    for (let part; !(part = await reader.read()).done;) yield part.value;
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * The only file of a zip archive; undefined if it has more.
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
async function fileOfZip(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let end = bytes.length - 22;
  while (end > 0 && view.getUint32(end, true) !== 0x06054b50) end--;
  let entry = view.getUint32(end + 16, true);
  /** @type {{method: number, size: number, at: number} | undefined} */
  let found;
  for (let n = view.getUint16(end + 10, true); n > 0; n--) {
    const [name, extra, comment] = [28, 30, 32].map((at) => view.getUint16(entry + at, true));
    const size = view.getUint32(entry + 20, true);
    const isFolder = bytes[entry + 45 + (name ?? 0)] === 0x2f;
    if (!isFolder && found) return undefined;
    if (!isFolder)
      found = {
        method: view.getUint16(entry + 10, true),
        size,
        at: view.getUint32(entry + 42, true),
      };
    entry += 46 + (name ?? 0) + (extra ?? 0) + (comment ?? 0);
  }
  if (!found) return undefined;
  const { method, size, at } = found;
  const begin = at + 30 + view.getUint16(at + 26, true) + view.getUint16(at + 28, true);
  const data = bytes.slice(begin, begin + size);
  if (method === 0) return data;
  return method === 8 ? inflate(data, "deflate-raw") : undefined;
}
