// The cases of formats in the conformance suite: their steps, and the verdict on them. The same as
// detok_py/commands/format_cases.py, with the same messages.
//
// In: a case of formats.json, which has an answer's ids, its content, and how much of that is
// certain after each id; and what an adapter returns. Out: the case with steps, as other cases have
// them, in chunks of ids; a verdict.

const TEXTS = ["reasoning", "content"];
const TOKEN = { single_word: false, lstrip: false, rstrip: false, normalized: false };

/**
 * A case as adapters take it: with its tokenizer, the ids that end a turn, and a push for every
 * `chunk` ids; if that is 0, one push has all ids.
 */
export function withSteps(item, suite, chunk = 1) {
  const name = item.options.format;
  const base = suite.vocabularies.formats;
  const { tokens, ends } = suite.formats[name];
  const first = Object.keys(base.model.vocab).length;
  const added_tokens = tokens.map((content, at) => ({
    id: first + at,
    content,
    ...TOKEN,
    special: true,
  }));
  const { ids, out, certain } = item;
  const steps = [];
  let shown = 0;
  for (let at = 0; at < ids.length; at += chunk || ids.length) {
    const part = ids.slice(at, chunk ? at + chunk : undefined);
    const now = certain[at + part.length - 1];
    steps.push({ do: "push", in: part, out: cut(out, shown, now) });
    shown = now;
  }
  steps.push({ do: "flush", out: cut(out, shown, Infinity) });
  return {
    ...item,
    input: "ids",
    vocabulary: `formats/${name}`,
    tokenizer: { ...base, added_tokens },
    ends: ends.map((token) => first + tokens.indexOf(token)),
    steps,
  };
}

/** Deltas of an answer from one count of characters to another; a name counts as one. */
function cut(out, begin, end) {
  const deltas = [];
  let at = 0;
  let calls = 0;
  for (const run of out) {
    const named = "call" in run;
    const text = [...(named ? run.arguments : Object.values(run)[0])];
    const before = at + (named ? 1 : 0);
    at = before + text.length;
    const last = Math.min(end, at);
    const part = text.slice(Math.max(0, begin - before), Math.max(0, last - before)).join("");
    const begins = named && begin < before && before <= last;
    if (named && (part || begins))
      deltas.push({ call: calls, ...(begins ? { name: run.call } : {}), arguments: part });
    else if (part) deltas.push({ [Object.keys(run)[0]]: part });
    if (named) calls += 1;
  }
  return deltas;
}

/** An answer so far: two texts, and calls as pairs of name and arguments. */
class Message {
  texts = { reasoning: "", content: "" };
  calls = [];

  /** Add a step's output: nothing, a delta, or a list of deltas. Returns the message so far. */
  take(out) {
    if (out && "shown" in out) return new Message().take(out.shown);
    const isList = Array.isArray(out) && typeof out[0] !== "string";
    for (const delta of isList ? out : out ? [out] : [])
      this.#add(Array.isArray(delta) ? { [delta[0]]: delta[1] } : delta);
    return this;
  }

  #add(delta) {
    for (const name of TEXTS) this.texts[name] += delta[name] ?? "";
    for (const call of delta.calls?.length ? delta.calls : "call" in delta ? [delta] : []) {
      const at = call.call ?? this.calls.length;
      while (this.calls.length <= at) this.calls.push(["", ""]);
      this.calls[at][0] += call.name ?? "";
      const given = call.arguments ?? "";
      this.calls[at][1] += typeof given === "string" ? given : JSON.stringify(given);
    }
  }

  /** The parts that are compared, by name: lists of characters. */
  parts(seams) {
    const found = new Map(TEXTS.map((name) => [name, closed(this.texts[name], seams[name])]));
    for (const [at, [name, given]] of this.calls.entries()) {
      found.set(`the name of call ${at}`, [...name]);
      found.set(`the arguments of call ${at}`, jsonCharacters(given));
    }
    return found;
  }
}

/** Where other parts interrupt each text, as counts of its characters without white space. */
function seamsOf(out) {
  const seams = Object.fromEntries(TEXTS.map((name) => [name, new Set([0])]));
  for (const run of out)
    for (const name of TEXTS) {
      const inked = [...(run[name] ?? "").replace(/\s/gu, "")];
      seams[name].add(Math.max(...seams[name]) + inked.length);
    }
  return seams;
}

/** JSON's escape of a UTF-16 unit. @param {string} unit */
const escaped = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** The characters of a text without the white space at its seams and at its end. */
function closed(text, seams) {
  let count = 0;
  return [...text.trimEnd()].filter((character) => {
    if (/\S/u.test(character)) count += 1;
    else return !seams.has(count);
    return true;
  });
}

/**
 * The characters of JSON, which may be cut anywhere, without what two writers do differently: white
 * space outside strings, and escapes. A quote that begins or ends a string becomes two quotes.
 */
function jsonCharacters(text) {
  const out = [];
  for (const [all, body, end] of text.matchAll(
    /"((?:[^"\\]|\\u[0-9A-Fa-f]{4}|\\[^u])*)("?)|\S/gsu,
  )) {
    if (body === undefined) {
      out.push(all);
      continue;
    }
    let string = body;
    try {
      string = JSON.parse(`"${body.replace(/\p{Cc}/gu, escaped)}"`);
    } catch {
      // An invalid string is compared as it is written.
    }
    // Half of a surrogate pair waits for the other.
    if (!end) return [...out, '""', ...string.replace(/[\ud800-\udbff]+$/, "")];
    out.push('""', ...string, '""');
  }
  return out;
}

const begins = (part, other) => other.every((character, at) => character === part[at]);
const same = (a, b) => a.length === b.length && begins(a, b);

/** A value as JSON in ASCII, so that characters that look alike differ. */
export const ascii = (value) => JSON.stringify(value ?? null).replace(/[^ -~]/g, escaped);

/** A part as JSON in ASCII: at most 60 characters. */
function told(part) {
  const text = part.map((each) => (each === '""' ? '"' : each));
  return ascii(text.slice(0, 60).join("")) + (text.length > 60 ? "..." : "");
}

/** The verdict on the parts shown so far, by the parts that are certain: [verdict, why]. */
function compared(mine, theirs) {
  let late;
  for (const name of new Set([...theirs.keys(), ...mine.keys()])) {
    const [one, other] = [mine.get(name), theirs.get(name)];
    if (one && other && same(one, other)) continue;
    if (other && (!one || begins(other, one)))
      late ??= `${name}: ${told(other.slice(one?.length ?? 0))} is certain already`;
    else if (!other || begins(one, other))
      return ["early", `${name}: ${told(one.slice(other?.length ?? 0))} is not certain yet`];
    else return ["early", `${name}: ${told(one)} is shown, ${told(other)} is certain`];
  }
  return late ? ["late", late] : ["right", ""];
}

/** How two whole answers differ; "" if they say the same. */
function difference(shown, wanted, seams) {
  const [mine, theirs] = [shown.parts(seams), wanted.parts(seams)];
  for (const name of new Set([...theirs.keys(), ...mine.keys()])) {
    if (!mine.has(name)) return `${name} is missing`;
    if (!theirs.has(name)) return `there is ${name}: ${told(mine.get(name))}`;
  }
  for (const [name, other] of theirs) {
    if (same(mine.get(name), other)) continue;
    const at = /arguments of call (\d+)/.exec(name)?.[1];
    const values = at && [shown, wanted].map(({ calls }) => canonical(calls[Number(at)][1]));
    if (values && values[0] !== undefined && values[0] === values[1]) continue;
    return `${name}: ${told(mine.get(name))}, not ${told(other)}`;
  }
  return "";
}

/** JSON with the members of objects in sorted order; undefined if the text is not JSON. */
function canonical(text) {
  const sorted = (/** @type {string} */ _, /** @type {any} */ value) =>
    value && typeof value === "object" && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value;
  try {
    return JSON.stringify(JSON.parse(text), sorted);
  } catch {
    return undefined;
  }
}

/** Play the steps of a case on a stream, and return the verdict. Adds the outputs to `outs`. */
export async function played(item, stream, outs) {
  const seams = seamsOf(item.out);
  let [shown, wanted] = [new Message(), new Message()];
  const first = {};
  for (const [at, step] of item.steps.entries()) {
    outs.push(await (step.do === "push" ? stream.push(step.in) : stream.flush()));
    [shown, wanted] = [shown.take(outs.at(-1)), wanted.take(step.out)];
    const [verdict, why] = compared(shown.parts(seams), wanted.parts(seams));
    first[verdict] ??= `step ${at + 1}, ${step.do}: ${why}`;
  }
  const differs = difference(shown, wanted, seams) || (await callDiffers(item, stream));
  if (differs) return ["wrong", differs];
  const verdict = ["early", "late"].find((each) => first[each]) ?? "right";
  return [verdict, verdict === "right" ? "" : first[verdict]];
}

/** What a stream's `calls()` has wrong, if it has that method. */
async function callDiffers(item, stream) {
  if (!stream.calls) return "";
  const given = await stream.calls();
  const calls = item.out.filter((run) => "call" in run);
  for (const [at, { id, complete = true }] of calls.entries())
    for (const [name, value] of Object.entries({ id, complete }))
      if (given[at] && name in given[at] && value !== undefined && given[at][name] !== value)
        return `call ${at} has ${name} ${ascii(given[at][name])}, not ${ascii(value)}`;
  return "";
}
