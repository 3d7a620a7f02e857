/**
 * Keeps the memory of a Pyodide that has started, so that a later visit can begin with it.
 *
 * One snapshot for each kind of runtime is kept in Cache Storage, with the hashes of what is in it
 * as its version; another version replaces it. Without Cache Storage or room in it nothing is kept.
 *
 * The format: the SHA-256 of all that follows, then 32-bit numbers: the count of the pages that are
 * not all zero, and their numbers; then those pages, 64 KiB each. Page 0 is what Pyodide writes
 * before the heap, and page 1 the first one of the heap.
 */

export const PAGE = 65536;
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
   * The place of a runtime's snapshot; undefined if none is kept. Rejects if the browser refuses.
   * @param {string | false} cache
   * @param {string} folder  Ends in "/".
   */
  static async of(cache, folder) {
    if (!cache || !globalThis.caches || !globalThis.crypto?.subtle) return undefined;
    return new MemorySnapshot(await caches.open(cache), `${folder}memory`);
  }

  /** The kept memory, if there is one. `memory` rejects if it is damaged. */
  async recall() {
    const kept = await this.store.match(this.url);
    return kept && { version: kept.headers.get("version"), memory: readMemory(kept) };
  }

  /**
   * Keep a memory here, in place of other versions. It is emptied.
   * @param {Uint8Array<ArrayBuffer>} memory
   * @param {string} version
   */
  async remember(memory, version) {
    const packed = await packMemory(memory);
    // A worker that waits collects no garbage, and this is 31 MB. Older browsers lack `transfer`.
    /** @type {any} */ (memory.buffer).transfer?.(0);
    const answer = new Response(packed, { headers: { version } });
    // Earlier releases had the version in the address.
    await this.store.delete(this.url, { ignoreSearch: true });
    await this.store.put(this.url, answer);
  }
}

/**
 * Read a packed memory from a response; rejects if it is damaged.
 * @param {Response} answer
 */
export function readMemory(answer) {
  const packed = answer.arrayBuffer().then(check);
  packed.catch(() => {}); // avoids an unhandled rejection
  return packed;
}

/** @param {ArrayBuffer} packed */
async function check(packed) {
  const whole = new Uint8Array(packed);
  const sum = await digest(whole.subarray(DIGEST));
  if (whole.length < DIGEST + 4 || sum.some((byte, at) => byte !== whole[at]))
    throw new Error("The memory that was kept is damaged.");
  return packed;
}

/** @param {Uint8Array<ArrayBuffer>} memory  What Pyodide's `makeMemorySnapshot` gives. */
export async function packMemory(memory) {
  const [, start = 0] = new Uint32Array(memory.buffer, memory.byteOffset, 2);
  const heap = memory.subarray(start);
  const words = new Uint32Array(heap.buffer, heap.byteOffset, heap.length >> 2);
  const numbers = [0];
  for (let at = 0; at < heap.length; at += PAGE) {
    // Packing takes long, so the worker answers calls in between.
    if (at % (64 * PAGE) === 0) await new Promise((resolve) => setTimeout(resolve));
    if (words.subarray(at >> 2, (at + PAGE) >> 2).some(Boolean)) numbers.push(at / PAGE + 1);
  }
  const first = DIGEST + 4 * (1 + numbers.length);
  const packed = new Uint8Array(first + numbers.length * PAGE);
  new Uint32Array(packed.buffer, DIGEST, 1 + numbers.length).set([numbers.length, ...numbers]);
  packed.subarray(first, first + PAGE).set(memory.subarray(0, start)); // throws if it is longer
  new Uint32Array(packed.buffer, first)[1] = PAGE; // where the heap begins
  numbers.slice(1).forEach((number, n) => {
    packed.set(heap.subarray((number - 1) * PAGE, number * PAGE), first + (n + 1) * PAGE);
  });
  packed.set(await digest(packed.subarray(DIGEST)));
  return packed;
}

/**
 * Copy a packed memory into the memory of a new Pyodide.
 * @param {ArrayBuffer} packed
 * @param {Uint8Array} head  One page; what Pyodide takes as its snapshot.
 * @param {Uint8Array} heap  Of a Pyodide that has not run yet, so its end is still all zero.
 */
export function unpackMemory(packed, head, heap) {
  const [count = 0] = new Uint32Array(packed, DIGEST, 1);
  let from = DIGEST + 4 * (1 + count);
  let end = 0;
  for (const number of new Uint32Array(packed, DIGEST + 4, count)) {
    const page = new Uint8Array(packed, from, PAGE);
    from += PAGE;
    if (number === 0) head.set(page);
    else {
      const at = (number - 1) * PAGE;
      heap.fill(0, end, at).set(page, at);
      end = at + PAGE;
    }
  }
}
