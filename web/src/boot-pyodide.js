/**
 * Boots Pyodide in this worker with as little as detok_py needs: a standard library cut down to it, and no micropip.
 *
 * In: the runtime's folder, with Pyodide's own files and python_core.zip (tools/build_core.mjs). Out: as boot-micropython.js gives it.
 */

/** @typedef {import("./messages.js").Progress} Progress */
/** @typedef {import("./boot-micropython.js").Python} Python */

/**
 * @param {string} runtimeUrl  Absolute, ending in "/".
 * @param {(progress: Progress) => void} onProgress
 * @returns {Promise<Python>}
 */
export async function bootPython(runtimeUrl, onProgress) {
  onProgress({ step: "reading Pyodide", loaded: 0, total: 0 });
  /** @param {string} name */
  const url = (name) => new URL(name, runtimeUrl).href;
  const read = async (/** @type {string} */ address) => {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`${address} could not be read (HTTP ${answer.status}).`);
    return answer;
  };
  const [{ loadPyodide }, lock] = await Promise.all([
    import(/* webpackIgnore: true */ /* @vite-ignore */ url("pyodide.mjs")),
    read(url("pyodide-lock.json")).then((answer) => answer.json()),
  ]);
  const python = await loadPyodide({
    indexURL: runtimeUrl,
    stdLibURL: url("python_core.zip"),
    // What the lock says of this Pyodide, and none of its packages: nothing is loaded by name.
    lockFileContents: { info: lock.info, packages: {} },
    packageBaseUrl: runtimeUrl,
    stdout: () => {},
    stderr: () => {},
  });
  onProgress({ step: "starting Python", loaded: 0, total: 0 });
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
