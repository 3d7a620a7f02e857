/**
 * Boots Pyodide with detok_py in this worker.
 *
 * In: the runtime's folder, with Pyodide's own files and python_core.zip: detok_py and a standard
 * library cut down to what it imports (tools/build_core.mjs). Or a module that installs detok_py in
 * another way (micropip.js). Out: a Python, as from boot-micropython.js. A first visit keeps
 * Python's memory once it has started, and later visits begin with it (memory-snapshot.js). An
 * installer may bring the memory of a Python that has just started, and then a first visit begins
 * with that.
 */

import { read } from "./boot-micropython.js";
import { MemorySnapshot, PAGE, sumOf, unpackMemory } from "./memory-snapshot.js";
import { FOLDER } from "./pyodide-package.js";

/**
 * @param {string} runtimeUrl  Absolute, ending in "/".
 * @param {import("./boot-micropython.js").OnProgress} onProgress
 * @param {{cache?: string | false, installer?: string, files?: object}} [options]  `cache` names
 *   the cache in Cache Storage where Python's memory is kept; `installer` is the URL of a module
 *   like micropip.js; with `files` the folder is MicroPython's own, which the page did not name.
 * @returns {Promise<import("./boot-micropython.js").Python>}
 */
export async function bootPython(runtimeUrl, onProgress, options = {}) {
  const { cache = false, installer, files } = options;
  if (files) runtimeUrl = new URL(FOLDER, runtimeUrl).href;
  onProgress({ step: "reading Pyodide", loaded: 0, total: 0 });
  /** @param {string} name */
  const url = (name) => new URL(name, runtimeUrl).href;
  const load = (/** @type {string} */ address) =>
    import(/* webpackIgnore: true */ /* @vite-ignore */ address);
  const emscripten = load(url("pyodide.asm.mjs"));
  const pyodide = load(url("pyodide.mjs"));
  const installed = installer
    ? load(installer).then(({ prepare }) => prepare(runtimeUrl, onProgress))
    : undefined;
  /** @type {Promise<{core: any, other: any, library: string, bytes: number, version: string}>} */
  const parts = Promise.all([
    read(url("python_core.json")).then((answer) => answer.json()),
    installed,
  ]).then(([core, other]) => ({
    core,
    other,
    ...(other ?? { library: "python_core.zip", bytes: core.bytes, version: core.sha256 }),
  }));
  // No package is loaded by its name.
  const lock = parts.then(({ core: { info } }) => ({ info, packages: {} }));
  for (const one of [emscripten, pyodide, parts, lock]) one.catch(() => {}); // awaited below
  // Keeping memory is optional: Python also starts when it fails.
  const snapshot = await MemorySnapshot.of(cache, url(installer ? "full/" : "")).catch(() => {});
  const found = await snapshot?.recall().catch(() => {});
  /**
   * Start Python, from a memory if there is one. WebAssembly is compiled while the memory is being
   * read.
   * @param {{memory?: Promise<ArrayBuffer>}} [begin]  Its memory is dropped once Python has it:
   *   Pyodide keeps its settings, and with them what this function uses.
   * @param {boolean} [whole]  Whether the memory is all that Python needs. Then the library is read
   *   only when Python imports a module of it, and the memory is not kept again.
   * @returns {Promise<any>}
   */
  const start = async (begin = {}, whole = false) => {
    const { loadPyodide } = await pyodide;
    const head = begin.memory && new Uint8Array(PAGE);
    /** @type {any} */
    let api;
    return loadPyodide({
      indexURL: runtimeUrl,
      // Pyodide expects a file here. This one is already read.
      stdLibURL: url(whole ? "python_core.json" : (await parts).library),
      lockFileContents: lock,
      packageBaseUrl: runtimeUrl,
      stdout: () => {},
      stderr: () => {},
      async createPyodideModule(/** @type {any} */ settings) {
        const { default: make } = await emscripten;
        const module = await Promise.race([wasmFailure(), make(settings)]);
        if (!head) return module;
        api = module.API;
        if (whole) {
          const { library, bytes, version } = await parts;
          if (found?.version !== version) throw new Error("The memory is of another version.");
          readWhenAsked(module.FS, url(library), bytes);
        }
        const { memory } = begin;
        delete begin.memory;
        if (memory) unpackMemory(await memory, head, module.HEAPU8);
        return module;
      },
      _makeSnapshot: !whole && snapshot !== undefined,
      _loadSnapshot: head,
      _snapshotDeserializer: (/** @type {string[] | null} */ path) =>
        path && path.reduce((/** @type {any} */ object, name) => object[name], api.public_api),
    });
  };
  /** @type {any} */
  let python;
  let began = false;
  if (found) {
    // WebAssembly is compiled while the version of the memory is checked.
    try {
      const files = parts.then(({ other }) => other?.files());
      files.catch(() => {}); // awaited below
      python = await start(found, true);
      (await parts).other?.restore(python, await files);
      began = true;
    } catch {
      // The memory is damaged, or of another Pyodide or version: start as on a first visit.
    }
  }
  onProgress({ step: "starting Python", loaded: 0, total: 0 });
  if (!began) {
    const { other, version } = await parts;
    const started = { memory: other?.started() };
    const tool = other?.tool();
    tool?.catch(() => {}); // awaited below
    python = (started.memory && (await start(started).catch(() => undefined))) ?? (await start());
    await other?.install(python, await tool);
    python.runPython("import detok_py.page.streams");
    /** Whether the library is of this version: the site may be changing at this moment. */
    const isSame = async () => {
      const node = libraryNode(python.FS);
      return version.startsWith(await sumOf(node.contents.subarray(0, node.usedBytes)));
    };
    const remember = async () => {
      // Made before JavaScript holds a Python object, which a later visit would not have. The
      // installer's requests have ended, so Python's objects of them are dropped.
      const memory =
        snapshot &&
        encodingInJavaScript(() =>
          python.makeMemorySnapshot({ serializer: other && (() => null) }),
        );
      await new Promise((resolve) => setTimeout(resolve, 500)); // the first characters come first
      if (memory && (await isSame())) await snapshot.remember(memory, version);
    };
    remember().catch(() => {}); // nothing is kept
  }
  const streams = python.pyimport("detok_py.page.streams");
  return {
    interpreter: python,
    kept: began,
    streams,
    fill: filler(streams),
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

/**
 * Rejects if the next WebAssembly cannot be read or compiled. Pyodide only warns, and waits
 * forever.
 * @returns {Promise<never>}
 */
function wasmFailure() {
  const { instantiateStreaming } = WebAssembly;
  return new Promise((_, reject) => {
    WebAssembly.instantiateStreaming = (...words) => {
      WebAssembly.instantiateStreaming = instantiateStreaming;
      const made = instantiateStreaming(...words);
      made.catch(reject);
      return made;
    };
  });
}

/**
 * Do something without `encodeInto`, which Pyodide gives the memory that it makes: the browser's
 * engine would hold the whole of it until it next collects garbage.
 * @template T
 * @param {() => T} work
 * @returns {T}
 */
function encodingInJavaScript(work) {
  const { encodeInto } = TextEncoder.prototype;
  /** @param {string} text @param {Uint8Array} bytes */
  TextEncoder.prototype.encodeInto = function (text, bytes) {
    const encoded = this.encode(text);
    bytes.set(encoded);
    return { read: text.length, written: encoded.length };
  };
  try {
    return work();
  } finally {
    TextEncoder.prototype.encodeInto = encodeInto;
  }
}

/**
 * A function that puts bytes where Python reads them, and returns their number.
 * @param {any} streams  detok_py.page.streams
 * @returns {(bytes: Uint8Array) => number}
 */
export function filler(streams) {
  /** @type {{proxy: any, buffer: any} | undefined} */
  let inbox;
  return (bytes) => {
    // A heap that has grown detaches all views of it; their length is 0 then.
    if (!inbox || inbox.buffer.data.length < bytes.length) {
      inbox?.buffer.release();
      inbox?.proxy.destroy();
      const proxy = streams.inbox(bytes.length);
      inbox = { proxy, buffer: proxy.getBuffer("u8") };
    }
    inbox.buffer.data.set(bytes);
    return bytes.length;
  };
}

/** The standard library's file. @param {any} FS */
const libraryNode = (FS) =>
  FS.lookupPath(
    `/lib/${FS.readdir("/lib").find((/** @type {string} */ name) => name.endsWith(".zip"))}`,
  ).node;

/**
 * Put the standard library in its place. Its URL is requested when Python first reads the file.
 * Python waits for that, so the request is synchronous.
 * @param {any} FS
 * @param {string} url
 * @param {number} size
 */
function readWhenAsked(FS, url, size) {
  const node = libraryNode(FS);
  /** @type {Uint8Array | undefined} */
  let bytes;
  const read = () => {
    const request = new XMLHttpRequest();
    request.open("GET", url, false);
    // This form also works outside workers, where a synchronous request may not give bytes.
    request.overrideMimeType("text/plain; charset=x-user-defined");
    request.send();
    const text = request.status === 200 ? request.responseText : "";
    // A file of another size is of another version of the site; Python says that it is no zip.
    const found = new Uint8Array(size);
    if (text.length === size) for (let at = 0; at < size; at++) found[at] = text.charCodeAt(at);
    return found;
  };
  Object.defineProperty(node, "contents", { get: () => (bytes ??= read()) });
  node.usedBytes = size;
}
