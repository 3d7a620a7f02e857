/**
 * Keeps Pyodide's memory as it is when Python has started, so that a later visit begins with that.
 *
 * Kept in Cache Storage, one snapshot for each runtime folder, under the SHA-256 of the standard library and the detok_py that are in it:
 * another version of either is another snapshot, and the old one goes. Where there is no Cache Storage (a page that is neither https nor
 * localhost, a private window of some browsers) or no room in it, nothing is kept, and Python starts as on a first visit.
 *
 * The format: the SHA-256 of all that follows, then 32-bit numbers: the length of the memory, the count of its pages that are not all
 * zero, and their numbers; then those pages, 64 KiB each. Of Pyodide's 31 MB that is 12.
 */

const PAGE = 65536;
const DIGEST = 32;

/** @param {BufferSource} bytes @returns {Promise<Uint8Array>} */
const digest = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

/** The SHA-256 of these bytes, in hex. @param {BufferSource} bytes */
export const sumOf = async (bytes) => Array.from(await digest(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** The place of one runtime's snapshot. */
export class MemorySnapshot {
  /** @param {Cache} store @param {string} url  Under which it is kept there. */
  constructor(store, url) {
    this.store = store;
    this.url = url;
  }

  /**
   * The place for this runtime; undefined where this page can keep nothing, or should not. Rejects where the browser refuses.
   * @param {string | false} cache  Name of the cache in Cache Storage.
   * @param {string} runtimeUrl  Absolute, ending in "/".
   * @param {string} version  Names what is in the snapshot: the standard library and detok_py.
   */
  static async of(cache, runtimeUrl, version) {
    if (!cache || !globalThis.caches || !globalThis.crypto?.subtle) return undefined;
    return new MemorySnapshot(await caches.open(cache), `${runtimeUrl}memory?${version}`);
  }

  /**
   * What was remembered here, while it is still being read; undefined where nothing was.
   * @returns {Promise<{memory: Promise<Uint8Array>} | undefined>} `memory` rejects where it is damaged.
   */
  async recall() {
    const kept = await this.store.match(this.url);
    if (!kept) return undefined;
    const memory = kept.arrayBuffer().then(unpack);
    memory.catch(() => {}); // heard by whoever starts from it
    return { memory };
  }

  /** Remember a memory here, in place of those of other versions; a little at a time. @param {Uint8Array<ArrayBuffer>} memory */
  async remember(memory) {
    const packed = await pack(memory);
    await this.forget();
    await this.store.put(this.url, new Response(packed));
  }

  /** Forget the memories of this runtime, whatever their versions. */
  async forget() {
    await this.store.delete(this.url, { ignoreSearch: true });
  }
}

/**
 * @param {Uint8Array<ArrayBuffer>} memory  Whole words of 4 bytes.
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
async function pack(memory) {
  const words = new Uint32Array(memory.buffer, memory.byteOffset, memory.length >> 2);
  /** @param {number} from @param {number} to */
  const isUsed = (from, to) => {
    while (from < to && !words[from]) from++;
    return from < to;
  };
  const pages = [];
  for (let at = 0; at < memory.length; at += PAGE) {
    // What this worker is for comes first.
    if (at % (64 * PAGE) === 0) await new Promise((resolve) => setTimeout(resolve));
    if (isUsed(at >> 2, Math.min(at + PAGE, memory.length) >> 2)) pages.push({ number: at / PAGE, page: memory.subarray(at, at + PAGE) });
  }
  const head = new Uint32Array([memory.length, pages.length, ...pages.map(({ number }) => number)]);
  const packed = new Uint8Array(await new Blob([new Uint8Array(DIGEST), head, ...pages.map(({ page }) => page)]).arrayBuffer());
  packed.set(await digest(packed.subarray(DIGEST)));
  return packed;
}

/**
 * @param {ArrayBuffer} buffer
 * @returns {Promise<Uint8Array>} The memory as it was packed. Rejects if any of it is not.
 */
async function unpack(buffer) {
  const packed = new Uint8Array(buffer);
  const sum = await digest(packed.subarray(DIGEST));
  if (packed.length < DIGEST + 8 || sum.some((byte, at) => byte !== packed[at])) throw new Error("The memory that was kept is damaged.");
  const [length = 0, count = 0] = new Uint32Array(buffer, DIGEST, 2);
  const memory = new Uint8Array(length);
  let from = DIGEST + 4 * (2 + count);
  for (const page of new Uint32Array(buffer, DIGEST + 8, count)) {
    const at = page * PAGE;
    memory.set(packed.subarray(from, (from += Math.min(PAGE, length - at))), at);
  }
  return memory;
}
