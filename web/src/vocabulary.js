/**
 * Load vocabularies: fetch once, keep in Cache Storage, check before use.
 *
 * In: the URL of a packed vocabulary (`/vocabulary/<sha256>.detok`) or of a tokenizer file, or such
 * a file as a Blob. Out: a Vocabulary, which DetokStream and connect take. A vocabulary whose
 * SHA-256 is known comes from the cache without a request; for others the server is asked whether
 * the file is still the same. A tokenizer file is packed by Pyodide, which is loaded for that.
 */

import { DecoderWorker, DetokError, asDetokError, base, decoderWorker } from "./decoder.js";

/**
 * @typedef {object} Vocabulary  The tokens of a model: what each id stands for.
 * @property {string} sha256  Of the packed file.
 * @property {number} size    How many ids it has.
 * @property {string | null} format  The name of the format that the model speaks, if its file says
 *   one.
 * @property {Uint8Array} bytes  The packed file.
 *
 * @typedef {object} LoadOptions  How a vocabulary is loaded.
 * @property {string} [sha256]  Of the packed vocabulary; a URL with `<sha256>.detok` says it
 *   itself.
 * @property {string | false} [cache]  A cache in Cache Storage, or false. Default "detok".
 * @property {(progress: {loaded: number, total: number}) => void} [onProgress]  Bytes; a total of 0
 *   is not known.
 * @property {AbortSignal} [signal]  Ends loading.
 *
 * @typedef {LoadOptions & import("./decoder.js").RuntimeOptions} Options  All that `loadVocabulary`
 *   takes.
 */

const MAGIC = "detok"; // a version follows

/**
 * Load a vocabulary. Rejects with a DetokError if it is damaged, missing, or not the wanted one.
 * @param {string | URL | Blob} source
 * @param {Options} options  Checked (load-vocabulary.js).
 * @returns {Promise<Vocabulary>}
 */
export async function loadVocabulary(source, options) {
  const { cache = "detok", onProgress = () => {} } = options;
  if (source instanceof Blob) {
    onProgress({ loaded: source.size, total: source.size });
    return check(
      await packed(source, "name" in source ? String(source.name) : "tokenizer.json", options),
      options.sha256,
      options,
    );
  }
  const url = new URL(source, base());
  const name = url.pathname.slice(url.pathname.lastIndexOf("/") + 1);
  const wanted = options.sha256 ?? /^([0-9a-f]{64})\.detok$/.exec(name)?.[1];
  const store =
    cache && globalThis.caches ? await caches.open(cache).catch(() => undefined) : undefined;
  const kept = await store?.match(url);
  const newer = kept && !wanted ? await newerThan(url, kept, options) : undefined;
  if (kept && !newer) {
    try {
      return await check(new Uint8Array(await kept.arrayBuffer()), wanted, options);
    } catch (error) {
      if (asDetokError(error).isRetryable) throw error; // the file is not at fault
      await store?.delete(url); // damaged, or another version: fetch it again
    }
  }
  const [file, headers] = await fetchAll(url, options, onProgress, newer);
  if (/^\s*<(!doctype|html|\?xml)/i.test(await file.slice(0, 100).text()))
    throw new DetokError(
      `${url.href} is a page and not a vocabulary: give the address of a .detok or tokenizer file.`,
    );
  const vocabulary = await check(await packed(file, name, options), wanted, options);
  await store
    ?.put(url, new Response(/** @type {any} */ (vocabulary.bytes), { headers }))
    .catch(() => {}); // a full disk is not an error
  return vocabulary;
}

/**
 * The headers that identify a version of a file.
 * @param {Response} answer
 * @returns {[string, string][]}
 */
const versionOf = ({ headers }) =>
  ["etag", "last-modified"].flatMap((name) =>
    headers.has(name) ? [[name, String(headers.get(name))]] : [],
  );

/**
 * The server's response; undefined if it has the kept file, or if the server cannot be reached,
 * says nothing in time, or answers that it is busy or broken. Asks with GET, because some servers
 * refuse HEAD.
 * @param {URL} url
 * @param {Response} kept
 * @param {Options} options
 */
async function newerThan(url, kept, { signal, timeout = 30_000 }) {
  const [stop, unlink] = stopWith(signal);
  const timer = setTimeout(() => stop.abort(), timeout);
  try {
    const now = await fetch(url, { cache: "no-cache", signal: stop.signal });
    const isSame = versionOf(kept).length && String(versionOf(now)) === String(versionOf(kept));
    const isAway = now.status >= 500 || now.status === 429;
    if (!isAway && !(now.ok && isSame)) return now;
    void now.body?.cancel();
  } catch {
    signal?.throwIfAborted();
  } finally {
    clearTimeout(timer);
    unlink();
  }
  return undefined;
}

/**
 * A controller that aborts when a signal does, and a function that lets go of the signal.
 * @param {AbortSignal | undefined} signal
 * @returns {[AbortController, () => void]}
 */
function stopWith(signal) {
  const stop = new AbortController();
  const onAbort = () => stop.abort(signal?.reason);
  if (signal?.aborted) onAbort();
  signal?.addEventListener("abort", onAbort);
  return [stop, () => signal?.removeEventListener("abort", onAbort)];
}

/** @param {Uint8Array} bytes @param {string | undefined} wanted @param {Options} options */
async function check(bytes, wanted, options) {
  const worker = decoderWorker(options);
  // Only pages on https or localhost have `subtle`; elsewhere Python computes it.
  const sum = await globalThis.crypto?.subtle?.digest("SHA-256", /** @type {any} */ (bytes));
  const hex = (/** @type {number} */ byte) => byte.toString(16).padStart(2, "0");
  const known = sum && Array.from(new Uint8Array(sum), hex).join("");
  const [sha256, size, format] = await worker.ask("keep_vocabulary", bytes, known);
  options.signal?.throwIfAborted();
  if (wanted !== undefined && wanted !== sha256) {
    throw new DetokError(
      `The vocabulary is ${sha256.slice(0, 12)}… and ${wanted.slice(0, 12)}… was asked for, so nothing is decoded with it.`,
      { kind: "data", code: 4409 },
    );
  }
  worker.vocabularies.set(sha256, Promise.resolve());
  return Object.freeze({ sha256, size, format, bytes });
}

/**
 * @param {Blob} file
 * @param {string} name
 * @param {Options} options
 * @returns {Promise<Uint8Array>}
 */
async function packed(file, name, options) {
  // A file that is named .detok is never read as a tokenizer file.
  if (name.endsWith(".detok") || (await file.slice(0, 5).text()) === MAGIC)
    return new Uint8Array(await file.arrayBuffer());
  const worker = new DecoderWorker({ ...options, runtime: "pyodide" });
  try {
    return await worker.call("packTokenizer", name, file);
  } finally {
    worker.die(new DetokError("The worker that packs tokenizers has done its work."));
  }
}

/**
 * @param {URL} url
 * @param {Options} options
 * @param {NonNullable<LoadOptions["onProgress"]>} onProgress
 * @param {Response} [given]  The response, if it has come already.
 * @returns {Promise<[file: Blob, version: [string, string][]]>}
 */
async function fetchAll(url, { signal, timeout = 30_000 }, onProgress, given) {
  /** @param {string} why @param {unknown} [cause] @param {boolean} [retry] */
  const failure = (why, cause, retry = true) =>
    new DetokError(`The vocabulary ${url.href} could not be read (${why}).`, {
      cause,
      kind: "network",
      retry,
    });
  const [stop, unlink] = stopWith(signal);
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const wait = () => {
    clearTimeout(timer);
    const late = () => stop.abort(failure(`nothing came for ${timeout / 1000} s`));
    timer = setTimeout(late, timeout);
  };
  let answer;
  try {
    wait();
    // Ask the server even if the browser's copy looks fresh.
    answer = given ?? (await fetch(url, { cache: "no-cache", signal: stop.signal }));
    const { ok, status } = answer;
    // Asking again does not help where the address is wrong.
    if (!ok)
      throw failure(`HTTP ${status}`, undefined, status >= 500 || /408|425|429/.test(`${status}`));
    // A compressed body's length is not the file's.
    const total = answer.headers.get("content-encoding")
      ? 0
      : Number(answer.headers.get("content-length")) || 0;
    /** @type {any[]} */
    const parts = [];
    let loaded = 0;
    const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
    const leave = () => void reader.cancel().catch(() => {});
    stop.signal.addEventListener("abort", leave); // `given` has not been asked for with this signal
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      wait();
      parts.push(part.value);
      onProgress({ loaded: (loaded += part.value.length), total });
    }
    stop.signal.throwIfAborted();
    return [new Blob(parts), versionOf(answer)];
  } catch (error) {
    signal?.throwIfAborted();
    throw error instanceof DetokError
      ? error
      : failure(error instanceof Error ? error.message : String(error), error);
  } finally {
    clearTimeout(timer);
    unlink();
  }
}
