/**
 * Boots Python in this worker: Pyodide from the bridge's `/runtime/`, then detok_py by micropip from the wheel there.
 *
 * In: the folder's URL, which holds `manifest.json` (`{file: {bytes, …}}`, raw sizes). Out: the Pyodide instance.
 * Progress is told in raw bytes of what the boot needs, because a compressed response's length says nothing about it.
 * Nothing is read from anywhere but that folder.
 */

/**
 * @typedef {object} Progress
 * @property {string} step   What is going on, for people: "pyodide.asm.wasm", "starting Python"…
 * @property {number} loaded Bytes so far, uncompressed.
 * @property {number} total  Bytes in all, uncompressed; 0 while unknown.
 *
 * @typedef {Record<string, {bytes: number}>} Manifest
 */

/**
 * The files that a boot loads, by what they are for.
 * @param {Manifest} manifest
 */
function filesFor(manifest) {
  const names = Object.keys(manifest);
  /** @param {RegExp} pattern @param {string} what */
  const one = (pattern, what) => {
    const name = names.find((candidate) => pattern.test(candidate));
    if (!name) throw new Error(`The runtime has no ${what}: run "make demo" again, it builds what is missing.`);
    return name;
  };
  return {
    loader: one(/^pyodide\.mjs$/, "pyodide.mjs"),
    glue: one(/^pyodide\.asm\.mjs$/, "pyodide.asm.mjs"),
    wasm: one(/^pyodide\.asm\.wasm$/, "pyodide.asm.wasm"),
    lock: one(/^pyodide-lock\.json$/, "pyodide-lock.json"),
    stdlib: one(/stdlib.*\.zip$/, "standard library"),
    micropip: one(/^micropip-.*\.whl$/, "micropip wheel"),
    detok: one(/^detok_py-.*\.whl$/, "detok_py wheel"),
  };
}

/**
 * A `fetch` that reports each byte that its caller reads. The response keeps its headers, so that WebAssembly still
 * compiles while it streams.
 * @param {typeof fetch} plainFetch
 * @param {(url: URL, bytes: number) => void} onBytes
 * @returns {typeof fetch}
 */
function countingFetch(plainFetch, onBytes) {
  return async (input, init) => {
    const response = await plainFetch(input, init);
    if (!response.body || !response.ok) return response;
    const url = new URL(response.url);
    const counted = response.body.pipeThrough(
      new TransformStream({
        transform(chunk, controller) {
          onBytes(url, chunk.byteLength);
          controller.enqueue(chunk);
        },
      }),
    );
    const { status, statusText, headers } = response;
    const copy = new Response(counted, { status, statusText, headers });
    Object.defineProperty(copy, "url", { value: response.url });
    return copy;
  };
}

/**
 * Boot Python with detok_py in it.
 * @param {string} runtimeUrl  Absolute URL of the runtime's folder, ending in "/".
 * @param {(progress: Progress) => void} onProgress
 * @returns {Promise<any>} Pyodide's instance; `detok_py` can be imported in it.
 */
export async function bootPython(runtimeUrl, onProgress) {
  const plainFetch = globalThis.fetch;
  const answer = await plainFetch(new URL("manifest.json", runtimeUrl));
  if (!answer.ok) throw new Error(`The runtime's manifest could not be read (HTTP ${answer.status}): run "make demo" again, it builds what is missing.`);
  const manifest = /** @type {Manifest} */ (await answer.json());
  const files = filesFor(manifest);
  /** @param {string} name */
  const size = (name) => manifest[name]?.bytes ?? 0;
  const total = Object.values(files).reduce((sum, name) => sum + size(name), 0);
  let loaded = 0;
  /** @param {string} step @param {number} bytes */
  const advance = (step, bytes) => onProgress({ step, loaded: Math.min((loaded += bytes), total), total });
  /** @param {string} name */
  const url = (name) => new URL(name, runtimeUrl).href;
  const wanted = new Set(Object.values(files).map(url));
  advance("reading Python", 0);

  // Pyodide and micropip take the global fetch; modules don't, so their bytes are added when they have been imported.
  globalThis.fetch = countingFetch(plainFetch, ({ href, pathname }, bytes) => {
    if (wanted.has(href)) advance(pathname.slice(pathname.lastIndexOf("/") + 1), bytes);
  });
  try {
    const [{ loadPyodide }, lock] = await Promise.all([import(url(files.loader)), fetch(url(files.lock)).then((response) => response.json())]);
    advance(files.loader, size(files.loader));
    const python = await loadPyodide({
      indexURL: runtimeUrl,
      stdLibURL: url(files.stdlib),
      // What the lock says of this Pyodide, and none of its packages: nothing is loaded by name, the wheels below are given by URL.
      lockFileContents: { info: lock.info, packages: {} },
      packageBaseUrl: runtimeUrl,
      stdout: () => {},
      stderr: () => {},
    });
    advance("starting Python", size(files.glue));
    await python.loadPackage(url(files.micropip), { messageCallback: () => {} });
    const micropip = python.pyimport("micropip");
    try {
      await micropip.install(url(files.detok));
    } finally {
      micropip.destroy();
    }
    return python;
  } finally {
    globalThis.fetch = plainFetch;
  }
}
