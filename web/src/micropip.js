/**
 * detok_py by micropip, into Pyodide with its whole standard library: `install: "micropip"`.
 *
 * In: a runtime's folder with `manifest.json` (`{file: {bytes, sha256}}`, of uncompressed files),
 * micropip's wheel and detok_py's, as a bridge has it. boot-pyodide.js imports this in the worker,
 * where it is asked for; it is no part of the worker's own file.
 */

/** What micropip leaves behind would not be there on a later visit, and must not be kept. */
const FORGET_MICROPIP = `import gc, sys
for name in [name for name in sys.modules if name.startswith("micropip")]: del sys.modules[name]
gc.collect()`;

/**
 * @typedef {object} Installer
 * @property {string} library  The standard library's file.
 * @property {string} version  Names what is installed: the hashes of the library and of detok_py.
 * @property {(python: any) => Promise<void>} install  Into a Python that has just started.
 * @property {(python: any) => Promise<void>} restore  Into a Python whose memory has it already.
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
    async install(python) {
      await python.loadPackage(url(micropip.name), { messageCallback: () => {} });
      const installer = python.pyimport("micropip");
      await installer.install(url(wheel.name));
      installer.destroy();
      python.runPython(FORGET_MICROPIP);
      for (const name of Object.keys(python.loadedPackages)) delete python.loadedPackages[name];
    },
    async restore(python) {
      // Memory has no files, and modules that are imported later are read from files.
      const files = await (await read(wheel.name)).arrayBuffer();
      const extractDir = python.runPython("import site; site.getsitepackages()[0]");
      python.unpackArchive(files, "wheel", { extractDir });
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
