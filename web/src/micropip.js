/**
 * detok_py by micropip, into Pyodide with its whole standard library: `install: "micropip"`.
 *
 * In: a runtime's folder with `manifest.json` (`{file: {bytes, sha256}}`, of uncompressed files),
 * micropip's wheel and detok_py's, as a bridge has it. It may have `memory.bin` too: what Pyodide's
 * memory is when it has started, before anything is installed. boot-pyodide.js imports this in the
 * worker, where it is asked for; it is no part of the worker's own file.
 */

import { readMemory } from "./memory-snapshot.js";

/** Where the wheels are that are imported from as they are. */
const MICROPIP = "/lib/micropip.whl";
const WHEEL = "/lib/detok_py.whl";

const FIND_MICROPIP = `import sys
sys.path.append("${MICROPIP}")`;

/** What micropip leaves behind would not be there on a later visit, and must not be kept. */
const FORGET_MICROPIP = `import gc, sys
sys.path.remove("${MICROPIP}")
for name in [name for name in sys.modules if name.startswith("micropip")]: del sys.modules[name]
gc.collect()`;

/** Memory has no files: modules that are imported later are read from the wheel. */
const IMPORT_FROM_WHEEL = `import sys
for name, module in sys.modules.items():
    if name.split(".")[0] == "detok_py" and hasattr(module, "__path__"):
        module.__path__ = ["${WHEEL}/" + name.replace(".", "/")]`;

/**
 * @typedef {object} Installer
 * @property {string} library  The standard library's file.
 * @property {string} version  Names what is installed: the hashes of the library and of detok_py.
 * @property {() => Promise<Uint8Array> | undefined} started  The memory of a Python that has just
 *   started, where there is one.
 * @property {() => Promise<Uint8Array>} tool  What `install` takes: micropip.
 * @property {(python: any, tool: Uint8Array) => Promise<void>} install  Into a Python that has just
 *   started.
 * @property {() => Promise<Uint8Array>} files  What `restore` takes: detok_py's wheel.
 * @property {(python: any, files: Uint8Array) => void} restore  Into a Python whose memory has
 *   detok_py already.
 */

/**
 * @param {string} runtimeUrl  Absolute, ending in "/".
 * @param {import("./boot-micropython.js").OnProgress} onProgress
 * @returns {Promise<Installer>}
 */
export async function prepare(runtimeUrl, onProgress) {
  /** @param {string} name */
  const url = (name) => new URL(name, runtimeUrl).href;
  /** @param {string} name */
  const read = async (name) => {
    const answer = await fetch(url(name));
    if (!answer.ok) throw new Error(`${name} could not be read (HTTP ${answer.status}).`);
    return answer;
  };
  /** @param {string} name */
  const bytes = async (name) => new Uint8Array(await (await read(name)).arrayBuffer());
  /** @type {Record<string, {bytes: number, sha256: string}>} */
  const manifest = await (await read("manifest.json")).json();
  /** @param {RegExp} pattern */
  const find = (pattern) => {
    const found = Object.entries(manifest).find(([name]) => pattern.test(name));
    if (!found)
      throw new Error(`The runtime has no file ${pattern.source}: run "make demo" again.`);
    return { name: found[0], ...found[1] };
  };
  const library = find(/stdlib.*\.zip$/);
  const micropip = find(/^micropip-.*\.whl$/);
  const wheel = find(/^detok_py-.*\.whl$/);
  const pyodide = [/^pyodide\.mjs$/, /^pyodide\.asm\.mjs$/, /^pyodide\.asm\.wasm$/].map(find);
  tellBytes(
    [...pyodide, library, micropip, wheel].map(({ name, bytes }) => [url(name), bytes]),
    onProgress,
  );
  return {
    library: library.name,
    version: `${library.sha256}-${wheel.sha256}`,
    started: () => (manifest["memory.bin"] ? read("memory.bin").then(readMemory) : undefined),
    tool: () => bytes(micropip.name),
    async install(python, tool) {
      python.FS.writeFile(MICROPIP, tool);
      python.runPython(FIND_MICROPIP);
      const installer = python.pyimport("micropip");
      await installer.install(url(wheel.name));
      installer.destroy();
      python.runPython(FORGET_MICROPIP);
      for (const name of Object.keys(python.loadedPackages)) delete python.loadedPackages[name];
    },
    files: () => bytes(wheel.name),
    restore(python, files) {
      python.FS.writeFile(WHEEL, files);
      python.runPython(IMPORT_FROM_WHEEL);
    },
  };
}

/**
 * Tell how many bytes have been read, uncompressed, whenever one of these files is there.
 * @param {[url: string, bytes: number][]} files
 * @param {import("./boot-micropython.js").OnProgress} onProgress
 */
function tellBytes(files, onProgress) {
  const left = new Map(files);
  const total = files.reduce((sum, [, bytes]) => sum + bytes, 0);
  let loaded = 0;
  new PerformanceObserver((list) => {
    for (const { name } of list.getEntries()) {
      loaded += left.get(name) ?? 0;
      if (left.delete(name))
        onProgress({ step: name.slice(name.lastIndexOf("/") + 1), loaded, total });
    }
  }).observe({ type: "resource", buffered: true });
}
