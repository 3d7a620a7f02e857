/** `loadVocabulary`. The first call loads its code (vocabulary.js). */

/**
 * Load a vocabulary. Rejects with a DetokError if it is damaged, missing, or not the wanted one.
 * @param {string | URL | Blob} source  The URL of a packed vocabulary or of a tokenizer file, or
 *   such a file.
 * @param {import("./vocabulary.js").Options} [options]
 * @returns {Promise<import("./vocabulary.js").Vocabulary>}
 */
export async function loadVocabulary(source, options) {
  const { loadVocabulary } = await import("./vocabulary.js");
  return loadVocabulary(source, options);
}
