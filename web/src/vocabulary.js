/**
 * Vocabularies: fetched once, kept in Cache Storage, checked before anything is decoded with them.
 *
 * In: the URL of a packed vocabulary (`/vocabulary/<sha256>.detok`) or of a tokenizer file, or such a file that a user has chosen. Out: a
 * Vocabulary, which DetokStream and connect take. A tokenizer.json, *.gguf, *.tiktoken or tekken.json is packed by Pyodide, which is
 * loaded for that and let go of afterwards.
 */

import { DecoderWorker, DetokError, decoderWorker } from "./decoder.js";

/**
 * @typedef {object} Vocabulary
 * @property {string} sha256
 * @property {number} size    How many ids it has.
 * @property {Uint8Array} bytes  The packed file.
 *
 * @typedef {object} LoadOptions
 * @property {string} [sha256]  What it must be; a URL that ends in `<sha256>.detok` says so itself.
 * @property {string | false} [cache]  Name of the cache in Cache Storage, or false. Default "detok".
 * @property {(progress: {loaded: number, total: number}) => void} [onProgress]  Bytes so far and in all; total is 0 where the server doesn't say.
 * @property {AbortSignal} [signal]
 */

const MAGIC = [0x64, 0x65, 0x74, 0x6f, 0x6b, 1]; // "detok", version 1

/**
 * Load a vocabulary. Rejects with a DetokError when it is damaged or is not the one that was asked for.
 * @param {string | URL | Blob} source
 * @param {LoadOptions & import("./decoder.js").RuntimeOptions} [options]
 * @returns {Promise<Vocabulary>}
 */
export async function loadVocabulary(source, options = {}) {
  const { cache = "detok", onProgress = () => {}, signal } = options;
  if (source instanceof Blob) {
    const bytes = new Uint8Array(await source.arrayBuffer());
    onProgress({ loaded: bytes.length, total: bytes.length });
    return check(bytes, "name" in source ? String(source.name) : "tokenizer.json", options.sha256, options);
  }
  const url = new URL(source, typeof document === "undefined" ? undefined : document.baseURI);
  const name = url.pathname.slice(url.pathname.lastIndexOf("/") + 1);
  const wanted = options.sha256 ?? /^([0-9a-f]{64})\.detok$/.exec(name)?.[1];
  // Private windows and plain-HTTP pages have no Cache Storage, or refuse it; the file is fetched then.
  const store = cache && globalThis.caches ? await caches.open(cache).catch(() => undefined) : undefined;
  const kept = await store?.match(url);
  if (kept) {
    try {
      return await check(new Uint8Array(await kept.arrayBuffer()), name, wanted, options);
    } catch {
      await store?.delete(url); // damaged, or replaced since: fetch it again
    }
  }
  const answer = await fetch(url, { signal });
  if (!answer.ok) throw new DetokError(`The vocabulary ${url.href} could not be read (HTTP ${answer.status}).`);
  const bytes = await readAll(answer, onProgress);
  const vocabulary = await check(bytes, name, wanted, options);
  await store?.put(url, new Response(/** @type {any} */ (vocabulary.bytes))).catch(() => {}); // a full disk is no reason to fail
  return vocabulary;
}

/**
 * @param {Uint8Array} bytes
 * @param {string} name
 * @param {string | undefined} wanted
 * @param {import("./decoder.js").RuntimeOptions} options
 * @returns {Promise<Vocabulary>}
 */
async function check(bytes, name, wanted, options) {
  const packed = MAGIC.every((byte, n) => bytes[n] === byte) ? bytes : await pack(name, bytes, options);
  const [sha256, size] = await decoderWorker(options).call("keepVocabulary", packed);
  if (wanted !== undefined && wanted !== sha256) {
    throw new DetokError(`The vocabulary is ${sha256.slice(0, 12)}… and ${wanted.slice(0, 12)}… was asked for, so nothing is decoded with it.`, { code: 4409 });
  }
  return Object.freeze({ sha256, size, bytes: packed });
}

/**
 * @param {string} name @param {Uint8Array} bytes @param {import("./decoder.js").RuntimeOptions} options
 * @returns {Promise<Uint8Array>}
 */
async function pack(name, bytes, options) {
  const worker = new DecoderWorker({ ...options, runtime: "pyodide" });
  try {
    return await worker.call("packTokenizer", name, bytes);
  } finally {
    worker.die(new DetokError("The worker that packs tokenizers has done its work."));
  }
}

/**
 * @param {Response} answer
 * @param {(progress: {loaded: number, total: number}) => void} onProgress
 */
async function readAll(answer, onProgress) {
  // The length of a compressed body is not that of what comes out of it.
  const total = answer.headers.get("content-encoding") ? 0 : Number(answer.headers.get("content-length")) || 0;
  if (!answer.body) return new Uint8Array(await answer.arrayBuffer());
  /** @type {Uint8Array[]} */
  const parts = [];
  let loaded = 0;
  const reader = answer.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    onProgress({ loaded: (loaded += part.value.length), total });
  }
  const bytes = new Uint8Array(loaded);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
