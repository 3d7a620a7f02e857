/**
 * Boots Pyodide with detok_py in this worker.
 *
 * In: the runtime's folder, with Pyodide's own files and python_core.zip: detok_py and a standard
 * library cut down to what it imports (tools/build_core.mjs). Or a module that installs detok_py in
 * another way (micropip.js). Out: a Python, as from boot-micropython.js. A first visit keeps Python's
 * memory once it has started, and later visits begin with it (memory-snapshot.js). An installer may
 * bring the memory of a Python that has just started, and then a first visit begins with that.
 */

import { read } from "./boot-micropython.js";
import { MemorySnapshot, sumOf } from "./memory-snapshot.js";

/**
 * @param {string} runtimeUrl  Absolute, ending in "/".
 * @param {import("./boot-micropython.js").OnProgress} onProgress
 * @param {{cache?: string | false, installer?: string}} [options]  `cache` names the cache in Cache
 *   Storage where Python's memory is kept; `installer` is the URL of a module like micropip.js.
 * @returns {Promise<import("./boot-micropython.js").Python>}
 */
export async function bootPython(runtimeUrl, onProgress, { cache = false, installer } = {}) {
  onProgress({ step: "reading Pyodide", loaded: 0, total: 0 });
  /** @param {string} name */
  const url = (name) => new URL(name, runtimeUrl).href;
  const load = (/** @type {string} */ address) =>
    import(/* webpackIgnore: true */ /* @vite-ignore */ address);
  load(url("pyodide.asm.mjs")).catch(() => {}); // Pyodide imports it too, and says what is wrong
  // Keeping memory is optional: Python also starts when it fails.
  const place = MemorySnapshot.of(cache, url(installer ? "full/" : "")).catch(() => undefined);
  const [{ loadPyodide }, core, other, snapshot, found] = await Promise.all([
    load(url("pyodide.mjs")),
    read(url("python_core.json")).then((answer) => answer.json()),
    installer && load(installer).then(({ prepare }) => prepare(runtimeUrl, onProgress)),
    place,
    place.then((snapshot) => snapshot?.recall()).catch(() => undefined),
  ]);
  /** @type {{library: string, version: string}} */
  const { library, version } = other || { library: "python_core.zip", version: core.sha256 };
  const kept = found?.version === version ? found : undefined;
  const start = (/** @type {object} */ options) =>
    loadPyodide({
      indexURL: runtimeUrl,
      stdLibURL: url(library),
      lockFileContents: { info: core.info, packages: {} }, // no package is loaded by its name
      packageBaseUrl: runtimeUrl,
      stdout: () => {},
      stderr: () => {},
      ...options,
    });
  /** Whether the library that came is of this version: a site may just be changing. */
  const isSame = async () => {
    const name = python.FS.readdir("/lib").find((/** @type {string} */ one) => /zip$/.test(one));
    return version.startsWith(await sumOf(python.FS.readFile(`/lib/${name}`)));
  };
  /** @type {any} */
  let python;
  let began = false;
  if (kept) {
    try {
      const files = other?.files();
      files?.catch(() => {}); // awaited below
      python = await start({ _loadSnapshot: kept.memory, _snapshotDeserializer: () => null });
      other?.restore(python, await files);
      began = await isSame();
    } catch {
      // The memory is damaged or of another Pyodide: start as on a first visit.
    }
  }
  onProgress({ step: "starting Python", loaded: 0, total: 0 });
  if (!began) {
    const options = { _makeSnapshot: snapshot !== undefined };
    const started = other?.started();
    const tool = other?.tool();
    tool?.catch(() => {}); // awaited below
    python =
      (started && (await start({ ...options, _loadSnapshot: started }).catch(() => undefined))) ??
      (await start(options));
    await other?.install(python, await tool);
    python.runPython("import detok_py.page.streams");
    const remember = async () => {
      // Made before JavaScript holds any Python object, which a later visit would not have. An
      // installer's requests are over: what Python still holds of them is dropped.
      const memory = snapshot && python.makeMemorySnapshot({ serializer: other && (() => null) });
      await new Promise((resolve) => setTimeout(resolve, 500)); // the first characters come first
      if (memory && (await isSame())) await snapshot.remember(memory, version);
    };
    remember().catch(() => {}); // nothing is kept
  }
  const streams = python.pyimport("detok_py.page.streams");
  /** @type {{proxy: any, buffer: any} | undefined} */
  let inbox;
  return {
    interpreter: python,
    kept: began,
    streams,
    fill(bytes) {
      // A heap that has grown detaches all views of it; their length is 0 then.
      if (!inbox || inbox.buffer.data.length < bytes.length) {
        inbox?.buffer.release();
        inbox?.proxy.destroy();
        const proxy = streams.inbox(bytes.length);
        inbox = { proxy, buffer: proxy.getBuffer("u8") };
      }
      inbox.buffer.data.set(bytes);
      return bytes.length;
    },
    pack(name, file) {
      // Mounted, not copied: only the header of a GGUF file of many gigabytes is read.
      python.FS.mkdirTree("/given");
      python.FS.mount(python.FS.filesystems.WORKERFS, { blobs: [{ name, data: file }] }, "/given");
      const packed = streams.pack_tokenizer(`/given/${name}`);
      try {
        return packed.toJs();
      } finally {
        packed.destroy();
      }
    },
  };
}
