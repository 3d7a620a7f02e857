/**
 * Installs detok_py with micropip, in a Pyodide with its whole standard library, for the option
 * `install: "micropip"`.
 *
 * In: a runtime's folder, as a bridge serves it, with `manifest.json` (`{file: {bytes, sha256}}`,
 * of uncompressed files) and the wheels of micropip and detok_py. It may have `memory.bin`, the
 * memory of a Pyodide that has imported micropip and installed nothing yet, and
 * `detok_bytecode.bin`, the compiled modules of detok_py. boot-pyodide.js imports this module on
 * demand.
 */

import { unpack } from "./boot-micropython.js";
import { readMemory } from "./memory-snapshot.js";

/** Optional file beside the wheel: the bytecode of its modules. */
const BYTECODE = "detok_bytecode.bin";

/** The wheels, from which modules are imported directly. */
const MICROPIP = "/lib/micropip.whl";
const WHEEL = "/lib/detok_py.whl";

const IMPORT_MICROPIP = `import sys
if "${MICROPIP}" not in sys.path: sys.path.append("${MICROPIP}")
import micropip`;

/** Drop what micropip leaves in memory: it would not be valid on a later visit. */
const FORGET_MICROPIP = `import gc, sys
sys.path.remove("${MICROPIP}")
for name in [name for name in sys.modules if name.startswith("micropip")]: del sys.modules[name]
gc.collect()`;

/** A memory has no files, so modules that are imported later are read from the wheel. */
const IMPORT_FROM_WHEEL = `import sys
for name, module in sys.modules.items():
    if name.split(".")[0] == "detok_py" and hasattr(module, "__path__"):
        module.__path__ = ["${WHEEL}/" + name.replace(".", "/")]`;

/** Import micropip from its wheel. @param {any} python @param {Uint8Array} wheel */
export function importMicropip(python, wheel) {
  python.FS.writeFile(MICROPIP, wheel);
  python.runPython(IMPORT_MICROPIP);
}

/**
 * @typedef {object} Installer
 * @property {string} library  The standard library's file.
 * @property {number} bytes  Its size.
 * @property {string} version  Names what is installed: the hashes of the library and of detok_py.
 * @property {() => Promise<ArrayBuffer> | undefined} started  The memory of a Python that has just
 *   started, where there is one.
 * @property {() => Promise<any>} tool  What `install` takes: micropip, and bytecode of detok_py.
 * @property {(python: any, tool: any) => Promise<void>} install  Installs detok_py in a Python that
 *   has just started.
 * @property {() => Promise<Uint8Array>} files  What `restore` takes: detok_py's wheel.
 * @property {(python: any, files: Uint8Array) => void} restore  Adds its wheel to a Python whose
 *   memory has detok_py already.
 */

/**
 * Read what the folder has, and report the download of its files.
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
  const wheel = find(/^detok_py-.*-any\.whl$/);
  const pyodide = [/^pyodide\.mjs$/, /^pyodide\.asm\.mjs$/, /^pyodide\.asm\.wasm$/].map(find);
  tellBytes(
    [...pyodide, library, micropip, wheel].map(({ name, bytes }) => [url(name), bytes]),
    onProgress,
  );
  return {
    library: library.name,
    bytes: library.bytes,
    version: `${library.sha256}-${wheel.sha256}`,
    started: () => (manifest["memory.bin"] ? read("memory.bin").then(readMemory) : undefined),
    tool: () =>
      Promise.all([
        bytes(micropip.name),
        manifest[BYTECODE] && bytes(BYTECODE).catch(() => undefined),
      ]),
    async install(python, [micropip, bytecode]) {
      importMicropip(python, micropip); // `memory.bin` has some of its modules, but not all
      const installer = python.pyimport("micropip");
      await installer.install(url(wheel.name));
      installer.destroy();
      if (bytecode) {
        const folder = python.runPython("import site; site.getsitepackages()[0]");
        unpack(bytecode, (name, bytes) => {
          const path = `${folder}/${name}`;
          python.FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
          python.FS.writeFile(path, bytes);
        });
      }
      python.runPython(FORGET_MICROPIP);
      // If Python began with a memory, `python.loadedPackages` is another object.
      const loader = python.pyimport("pyodide._package_loader");
      for (const name of Object.keys(loader.loadedPackages)) delete loader.loadedPackages[name];
      loader.destroy();
    },
    files: () => bytes(wheel.name),
    restore(python, files) {
      python.FS.writeFile(WHEEL, files);
      python.runPython(IMPORT_FROM_WHEEL);
    },
  };
}

/**
 * Report how many bytes have been read, uncompressed, whenever one of these files has come.
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
