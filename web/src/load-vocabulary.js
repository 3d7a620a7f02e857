/** `loadVocabulary`. The first call loads its code (vocabulary.js). */

import { decoderWorker } from "./decoder.js";
import { checked } from "./options.js";

/**
 * Load a vocabulary. Rejects with a DetokError if it is damaged, missing, or not the wanted one.
 * @param {string | URL | Blob} source  The URL of a packed vocabulary or of a tokenizer file, or
 *   such a file.
 * @param {import("./vocabulary.js").Options} [given]
 * @returns {Promise<import("./vocabulary.js").Vocabulary>}
 */
export async function loadVocabulary(source, given = {}) {
  const options = checked(given);
  options.signal?.throwIfAborted();
  decoderWorker(options); // it boots while the code and the file come
  return (await import("./vocabulary.js")).loadVocabulary(source, options);
}
