/**
 * Loads the modules of detok_py that read, write and make recorded streams (detok_py/captures) when
 * they are first needed.
 */

import { DetokError, base } from "./decoder.js";

/** @typedef {import("./decoder.js").DecoderWorker} DecoderWorker */

/** @type {WeakMap<DecoderWorker, Promise<unknown>>} */
const loaded = new WeakMap();

/**
 * Give a worker the functions of detok_py/captures/page.py. Rejects if the file cannot be read.
 * @param {DecoderWorker} worker
 * @param {string | URL} [runtimeUrl]  The folder of the runtime's files.
 */
export function loadCaptures(worker, runtimeUrl) {
  let loading = loaded.get(worker);
  if (!loading) {
    const url =
      runtimeUrl === undefined
        ? new URL("../runtime/detok_captures.bin", import.meta.url)
        : new URL("detok_captures.bin", new URL(String(runtimeUrl).replace(/\/*$/, "/"), base()));
    loading = (async () => {
      const answer = await fetch(url);
      if (!answer.ok)
        throw new DetokError(`${url.pathname} could not be read (HTTP ${answer.status}).`);
      await worker.ask("extend", new Uint8Array(await answer.arrayBuffer()));
    })();
    loaded.set(worker, loading);
    loading.catch(() => loaded.delete(worker)); // the next call tries again
  }
  return loading;
}
