/**
 * Boots MicroPython with detok_py's decode path in this worker: 0.3 MB in all.
 *
 * In: the runtime's folder, with the files of tools/build_micropython.py. Out: a Python.
 */

/**
 * @typedef {(progress: import("./messages.js").Progress) => void} OnProgress
 *
 * @typedef {object} Python
 * @property {any} streams  The functions of detok_py/page/streams.py.
 * @property {(bytes: Uint8Array) => number | string} fill  Puts bytes where Python reads them.
 *   Returns the argument for Python's function (detok_py/page/inbox.py).
 * @property {(name: string, file: Blob) => Uint8Array | Promise<Uint8Array>} [pack]  Pack a
 *   tokenizer file's vocabulary.
 * @property {any} interpreter  MicroPython or Pyodide itself: `FS`, `runPython`, `pyimport`.
 * @property {boolean} kept  Whether it began with the memory of an earlier visit.
 */

/** @param {string} url @returns {Promise<Response>} */
export async function read(url) {
  const answer = await fetch(url);
  if (!answer.ok)
    throw new Error(`${new URL(url).pathname} could not be read (HTTP ${answer.status}).`);
  return answer;
}

/**
 * @param {string} runtimeUrl  Absolute, ending in "/".
 * @param {OnProgress} onProgress
 * @param {{files?: Record<string, string>}} [options]  Where a file is, if not in that folder.
 * @returns {Promise<Python>}
 */
export async function bootPython(runtimeUrl, onProgress, { files = {} } = {}) {
  onProgress({ step: "reading MicroPython", loaded: 0, total: 0 });
  /** @param {string} name */
  const url = (name) => new URL(files[name] ?? name, runtimeUrl).href;
  const wasm = url("micropython.wasm");
  const [{ loadMicroPython }, bundle, module] = await Promise.all([
    import(/* webpackIgnore: true */ /* @vite-ignore */ url("micropython.mjs")),
    read(url("detok_micropython.bin")).then((answer) => answer.arrayBuffer()),
    compile(wasm).catch(() => undefined), // micropython.mjs tries again, and tells what is wrong
  ]);
  onProgress({ step: "starting MicroPython", loaded: 0, total: 0 });
  // If a bundler has turned the module into a script, it exports nothing, but sets this global.
  const load = loadMicroPython ?? /** @type {any} */ (globalThis).loadMicroPython;
  return startPython(load, wasm, new Uint8Array(bundle), module);
}

/** @param {string} url */
const compile = async (url) => WebAssembly.compileStreaming(fetch(url));

/**
 * @param {(options: object) => Promise<any>} loadMicroPython
 * @param {string} wasm  The URL of micropython.wasm; in Node its path.
 * @param {Uint8Array} bundle
 * @param {WebAssembly.Module} [module]  Of that file.
 * @returns {Promise<Python>}
 */
export async function startPython(loadMicroPython, wasm, bundle, module) {
  // The heap grows from this size. The stack of calls doesn't: messages may be nested 64 deep.
  const python = await loadMicroPython({
    url: wasm,
    instantiateWasm:
      module &&
      ((/** @type {WebAssembly.Imports} */ imports, /** @type {Function} */ done) =>
        done(new WebAssembly.Instance(module, imports))),
    heapsize: 4 << 20,
    pystack: 64 << 10,
    stdout: () => {},
    stderr: () => {},
  });
  let made = "";
  unpack(bundle, (name, bytes) => {
    const path = `/detok/${name}`;
    const [folder] = /** @type {RegExpMatchArray} */ (/.*\//.exec(path));
    if (folder !== made) python.FS.mkdirTree((made = folder)); // slow for one that is there
    python.FS.writeFile(path, bytes);
  });
  python.FS.writeFile("/inbox", "");
  python.runPython(
    'import sys\nsys.path[:0] = ["/detok"]\nimport detok_start\nimport detok_py.page.streams',
  );
  const streams = python.pyimport("detok_py.page.streams");
  streams.read_from_file("/inbox");
  /** Looking up a function of a Python module is a call, so do it once for each. @type {any} */
  const known = {};
  return {
    interpreter: python,
    kept: false,
    streams: new Proxy(known, {
      get: (_, name) => (typeof name === "string" ? (known[name] ??= streams[name]) : undefined),
    }),
    fill(bytes) {
      // Writing a file takes longer than passing a few bytes along.
      if (bytes.length <= 256)
        return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
      python.FS.writeFile("/inbox", bytes);
      return bytes.length;
    },
  };
}

/**
 * Split a bundle: a line of JSON, `[[name, size], …]`, then the files one after another.
 * @param {Uint8Array} bundle
 * @param {(name: string, bytes: Uint8Array) => void} each
 */
export function unpack(bundle, each) {
  const line = bundle.indexOf(10);
  let at = line + 1;
  for (const [name, size] of JSON.parse(new TextDecoder().decode(bundle.subarray(0, line))))
    each(name, bundle.subarray(at, (at += size)));
}
