/**
 * Checks the options of the whole library before they are used.
 *
 * In: a caller's options. Out: a copy without those that are null, and with a timeout that fits a
 * timer; or a DetokError that names what is wrong. Null means no `format`, `reasoning` or `tools`.
 * All functions share one table, so that one object of options can be given to several of them.
 */

import { DetokError } from "./errors.js";

const FLAG = "true or false";
const TEXT = "a string";
const OBJECT = "an object";
const FUNCTION = "a function";
const TAGS = "true or false or a pair of tags or a list of pairs";

/** The options by what they take; a word in quotes is a value itself. */
const OPTIONS = {
  "a string or a list of strings": "stop",
  [FLAG]:
    "includeStop startWithReasoning trimArtifacts skipSpecialTokens fatal details singleBytes",
  [`${TAGS} or "all"`]: "reasoning",
  [TAGS]: "tools",
  [TEXT]: "format sha256 prompt resume id token",
  [OBJECT]: "toolSchemas signal messages params",
  '"character" or "grapheme"': "granularity",
  "what loadVocabulary gives": "vocabulary",
  "a list of ids": "promptIds",
  '"error" or "skip"': "unknown",
  '"text" or "deltas"': "output",
  '"micropython" or "pyodide"': "runtime",
  '"core" or "micropip"': "install",
  "a string or a URL": "runtimeUrl",
  "false or a string": "cache",
  "a number": "timeout",
  [FUNCTION]: "onProgress onGone onText",
  '"events" or "json" or "bytes"': "body",
  '"ids" or "bytes" or "both"': "want",
};

/** @param {any} value */
const isText = (value) => typeof value === "string";
/** @param {any} value */
const isPair = (value) =>
  value.every && isText(value[0]) && (isText(value[1]) || value[1] === null);

/**
 * Whether a value is what an expression of the table names.
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

/** The beginning that two spellings of a name share. @param {string} name */
const start = (name) => name.toLowerCase().replace(/_/g, "").slice(0, 4);

/** What each option takes. @type {Map<string, string>} */
const TAKES = new Map();
for (const [takes, names] of Object.entries(OPTIONS))
  for (const name of names.split(" ")) TAKES.set(name, takes);

/** A timer of more milliseconds fires at once. */
const LONGEST_MS = 2 ** 31 - 1;

/** @template {object} Options @param {Options} given @returns {Options} */
export function checked(given) {
  /** @type {any} */
  const options = { ...given };
  for (const [name, value] of Object.entries(given)) {
    if (value === null && !/^(format|reasoning|tools)$/.test(name)) delete options[name];
    const takes = TAKES.get(name);
    const shown = () => (isText(value) ? `"${value}"` : String(value));
    const isMeant = (/** @type {string} */ word) => MEANINGS[word]?.(value) || word === shown();
    if (takes && ((value ?? undefined) === undefined || takes.split(" or ").some(isMeant)))
      continue;
    const names = [...TAKES.keys()];
    const near = names.find((each) => start(each) === start(name));
    throw new DetokError(
      takes
        ? `The option ${name} is ${shown()}, and takes ${takes}.`
        : `There is no option ${name}${near ? `; did you mean ${near}?` : `. The options are ${names.join(", ")}.`}`,
      { kind: "option" },
    );
  }
  if (options.timeout > LONGEST_MS) options.timeout = LONGEST_MS;
  return options;
}
