/**
 * Keeps Pyodide's memory as it is when Python has started, so that a later visit begins with it.
 *
 * One snapshot for each kind of runtime is kept in Cache Storage, with the hashes of what is in it as
 * its version; another version replaces it. Without Cache Storage or room in it nothing is kept.
 *
 * The format: the SHA-256 of all that follows, then 32-bit numbers: the length of the memory, the
 * count of its pages that are not all zero, and their numbers; then those pages, 64 KiB each.
 */

const PAGE = 65536;
const DIGEST = 32;

/** @param {BufferSource} bytes */
const digest = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

/** The SHA-256 of these bytes, in hex. @param {BufferSource} bytes */
export const sumOf = async (bytes) =>
  Array.from(await digest(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** The place of one runtime's snapshot. */
export class MemorySnapshot {
  /** @param {Cache} store @param {string} url  Its key there. */
  constructor(store, url) {
    this.store = store;
    this.url = url;
  }

  /**
   * The place of a runtime; undefined if this page keeps nothing. Rejects if the browser refuses.
   * @param {string | false} cache @param {string} folder  Ends in "/".
   */
  static async of(cache, folder) {
    if (!cache || !globalThis.caches || !globalThis.crypto?.subtle) return undefined;
    return new MemorySnapshot(await caches.open(cache), `${folder}memory`);
  }

  /** What is kept here, while it is being read. `memory` rejects if it is damaged. */
  async recall() {
    const kept = await this.store.match(this.url);
    return kept && { version: kept.headers.get("version"), memory: readMemory(kept) };
  }

  /** Keep a memory here, in place of other versions. @param {Uint8Array<ArrayBuffer>} memory @param {string} version */
  async remember(memory, version) {
    const packed = new Response(await packMemory(memory), { headers: { version } });
    // Earlier releases had the version in the address.
    await this.store.delete(this.url, { ignoreSearch: true });
    await this.store.put(this.url, packed);
  }
}

/** The memory in an answer; rejects if it is damaged. @param {Response} answer */
export function readMemory(answer) {
  const memory = answer.arrayBuffer().then(unpack);
  memory.catch(() => {}); // avoids an unhandled rejection
  return memory;
}

/** @param {Uint8Array<ArrayBuffer>} memory  Whole words of 4 bytes. */
export async function packMemory(memory) {
  const words = new Uint32Array(memory.buffer, memory.byteOffset, memory.length >> 2);
  const pages = [];
  for (let at = 0; at < memory.length; at += PAGE) {
    // Packing takes long; the worker answers calls in between.
    if (at % (64 * PAGE) === 0) await new Promise((resolve) => setTimeout(resolve));
    if (words.subarray(at >> 2, (at + PAGE) >> 2).some(Boolean))
      pages.push({ number: at / PAGE, page: memory.subarray(at, at + PAGE) });
  }
  const head = new Uint32Array([memory.length, pages.length, ...pages.map(({ number }) => number)]);
  const packed = new Uint8Array(
    await new Blob([new Uint8Array(DIGEST), head, ...pages.map(({ page }) => page)]).arrayBuffer(),
  );
  packed.set(await digest(packed.subarray(DIGEST)));
  return packed;
}

/** @param {ArrayBuffer} buffer */
async function unpack(buffer) {
  const packed = new Uint8Array(buffer);
  const sum = await digest(packed.subarray(DIGEST));
  if (packed.length < DIGEST + 8 || sum.some((byte, at) => byte !== packed[at]))
    throw new Error("The memory that was kept is damaged.");
  const [length = 0, count = 0] = new Uint32Array(buffer, DIGEST, 2);
  const memory = new Uint8Array(length);
  let from = DIGEST + 4 * (2 + count);
  for (const page of new Uint32Array(buffer, DIGEST + 8, count)) {
    const at = page * PAGE;
    memory.set(packed.subarray(from, (from += Math.min(PAGE, length - at))), at);
  }
  return memory;
}
