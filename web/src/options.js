/**
 * The options of the whole library, checked before anything is done with them.
 *
 * In: what a caller gives. Out: the same; or a DetokError that names what is wrong.
 * All functions share one table, so that one object of options can be given to several of them.
 */

import { DetokError } from "./errors.js";

const FLAG = "true or false";
const TEXT = "a string";
const URL_ = "a string or a URL";
const OBJECT = "an object";
const FUNCTION = "a function";
const TAGS = "true or false or a pair of tags or a list of pairs";

/** What each option takes; a word in quotes is the option's value itself. */
const OPTIONS = {
  stop: "a string or a list of strings",
  includeStop: FLAG,
  reasoning: `${TAGS} or "all"`,
  tools: TAGS,
  format: TEXT,
  toolSchemas: OBJECT,
  startWithReasoning: FLAG,
  trimArtifacts: FLAG,
  granularity: '"character" or "grapheme"',
  vocabulary: "what loadVocabulary gives",
  promptIds: "a list of ids",
  skipSpecialTokens: FLAG,
  unknown: '"error" or "skip"',
  fatal: FLAG,
  output: '"text" or "deltas"',
  signal: OBJECT,
  runtime: '"micropython" or "pyodide"',
  install: '"core" or "micropip"',
  runtimeUrl: URL_,
  cache: "false or a string",
  timeout: "a number",
  onProgress: FUNCTION,
  onGone: FUNCTION,
  sha256: TEXT,
  body: '"events" or "json" or "bytes"',
  prompt: TEXT,
  messages: OBJECT,
  resume: TEXT,
  id: TEXT,
  params: OBJECT,
  want: '"ids" or "bytes" or "both"',
  details: FLAG,
  singleBytes: FLAG,
  token: TEXT,
};

/** @param {any} value */
const isText = (value) => typeof value === "string";
/** @param {any} value */
const isPair = (value) =>
  value.every && isText(value[0]) && (isText(value[1]) || value[1] === null);

/**
 * Whether a value is what a word of the table says.
 * @type {Record<string, (value: any) => unknown>}
 */
const MEANINGS = {
  [TEXT]: isText,
  "a list of strings": (value) => value.every?.(isText),
  "a pair of tags": isPair,
  "a list of pairs": (value) => value.every?.(isPair),
  "a list of ids": (value) => value.length >= 0 && !isText(value),
  "a number": (value) => value > 0,
  "a URL": (value) => value.href,
  "what loadVocabulary gives": (value) => value.sha256,
  [OBJECT]: (value) => typeof value === "object",
  [FUNCTION]: (value) => value.call,
};

/** @template {object} Options @param {Options} given @returns {Options} */
export function checked(given) {
  for (const [name, value] of Object.entries(given)) {
    const takes = /** @type {Record<string, string>} */ (OPTIONS)[name];
    const shown = isText(value) ? `"${value}"` : String(value);
    const wrong = !takes
      ? `There is no option ${name}. The options are ${Object.keys(OPTIONS)}.`
      : (value ?? undefined) !== undefined &&
        !takes.split(" or ").some((word) => word === shown || MEANINGS[word]?.(value)) &&
        `The option ${name} is ${shown}, and takes ${takes}.`;
    if (wrong) throw new DetokError(wrong, { kind: "option" });
  }
  return given;
}
