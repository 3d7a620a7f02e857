#!/usr/bin/env node
// `npx detok-web conformance adapter.mjs`: run a streaming detokenizer in JavaScript through the
// conformance suite, in Node.
//
// In: a module whose default export is the adapter; README.md of the suite says what it takes and
// returns. Out: a table; with --json and --junit the verdict on every case. Exit codes: 0 if no
// case that the adapter claims is late, early, wrong or an error, 1 otherwise, 2 for an error of
// the command. `detok conformance` (detok_py/commands/conformance.py) does the same for Python,
// with the same options and messages. `npx detok-web check URL` finds broken glyphs in a chat page
// (kit/check.mjs).

import { existsSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { ascii as told, played as playedAnswer, withSteps } from "./format-cases.mjs";

const VERDICTS = ["right", "late", "early", "wrong", "error", "not claimed"];
const BAD = VERDICTS.slice(1, 5);
const USAGE =
  "usage: detok-web conformance ADAPTER.mjs [--cases FILE] [--as-of VERSION] [--only ID]… [--chunk N] [--json FILE] [--junit FILE]; detok-web check URL";
// Beside this file in the package, in a folder of its own in a clone.
const PLACES = ["./", "../../conformance/"].map((folder) =>
  ["cases.json", "formats.json"].map((name) => new URL(folder + name, import.meta.url)),
);

/** Pairs of a channel and text, with each run of a channel as one pair. */
function joined(deltas) {
  const runs = [];
  for (const [channel, text] of deltas)
    if (runs.at(-1)?.[0] === channel) runs.at(-1)[1] += text;
    else runs.push([channel, text]);
  return runs;
}

/**
 * Pairs of a channel and text as one pair a character. Two halves of a surrogate pair, one behind
 * the other in a channel, are a character.
 */
const characters = (deltas) =>
  joined(deltas).flatMap(([channel, text]) => [...text].map((each) => [channel, each]));

/** An output as pairs of a channel and text; the channel of plain text is "". */
const deltasOf = (out) =>
  out === undefined || out === null || typeof out === "string" ? [["", out ?? ""]] : [...out];

/** The length of the common beginning of two texts, in characters. */
function inCommon(a, b) {
  const at = a.findIndex((pair, i) => pair[0] !== b[i]?.[0] || pair[1] !== b[i]?.[1]);
  return at < 0 ? a.length : at;
}

/** Pairs as JSON: at most 60 characters, with the channels if there are some. */
function asText(pairs) {
  const deltas = joined(pairs.slice(0, 60));
  const text = deltas.some(([channel]) => channel)
    ? deltas
    : deltas.map((pair) => pair[1]).join("");
  return told(text) + (pairs.length > 60 ? "..." : "");
}

/** The verdict on the text shown so far, by the text that is certain: [verdict, why]. */
function compared(shown, wanted) {
  const same = inCommon(shown, wanted);
  if (same === shown.length && same === wanted.length) return ["right", ""];
  if (same === shown.length) return ["late", `${asText(wanted.slice(same))} is certain already`];
  if (same === wanted.length) return ["early", `${asText(shown.slice(same))} is not certain yet`];
  return ["early", `${asText(shown)} is shown, ${asText(wanted)} is certain`];
}

/** How two texts differ; a long common beginning is left out. */
function difference(shown, wanted) {
  const same = inCommon(shown, wanted);
  const begin = same > 40 ? same - 10 : 0;
  const where = begin ? ` from character ${begin} on` : "";
  return `the text is ${asText(shown.slice(begin))}, not ${asText(wanted.slice(begin))}${where}`;
}

/** The verdict on a stream that lacks a method of the case; undefined if it has all. */
function unclaimed(item, stream) {
  const needed = [...item.steps.map((step) => step.do), ...("spans" in item ? ["spans"] : [])];
  for (const name of [...needed, "reason", ...("answer" in item ? ["calls"] : [])]) {
    const method = stream[name] ?? undefined;
    if (method === undefined && needed.includes(name))
      return ["not claimed", `there is no ${name}`];
    if (method !== undefined && typeof method !== "function")
      return ["error", `${name} must be a method, not ${told(method)}`];
  }
  return undefined;
}

/** The arguments of a step's method. */
function given(item, step, mark) {
  if (step.do === "rollback") return [mark];
  if (step.do !== "push") return [];
  return [item.input === "bytes" ? Uint8Array.from(Buffer.from(step.in, "hex")) : step.in];
}

/** The verdict on a case: [verdict, why]. Adds the output of each step to `outs`. */
async function verdictOn(item, adapter, outs) {
  let stream;
  try {
    stream = await adapter(item);
  } catch (error) {
    if (!item.may_refuse) throw error;
    return ["right", ""];
  }
  if (!stream) return ["not claimed", ""];
  const play = "answer" in item ? playedAnswer : played;
  return unclaimed(item, stream) ?? play(item, stream, outs);
}

/** Play the steps of a case on a stream, and return the verdict. */
async function played(item, stream, outs) {
  let shown = [];
  let wanted = [];
  const first = {};
  const verdict = () => compared(characters(shown), characters(wanted));
  let marked = { shown, wanted };
  for (const [at, step] of item.steps.entries()) {
    const what = `step ${at + 1}, ${step.do}`;
    if (step.do === "reset" && verdict()[0] !== "right") break;
    let out;
    try {
      out = await stream[step.do](...given(item, step, marked.mark));
    } catch (error) {
      if (!step.refused && !step.may_refuse) throw error;
      outs.push({ refused: String(error) });
      continue;
    }
    if (step.do === "mark") {
      marked = { mark: out, shown, wanted };
      continue;
    }
    if (step.do === "reset") {
      shown = wanted = [];
      continue;
    }
    outs.push(out);
    if (step.refused) return ["wrong", `${what}: ${told(out)} came where an error is expected`];
    if (step.do === "rollback") {
      const expected = characters(shown).length - characters(marked.shown).length;
      if ((out ?? expected) !== expected)
        return ["wrong", `${what}: ${told(out)} characters are taken back, not ${expected}`];
      ({ shown, wanted } = marked);
      continue;
    }
    const isWhole = out && typeof out === "object" && "shown" in out;
    shown = isWhole ? deltasOf(out.shown) : [...shown, ...deltasOf(out)];
    wanted = [...wanted, ...deltasOf(step.out)];
    const [now, why] = verdict();
    first[now] ??= `${what}: ${why}`;
  }
  if (verdict()[0] !== "right") return ["wrong", difference(characters(shown), characters(wanted))];
  for (const name of ["reason", "spans"]) {
    if (!(name in item) || !stream[name]) continue;
    const found = told(await stream[name]());
    if (found !== told(item[name])) return ["wrong", `${name}: ${found}, not ${told(item[name])}`];
  }
  if (first.early) return ["early", first.early];
  return first.late ? ["late", first.late] : ["right", ""];
}

/** The outcome of a case. */
export async function judge(item, adapter) {
  const began = performance.now();
  const outs = [];
  const [verdict, why] = await verdictOn(item, adapter, outs).catch((error) =>
    error?.name === "NotImplementedError"
      ? ["not claimed", error.message]
      : ["error", String(error)],
  );
  return { case: item.id, verdict, why, outs, seconds: (performance.now() - began) / 1000 };
}

/** The group of a case: `formats/harmony`, or the first word of its id. */
const groupOf = (id) => /^(formats\/[^/]+|[^/]+)/.exec(id)[0];

/** For each group of cases, and for all, how many have each verdict. */
function totals(outcomes) {
  const counts = {};
  const all = Object.fromEntries(VERDICTS.map((verdict) => [verdict, 0]));
  for (const { case: id, verdict } of outcomes) {
    const row = (counts[groupOf(id)] ??= Object.fromEntries(VERDICTS.map((each) => [each, 0])));
    row[verdict] += 1;
    all[verdict] += 1;
  }
  return { ...counts, all };
}

function table(outcomes) {
  // A format of which the adapter claims no case has no line.
  const rows = Object.entries(totals(outcomes)).filter(
    ([group, counts]) =>
      !group.startsWith("formats/") || VERDICTS.slice(0, 5).some((verdict) => counts[verdict]),
  );
  const width = Math.max(...rows.map(([group]) => group.length));
  const row = (name, cells) =>
    name.padEnd(width) + cells.map((cell) => String(cell).padStart(13)).join("");
  const lines = [row("", VERDICTS)];
  for (const [group, counts] of rows)
    lines.push(
      row(
        group,
        VERDICTS.map((verdict) => counts[verdict] || "·"),
      ),
    );
  for (const { case: id, verdict, why } of outcomes)
    if (BAD.includes(verdict)) lines.push(`${verdict.padEnd(6)}  ${id}: ${why}`);
  return lines.join("\n");
}

/** A text as an attribute's value: ASCII, without characters that XML gives a meaning. */
const attribute = (text) =>
  text.replace(/[^ !#-%'-;=?-~]/gu, (character) =>
    /[&<>"]/.test(character)
      ? `&#${character.codePointAt(0)};`
      : `\\u{${character.codePointAt(0).toString(16)}}`,
  );

function junit(outcomes, system) {
  const lines = [
    '<?xml version="1.0" encoding="utf-8"?>',
    `<testsuites name="${attribute(`conformance of ${system}`)}">`,
  ];
  for (const [group, counts] of Object.entries(totals(outcomes))) {
    if (group === "all") continue;
    const members = outcomes.filter((outcome) => groupOf(outcome.case) === group);
    const failures = counts.late + counts.early + counts.wrong;
    lines.push(
      `<testsuite name="${group}" tests="${members.length}" failures="${failures}" errors="${counts.error}" skipped="${counts["not claimed"]}">`,
    );
    for (const { case: id, verdict, why, seconds } of members) {
      const kind = { right: "", error: "error", "not claimed": "skipped" }[verdict] ?? "failure";
      const inside = kind && `<${kind} message="${attribute(`${verdict}: ${why}`)}" />`;
      lines.push(
        `<testcase classname="${group}" name="${id}" time="${seconds.toFixed(4)}">${inside}</testcase>`,
      );
    }
    lines.push("</testsuite>");
  }
  return `${lines.join("\n")}\n</testsuites>\n`;
}

/** Its message says in one sentence what is wrong with the command. */
class CommandError extends Error {}

/** Whether a version of three numbers is `limit` or older. */
function isAsOld(version, limit) {
  const [a, b] = [version, limit].map((each) => each.split(".").map(Number));
  const differs = a.findIndex((number, at) => number !== b[at]);
  return differs < 0 || a[differs] < b[differs];
}

/** The cases that count in this version of the suite, or in an older one. */
function casesOf(suite, asOf = suite.version) {
  if (!/^\d+\.\d+\.\d+$/.test(asOf))
    throw new CommandError(`A version is three numbers, as 1.0.0, not ${asOf}.`);
  if (!isAsOld(asOf, suite.version))
    throw new CommandError(`This suite has version ${suite.version}, and no ${asOf} yet.`);
  const there = suite.cases.filter(({ since }) => isAsOld(since, asOf));
  const ids = new Set(there.map(({ id }) => id));
  return there.filter(({ superseded_by }) => !ids.has(superseded_by));
}

/** The suite of this package, or that of a file. */
function readSuite(file) {
  const both = PLACES.find(([cases]) => existsSync(cases)) ?? PLACES[0];
  // The package has no cases of formats.
  const files = file ? [file] : both.filter((path, at) => !at || existsSync(path));
  const suite = { vocabularies: {}, formats: {}, cases: [] };
  for (const path of files)
    try {
      const { version, vocabularies, formats = {}, cases } = JSON.parse(readFileSync(path, "utf8"));
      Object.assign(suite.vocabularies, vocabularies);
      Object.assign(suite.formats, formats);
      suite.cases.push(...cases);
      suite.version = version;
    } catch (error) {
      throw new CommandError(
        `${file ?? fileURLToPath(path)} cannot be read as a suite: ${error.message}`,
      );
    }
  return suite;
}

export async function main(words) {
  if (words[0] === "check") {
    const { check } = await import("../kit/check.mjs");
    return check(words.slice(1));
  }
  const options = {
    cases: { type: "string" },
    "as-of": { type: "string" },
    only: { type: "string", multiple: true },
    chunk: { type: "string", default: "1" },
    json: { type: "string" },
    junit: { type: "string" },
    help: { type: "boolean", short: "h" },
  };
  let given;
  try {
    given = parseArgs({ args: words, options, allowPositionals: true });
  } catch (error) {
    throw new CommandError(`${error.message} ${USAGE}`);
  }
  const { values, positionals } = given;
  if (values.help) {
    console.log(USAGE);
    return 0;
  }
  if (positionals[0] !== "conformance" || positionals.length !== 2) throw new CommandError(USAGE);
  if (!/^([1-9]\d*|whole)$/.test(values.chunk))
    throw new CommandError(`--chunk is a number of ids or \`whole\`, not ${values.chunk}.`);
  const suite = readSuite(values.cases);
  if (!existsSync(positionals[1]))
    throw new CommandError(`There is no adapter ${positionals[1]}; name a module (.mjs).`);
  const module = await import(pathToFileURL(realpathSync(positionals[1])).href);
  if (typeof module.default !== "function")
    throw new CommandError(
      `${positionals[1]} has no default export that is a function; README.md of the suite shows one.`,
    );
  const outcomes = [];
  for (const item of casesOf(suite, values["as-of"])) {
    if (values.only && !values.only.some((start) => item.id.startsWith(start))) continue;
    const chunk = values.chunk === "whole" ? 0 : Number(values.chunk);
    const case_ =
      "answer" in item
        ? withSteps(item, suite, chunk)
        : { ...item, tokenizer: suite.vocabularies[item.vocabulary] };
    outcomes.push(await judge(case_, module.default));
  }
  if (!outcomes.length)
    throw new CommandError(`No case has an id that begins with ${values.only?.join(" or ")}.`);
  console.log(table(outcomes));
  const about = { system: module.SYSTEM ?? positionals[1], purpose: module.PURPOSE ?? "" };
  if (values.json) {
    const version = values["as-of"] ?? suite.version;
    const document = { ...about, suite: version, totals: totals(outcomes), cases: outcomes };
    writeFileSync(values.json, `${JSON.stringify(document, null, 1)}\n`);
  }
  if (values.junit) writeFileSync(values.junit, junit(outcomes, about.system));
  return outcomes.some(({ verdict }) => BAD.includes(verdict)) ? 1 : 0;
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    process.exitCode = await main(process.argv.slice(2));
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    console.error(`detok-web: ${error.message}`);
    process.exitCode = 2;
  }
}
