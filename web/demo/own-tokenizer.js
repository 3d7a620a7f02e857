/**
 * The reader's own tokenizer: a tokenizer.json, SentencePiece, GGUF, tiktoken, Tekken, vocab.txt or
 * RWKV file that was dropped on the page. It cuts "Your text", and reads the ids of captures whose
 * vocabulary is not here.
 *
 * A second Pyodide opens the file and encodes with it; the packed vocabulary goes to the worker
 * that decodes. A static site has the tokenizer of the reciting model until another one is dropped.
 */

import { DecoderWorker, DetokError } from "../src/decoder.js";
import { loadVocabulary } from "../src/index.js";
import { loadCaptures } from "../src/on-demand.js";
import { runtimeOptions } from "./runtime.js";
import { isSite } from "./site.js";

/**
 * @typedef {object} Tokenizer
 * @property {string} name  The name of its file.
 * @property {import("../src/index.js").Vocabulary} vocabulary
 * @property {(text: string) => Promise<number[]>} encode
 * @property {() => void} close  End its worker when all texts are encoded.
 */

/**
 * The tokenizer in use, and those that were chosen since and are being read.
 * @type {Promise<Tokenizer>[]}
 */
let chosen = [];
/** @type {Tokenizer | undefined} */
let used;
/** That of a static site: it cuts texts, and reads no captures. @type {Promise<Tokenizer>} */
let ofSite;

/** Whether a file looks like a tokenizer, by its name and its first bytes. @param {File} file */
export async function isTokenizerFile(file) {
  const head = new TextDecoder("latin1").decode(await file.slice(0, 8192).arrayBuffer());
  if (head.startsWith("GGUF")) return true;
  if (/\.(gguf|tiktoken|model)$/i.test(file.name) || file.name === "vocab.txt") return true;
  if (/^\d+ b?['"].*['"] \d+\r?$/m.test(head.slice(0, 200))) return true; // RWKV's
  if (!/^\s*\{/.test(head) || /^\s*\{[^\n]*"detok"/.test(head)) return false;
  return (
    /^(tokenizer|tekken)\.json$/i.test(file.name) ||
    /"(added_tokens|default_vocab_size|token_bytes)"/.test(head)
  );
}

/**
 * Use the tokenizer in a file from now on. If it cannot be read, rejects with a DetokError, and the
 * earlier one stays. If the reader chose another meanwhile, resolves to that one.
 * @param {File | Promise<File>} file
 */
export function useTokenizer(file) {
  /** @type {Promise<Tokenizer>} */
  const mine = read();
  chosen.push(mine);
  return mine;

  /** @returns {Promise<Tokenizer>} */
  async function read() {
    const found = await Promise.resolve(file)
      .then(load)
      .catch((error) => {
        chosen = chosen.filter((other) => other !== mine);
        throw error;
      });
    for (let last; (last = chosen.at(-1)) !== mine;) {
      const later = await last?.catch(() => undefined);
      if (!later) continue; // that file was no tokenizer, and is no longer chosen
      found.close();
      return later;
    }
    used?.close();
    chosen = [mine];
    return (used = found);
  }
}

/**
 * The tokenizer in use: the reader's, or that of a static site; undefined if the bridge has one.
 */
export function tokenizerInUse() {
  if (!chosen.length && isSite) {
    const fetched = fetch("tokenizer.json").then((answer) => answer.blob());
    return (ofSite = useTokenizer(fetched.then((blob) => new File([blob], "tokenizer.json"))));
  }
  return chosen.at(-1);
}

/** Whether a text is cut here, and not by a bridge. */
export const cutsHere = () => isSite || chosen.length > 0;

/** The vocabulary that the reader dropped, for captures; undefined if there is none. */
export async function droppedVocabulary() {
  const last = chosen.at(-1);
  return last === ofSite ? undefined : (await last?.catch(() => undefined))?.vocabulary;
}

/** @param {File} file @returns {Promise<Tokenizer>} */
async function load(file) {
  const mine = new DecoderWorker({ runtime: "pyodide" });
  try {
    const packed = await mine.call("packTokenizer", file.name, file);
    const vocabulary = await loadVocabulary(new Blob([packed]), {
      ...runtimeOptions(),
      cache: false,
    });
    await loadCaptures(mine);
    // The path under which the worker has the file open.
    const path = `/given/${file.name.replace(/[^\w.-]/g, "_")}`;
    /** @type {Promise<unknown>} */
    let busy = Promise.resolve();
    return {
      name: file.name,
      vocabulary,
      encode(text) {
        const asked = mine.ask("encode_text", path, text);
        busy = Promise.allSettled([busy, asked]);
        return asked;
      },
      close: () => busy.then(() => mine.die(new DetokError("Another tokenizer is used now."))),
    };
  } catch (error) {
    mine.die(new DetokError("The tokenizer could not be used."));
    throw error;
  }
}
