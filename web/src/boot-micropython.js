/**
 * Boots MicroPython in this worker, with detok_py's decode path: 0.3 MB in all.
 *
 * In: the runtime's folder, which holds micropython.mjs, micropython.wasm and detok_micropython.bin (tools/build_micropython.py).
 * Out: the functions of web/python/detok_embed.py, and `fill`, which puts bytes where they read them.
 */

/** @typedef {import("./messages.js").Progress} Progress */

/**
 * @typedef {object} Python
 * @property {any} embed  The functions of detok_embed.
 * @property {(bytes: Uint8Array) => any} fill  Put bytes where Python reads them; returns what those functions take for it.
 * @property {(name: string, file: Blob) => Uint8Array} [pack]  The packed vocabulary of a tokenizer file.
 * @property {any} interpreter  MicroPython or Pyodide itself: `FS`, `runPython`, `pyimport`.
 */

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** @param {URL} url @returns {Promise<Response>} */
async function read(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url.pathname} could not be read (HTTP ${answer.status}).`);
  return answer;
}

/**
 * @param {string} runtimeUrl  Absolute, ending in "/".
 * @param {(progress: Progress) => void} onProgress
 * @param {Record<string, string>} [files]  Where each file is, if not in that folder under its own name.
 * @returns {Promise<Python>}
 */
export async function bootPython(runtimeUrl, onProgress, files = {}) {
  onProgress({ step: "reading MicroPython", loaded: 0, total: 0 });
  /** @param {string} name */
  const file = (name) => new URL(files[name] ?? name, runtimeUrl);
  const wasmUrl = file("micropython.wasm").href;
  const [{ loadMicroPython }, bundle, wasm] = await Promise.all([
    import(/* webpackIgnore: true */ /* @vite-ignore */ file("micropython.mjs").href),
    read(file("detok_micropython.bin")).then((answer) => answer.arrayBuffer()),
    read(new URL(wasmUrl)),
  ]);
  onProgress({ step: "starting MicroPython", loaded: 0, total: 0 });
  // MicroPython fetches its wasm itself, once its script is there. It is given, once, what has been on its way since the beginning.
  const plainFetch = globalThis.fetch;
  globalThis.fetch = (input, init) => (String(input) === wasmUrl && !wasm.bodyUsed ? Promise.resolve(wasm) : plainFetch(input, init));
  try {
    return await startPython(loadMicroPython, wasmUrl, new Uint8Array(bundle));
  } finally {
    globalThis.fetch = plainFetch;
  }
}

/**
 * @param {(options: object) => Promise<any>} loadMicroPython
 * @param {string} wasm  The URL of micropython.wasm; in Node its path.
 * @param {Uint8Array} bundle
 * @returns {Promise<Python>}
 */
export async function startPython(loadMicroPython, wasm, bundle) {
  // The heap grows by itself; this is where it begins. The stack of calls does not: a message may be nested 64 deep.
  const python = await loadMicroPython({ url: wasm, heapsize: 4 << 20, pystack: 64 << 10, stdout: () => {}, stderr: () => {} });
  unpack(bundle, (name, bytes) => {
    const path = `/detok/${name}`;
    python.FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
    python.FS.writeFile(path, bytes);
  });
  python.runPython('import sys\nsys.path[:0] = ["/detok"]\nimport detok_start\nimport detok_embed');
  const embed = python.pyimport("detok_embed");
  /** Looked up once: each look at a Python module costs a call. @type {Record<string, any>} */
  const kept = {};
  return {
    interpreter: python,
    embed: new Proxy(kept, { get: (_, name) => (typeof name === "string" ? (kept[name] ??= embed[name]) : undefined) }),
    fill(bytes) {
      // A few go with the call that they are for: a visit to the file costs more than that call.
      if (bytes.length <= 256) return Array.from(bytes, (byte) => HEX[byte]).join("");
      python.FS.writeFile("/inbox", bytes);
      (kept.read_inbox ??= embed.read_inbox)(bytes.length);
      return bytes.length;
    },
  };
}

/**
 * Take a bundle apart: a line of JSON, `[[name, size], …]`, and the files one after another.
 * @param {Uint8Array} bundle
 * @param {(name: string, bytes: Uint8Array) => void} each
 */
export function unpack(bundle, each) {
  const line = bundle.indexOf(10);
  let at = line + 1;
  for (const [name, size] of JSON.parse(new TextDecoder().decode(bundle.subarray(0, line)))) {
    each(name, bundle.subarray(at, at + size));
    at += size;
  }
}
