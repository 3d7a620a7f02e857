// The conformance suite through the library for servers:
// `run suite_in_servers.mjs LIBRARY VOCABULARIES`.
//
// In: the library's index, and a folder with the packed vocabulary of each case's by its number.
// Out: JSON, the outcome of every case. Only what a push returns counts: nothing waits for `ready`.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { judge } from "../web/bin/detok-web.mjs";

const [library, vocabularies] = process.argv.slice(2);
const { createDecoder, loadVocabulary } = await import(pathToFileURL(library).href);
const suite = JSON.parse(
  readFileSync(new URL("../conformance/cases.json", import.meta.url), "utf8"),
);
const numbers = Object.keys(suite.vocabularies);
const KNOWN = new Set(
  "errors skip_special_tokens byte_fallback stop include_stop reasoning tools start stop_scope".split(
    " ",
  ),
);

async function adapter({ input, vocabulary, prompt, steps, options = {} }) {
  const { errors = "replace", byte_fallback = "utf8", stop_scope = "content" } = options;
  if (Object.keys(options).some((name) => !KNOWN.has(name)) || errors === "ignore") return null;
  if (byte_fallback !== "utf8" || stop_scope !== "content") return null;
  // It takes text as bytes, which half a surrogate pair has none of.
  if (input === "text" && !steps.every((step) => (step.in ?? "").isWellFormed())) return null;
  // After its end a stream takes nothing more.
  if (steps.slice(0, -1).some((step) => step.do === "flush")) return null;
  const channels = options.reasoning || options.tools;
  const file = `${vocabularies}/${numbers.indexOf(vocabulary)}.detok`;
  const decoder = await createDecoder({
    vocabulary: input === "ids" ? await loadVocabulary(file) : undefined,
    promptIds: prompt,
    fatal: errors === "strict",
    skipSpecialTokens: options.skip_special_tokens,
    stop: options.stop,
    includeStop: options.include_stop,
    reasoning: options.reasoning,
    tools: options.tools,
    startWithReasoning: options.start === "reasoning",
    output: channels ? "deltas" : "text",
  });
  const out = (said) =>
    typeof said === "string" ? said : said.map(({ channel, text }) => [channel, text]);
  return {
    push: (chunk) => out(decoder.feed(input === "text" ? new TextEncoder().encode(chunk) : chunk)),
    flush: () => out(decoder.flush()),
    reason: () => (decoder.finishReason === "end" ? null : decoder.finishReason),
  };
}

const outcomes = [];
for (const item of suite.cases) if (!item.superseded_by) outcomes.push(await judge(item, adapter));
console.log(JSON.stringify(outcomes));
