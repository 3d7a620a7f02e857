/**
 * Boots Pyodide in this worker with as little as detok_py needs: a standard library cut down to it, and no micropip.
 *
 * In: the runtime's folder, with Pyodide's own files and python_core.zip (tools/build_core.mjs). Out: as boot-micropython.js gives it.
 * A first visit remembers Python's memory once it has started, and later ones begin with that (memory-snapshot.js).
 */

import { MemorySnapshot, sumOf } from "./memory-snapshot.js";

/** @typedef {import("./messages.js").Progress} Progress */
/** @typedef {import("./boot-micropython.js").Python} Python */

/**
 * @param {string} runtimeUrl  Absolute, ending in "/".
 * @param {(progress: Progress) => void} onProgress
 * @param {Record<string, string>} [files]  MicroPython's.
 * @param {string | false} [cache]  Name of the cache in Cache Storage where Python's memory is kept.
 * @returns {Promise<Python>}
 */
export async function bootPython(runtimeUrl, onProgress, files, cache = false) {
  onProgress({ step: "reading Pyodide", loaded: 0, total: 0 });
  /** @param {string} name */
  const url = (name) => new URL(name, runtimeUrl).href;
  const read = async (/** @type {string} */ address) => {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`${address} could not be read (HTTP ${answer.status}).`);
    return answer;
  };
  // All at once, what Pyodide asks for one after another.
  const about = read(url("python_core.json")).then((answer) => answer.json());
  const loader = import(/* webpackIgnore: true */ /* @vite-ignore */ url("pyodide.mjs"));
  const glue = import(/* webpackIgnore: true */ /* @vite-ignore */ url("pyodide.asm.mjs"));
  const wasm = read(url("pyodide.asm.wasm"));
  const core = read(url("python_core.zip")).then((answer) => answer.arrayBuffer());
  for (const early of [loader, glue, wasm, core]) early.catch(() => {}); // heard when its turn comes
  const { info, sha256 } = await about;
  // What is kept is a convenience: whatever goes wrong with it, Python starts.
  const snapshot = await MemorySnapshot.of(cache, runtimeUrl, sha256).catch(() => undefined);
  const kept = await snapshot?.recall().catch(() => undefined);
  /** Whether the zip that came is the one that a snapshot would be of: a site may be changing just now. */
  const isSame = async () => (await sumOf(await core)) === sha256;
  const given = new Map([[url("pyodide.asm.wasm"), wasm], [url("python_core.zip"), core.then((zip) => new Response(zip))]]);
  /** @param {object} options */
  const start = async (options) => {
    // What Pyodide fetches itself is given to it, once, because it has been on its way since the beginning.
    const { loadPyodide } = await loader;
    const plainFetch = globalThis.fetch;
    globalThis.fetch = (input, init) => {
      const answer = given.get(String(input));
      given.delete(String(input));
      return answer ?? plainFetch(input, init);
    };
    try {
      return await loadPyodide({
        indexURL: runtimeUrl,
        stdLibURL: url("python_core.zip"),
        // None of Pyodide's packages: nothing is loaded by name.
        lockFileContents: { info, packages: {} },
        packageBaseUrl: runtimeUrl,
        stdout: () => {},
        stderr: () => {},
        ...options,
      });
    } finally {
      globalThis.fetch = plainFetch;
    }
  };
  /** @type {any} */
  let python;
  if (kept) {
    try {
      const [started, same] = await Promise.all([start({ _loadSnapshot: kept.memory }), isSame()]);
      if (same) python = started;
    } catch {
      // Damaged, or another Pyodide's: this visit is a first one.
    }
  }
  onProgress({ step: "starting Python", loaded: 0, total: 0 });
  if (!python) {
    python = await start({ _makeSnapshot: snapshot !== undefined });
    python.runPython("import detok_embed, detok_py.browser");
    const remember = async () => {
      // Before JavaScript holds anything of Python's, which would not be there the next time.
      const memory = snapshot && python.makeMemorySnapshot();
      await new Promise((resolve) => setTimeout(resolve, 500)); // the first characters come first
      if (memory && (await isSame())) await snapshot.remember(memory);
    };
    remember().catch(() => {}); // nobody waits for it
  }
  const embed = python.pyimport("detok_embed");
  const browser = python.pyimport("detok_py.browser");
  /** @type {{proxy: any, buffer: any} | undefined} */
  let inbox;
  return {
    interpreter: python,
    embed,
    fill(bytes) {
      // The view is kept; a heap that has grown detaches every view of it (length 0), and then it is asked for again.
      if (!inbox || inbox.buffer.data.length < bytes.length) {
        inbox?.buffer.release();
        inbox?.proxy.destroy();
        const proxy = browser.inbox(bytes.length);
        inbox = { proxy, buffer: proxy.getBuffer("u8") };
      }
      inbox.buffer.data.set(bytes);
      return bytes.length;
    },
    pack(name, file) {
      // Mounted, not copied: of a GGUF file of many gigabytes only the header is read. Once in the life of a worker.
      python.FS.mkdirTree("/given");
      python.FS.mount(python.FS.filesystems.WORKERFS, { blobs: [{ name, data: file }] }, "/given");
      const packed = embed.pack_tokenizer(`/given/${name}`);
      try {
        return packed.toJs();
      } finally {
        packed.destroy();
      }
    },
  };
}
