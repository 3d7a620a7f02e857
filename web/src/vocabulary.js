/**
 * Vocabularies: fetched once, kept in Cache Storage, checked before anything is decoded with them.
 *
 * One whose SHA-256 is known is taken from the cache without a request. Otherwise the server is asked first whether the file is still the
 * same (ETag, Last-Modified): ids read with last week's table are fluent nonsense.
 *
 * In: the URL of a packed vocabulary (`/vocabulary/<sha256>.detok`) or of a tokenizer file, or such a file that a user has chosen. Out: a
 * Vocabulary, which DetokStream and connect take. A tokenizer.json, *.gguf, *.tiktoken or tekken.json is packed by Pyodide, which is
 * loaded for that and let go of afterwards.
 */

import { DecoderWorker, DetokError, asDetokError, base, decoderWorker } from "./decoder.js";

/**
 * @typedef {object} Vocabulary
 * @property {string} sha256
 * @property {number} size    How many ids it has.
 * @property {Uint8Array} bytes  The packed file.
 *
 * @typedef {object} LoadOptions
 * @property {string} [sha256]  What the packed vocabulary must be; a URL that ends in `<sha256>.detok` says so itself.
 * @property {string | false} [cache]  Name of the cache in Cache Storage, or false. Default "detok".
 * @property {(progress: {loaded: number, total: number}) => void} [onProgress]  Bytes so far and in all; total is 0 where the server doesn't say.
 * @property {AbortSignal} [signal]
 */

const MAGIC = "detok\u0001"; // version 1

/**
 * Load a vocabulary. Rejects with a DetokError when it is damaged, cannot be had, or is not the one that was asked for.
 * @param {string | URL | Blob} source
 * @param {LoadOptions & import("./decoder.js").RuntimeOptions} [options]
 * @returns {Promise<Vocabulary>}
 */
export async function loadVocabulary(source, options = {}) {
  const { cache = "detok", onProgress = () => {}, signal } = options;
  signal?.throwIfAborted();
  if (source instanceof Blob) {
    onProgress({ loaded: source.size, total: source.size });
    return check(await packed(source, "name" in source ? String(source.name) : "tokenizer.json", options), options.sha256, options);
  }
  const url = new URL(source, base());
  const name = url.pathname.slice(url.pathname.lastIndexOf("/") + 1);
  const wanted = options.sha256 ?? /^([0-9a-f]{64})\.detok$/.exec(name)?.[1];
  // Private windows and plain-HTTP pages have no Cache Storage, or refuse it; the file is fetched then.
  const store = cache && globalThis.caches ? await caches.open(cache).catch(() => undefined) : undefined;
  const kept = await store?.match(url);
  if (kept && (wanted || (await isCurrent(url, kept, signal)))) {
    try {
      return await check(new Uint8Array(await kept.arrayBuffer()), wanted, options);
    } catch (error) {
      if (asDetokError(error).retry) throw error; // it is not the file's fault
      await store?.delete(url); // damaged, or replaced since: fetch it again
    }
  }
  const [file, headers] = await fetchAll(url, signal, onProgress);
  const vocabulary = await check(await packed(file, name, options), wanted, options);
  await store?.put(url, new Response(/** @type {any} */ (vocabulary.bytes), { headers })).catch(() => {}); // a full disk is no reason to fail
  return vocabulary;
}

/** By which two versions of a file are told apart, where the server says it. @param {Response} answer @returns {[string, string][]} */
const versionOf = ({ headers }) => ["etag", "last-modified"].flatMap((name) => (headers.has(name) ? [[name, String(headers.get(name))]] : []));

/**
 * Whether the server still has what was kept. Where it cannot be reached, what was kept is all there is.
 * @param {URL} url @param {Response} kept @param {AbortSignal | undefined} signal
 */
async function isCurrent(url, kept, signal) {
  try {
    const now = await fetch(url, { method: "HEAD", cache: "no-cache", signal });
    return now.ok && versionOf(kept).length > 0 && String(versionOf(now)) === String(versionOf(kept));
  } catch {
    signal?.throwIfAborted();
    return true;
  }
}

/**
 * @param {Uint8Array} bytes
 * @param {string | undefined} wanted
 * @param {LoadOptions & import("./decoder.js").RuntimeOptions} options
 * @returns {Promise<Vocabulary>}
 */
async function check(bytes, wanted, options) {
  const worker = decoderWorker(options);
  const [sha256, size] = await worker.call("keepVocabulary", bytes);
  options.signal?.throwIfAborted();
  if (wanted !== undefined && wanted !== sha256) {
    throw new DetokError(`The vocabulary is ${sha256.slice(0, 12)}… and ${wanted.slice(0, 12)}… was asked for, so nothing is decoded with it.`, { code: 4409 });
  }
  worker.vocabularies.set(sha256, Promise.resolve());
  return Object.freeze({ sha256, size, bytes });
}

/**
 * @param {Blob} file @param {string} name @param {import("./decoder.js").RuntimeOptions} options
 * @returns {Promise<Uint8Array>}
 */
async function packed(file, name, options) {
  // What is called packed is never taken for a tokenizer file: a proxy's page in its place would bring 5 MB of Python to say so.
  if (name.endsWith(".detok") || (await file.slice(0, MAGIC.length).text()) === MAGIC) return new Uint8Array(await file.arrayBuffer());
  const worker = new DecoderWorker({ ...options, runtime: "pyodide" });
  try {
    return await worker.call("packTokenizer", name, file);
  } finally {
    worker.die(new DetokError("The worker that packs tokenizers has done its work."));
  }
}

/**
 * @param {URL} url @param {AbortSignal | undefined} signal
 * @param {(progress: {loaded: number, total: number}) => void} onProgress
 * @returns {Promise<[file: Blob, version: [string, string][]]>}
 */
async function fetchAll(url, signal, onProgress) {
  /** @param {string} why @param {unknown} [cause] */
  const failure = (why, cause) => new DetokError(`The vocabulary ${url.href} could not be read (${why}).`, { cause, retry: true });
  let answer;
  try {
    answer = await fetch(url, { cache: "no-cache", signal }); // not what a browser thinks may still be fresh
    if (!answer.ok) throw failure(`HTTP ${answer.status}`);
    // The length of a compressed body is not that of what comes out of it.
    const total = answer.headers.get("content-encoding") ? 0 : Number(answer.headers.get("content-length")) || 0;
    /** @type {any[]} */
    const parts = [];
    let loaded = 0;
    const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      parts.push(part.value);
      onProgress({ loaded: (loaded += part.value.length), total });
    }
    return [new Blob(parts), versionOf(answer)];
  } catch (error) {
    signal?.throwIfAborted();
    throw error instanceof DetokError ? error : failure(error instanceof Error ? error.message : String(error), error);
  }
}
