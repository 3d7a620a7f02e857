/**
 * A large file is read without the lines that are alike (web/src/fold.js) as it is read whole: in
 * MicroPython, as it is shipped.
 */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { startPython } from "../../web/src/boot-micropython.js";
import { fold } from "../../web/src/fold.js";

const runtime = join(resolve(import.meta.dirname, "..", ".."), ".build", "runtime");
let python;

before(async () => {
  const { loadMicroPython } = await import(pathToFileURL(join(runtime, "micropython.mjs")).href);
  const read = (name) => new Uint8Array(readFileSync(join(runtime, name)));
  const wasm = join(runtime, "micropython.wasm");
  python = await startPython(loadMicroPython, wasm, read("detok_micropython.bin"));
  python.streams.extend(python.fill(read("detok_captures.bin")));
});

const find = async (part) => JSON.parse(python.streams.alike_shapes(python.fill(part)));

/** What Python says of a file without the lines that are alike, and what is left of its bytes. */
async function foldedSaid(bytes) {
  const folded = await fold(new Blob([bytes]), find);
  if (!folded) return {};
  const left = new Uint8Array(await folded.left.arrayBuffer());
  return { said: saidOf(left, folded.taken), left: left.length };
}

/** All that Python says of a file; each row by itself, or the message of its error. */
function saidOf(bytes, folded = "") {
  let found;
  try {
    found = JSON.parse(
      python.streams.capture_rows(python.fill(bytes), "a.sse", "", "", "", 0, folded),
    );
  } catch (error) {
    return String(error.message).trim().split("\n").at(-1);
  }
  for (let { more } = found; more;) {
    const part = JSON.parse(python.streams.more_rows(more));
    found.rows?.push(...part.rows);
    more = found.more = part.more;
  }
  found.rows = found.rows?.flatMap(singles);
  return found;
}

function singles(row) {
  const [seconds, texts, channel, line, event, broken, step] = row;
  if (typeof step !== "number") return [row];
  return texts.map((text, n) => {
    const row = [null, Buffer.from(text).toString("hex"), [["content", text]], "", "", null];
    return [seconds, row, channel, line + n * step, event + n, broken, []];
  });
}

/** Numbers from a seed (mulberry32). @param {number} seed */
const random = (seed) => () => {
  let n = (seed += 0x6d2b79f5);
  n = Math.imul(n ^ (n >>> 15), n | 1);
  n ^= n + Math.imul(n ^ (n >>> 7), n | 61);
  return ((n ^ (n >>> 14)) >>> 0) / 2 ** 32;
};

const TEXTS = ["a", " né", "你好", "\n", "a\\b", 'a"b', "😀", "content", "[DONE]", "naÃ¯ve ", "│ "];
const ODD = ["\ufffd", "", "\u0001", "\ud83d", "\ude00", "\u{10f83d}", "\ufeff", "<html"];
const LINES = [
  ": ping",
  "event: x",
  "<html><title>502</title>",
  "data: [DONE]",
  "hello",
  "data: {",
  "\r",
];

/** A file of alike events, with some that are not. @param {number} seed */
function fileOf(seed) {
  const next = random(seed);
  const one = (list) => list[Math.floor(next() * list.length)];
  const odd = one([0, 0, 0.004, 0.05]);
  const form = one([0, 0, 1, 2, 3]);
  const end = one(["\n", "\n", "\r\n"]);
  const between = one([[""], [], ["", "event: x"], ["", "event: x", "id: 5"], [": ping", ""]]);
  const escaped = one([false, false, true]);
  const lines = form === 3 ? [] : [one(["HTTP/1.1 200 OK", ": ok", "event: x", "id: 1"]), ""];
  const count = one([20, 60, 240]);
  for (let n = 0; n < count; n++) {
    const text = next() < odd ? one(ODD) : one(TEXTS) + one(TEXTS);
    const event = [
      { id: `c${n}`, created: 17 + n, choices: [{ index: 0, delta: { content: text } }] },
      { type: "response.output_text.delta", delta: text, sequence_number: n + (next() < odd / 9) },
      { model: "mödel", message: { content: text }, pad: "x".repeat(n % 7), done: false },
      { score: -n / 8, foo: { text } },
    ][form];
    if (next() < odd) event.choices = [{ index: next() < 0.5, delta: { reasoning: text } }];
    let line = JSON.stringify(event);
    if (escaped)
      line = line.replace(
        /[\x80-\uffff]/g,
        (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
      );
    lines.push((form === 2 ? "" : "data: ") + line, ...between);
    if (next() < odd / 2) lines.push(one(LINES));
  }
  const bytes = Buffer.from(lines.join(end));
  if (next() < odd * 9)
    bytes[Math.floor(next() * bytes.length)] = one([0xe9, 0x0d, 0x00, 0x22, 0xff]);
  return new Uint8Array(bytes);
}

test("any file says the same without the lines that are alike", async () => {
  let taken = 0;
  for (let seed = 0; seed < 40; seed++) {
    const bytes = fileOf(seed);
    const { said, left } = await foldedSaid(bytes);
    if (!said || said.again) continue;
    taken += left < bytes.length / 2 ? 1 : 0;
    assert.deepEqual(said, saidOf(bytes), `seed ${seed}`);
  }
  assert.ok(taken > 5, `${taken}`);
});

test("of a long stream of a server little is left, wherever a part of the file ends", async () => {
  const event = (n) => `data: {"id":"c${n}","choices":[{"delta":{"content":"né ${n}"}}]}\n\n`;
  const bytes = new TextEncoder().encode(
    Array.from({ length: 40_000 }, (_, n) => event(n)).join(""),
  );
  assert.ok(bytes.length > 2 << 20);
  const { said, left } = await foldedSaid(bytes);
  assert.ok(left < 20_000, `${left}`);
  assert.equal(said.rows.length, 40_000);
  said.rows.forEach(([, row, , line, number], n) => {
    assert.equal(row[2][0][1], `né ${n}`);
    assert.deepEqual([line, number], [2 * n + 1, n + 1]);
  });
});

test("of two answers, the end is that of the last one, also without the lines that are alike", async () => {
  const event = (text, reason = null) =>
    `data: ${JSON.stringify({ choices: [{ delta: { content: text }, finish_reason: reason }] })}\n\n`;
  const many = (text) => Array.from({ length: 99 }, (_, n) => event(`${text}${n}`)).join("");
  const [one, done] = [many("a") + event("", "stop"), "data: [DONE]\n\n"];
  for (const [rest, stops, reason] of [
    [many("b"), true, undefined],
    [many("b") + done, false, undefined],
    [many("b") + event("", "length") + done, false, "length"],
  ]) {
    const bytes = new TextEncoder().encode(one + done + rest);
    const { said } = await foldedSaid(bytes);
    assert.deepEqual(said, saidOf(bytes));
    assert.equal(said.notes.includes("The last answer stops before its end"), stops);
    assert.match(said.notes, /Another answer begins in line 203;/);
    assert.equal(said.end?.reason, reason);
  }
});

test("an event that came again, as its id says, is found without the lines that are alike", async () => {
  const event = (n, id = n, end = "\n") =>
    `id: ${id}${end}data: {"choices":[{"delta":{"content":"${n} né"}}]}${end}${end}`;
  const all = Array.from({ length: 300 }, (_, n) => event(n));
  const found = async (events) => {
    const bytes = new TextEncoder().encode(events.join(""));
    const { said, left } = await foldedSaid(bytes);
    assert.ok(left < bytes.length / 2);
    assert.deepEqual(said, saidOf(bytes));
    return said.verdicts.map(([, rule, , places]) => [rule, places.map(([row]) => row)]);
  };
  assert.deepEqual(await found(all), []);
  for (const at of [3, 40, 150, 199]) {
    const again = [...all.slice(0, 200), all[at], ...all.slice(200)];
    assert.deepEqual(await found(again), [["twice", [200]]]);
  }
  const twice = [["twice", [300, 301]]];
  assert.deepEqual(await found([...all, all[7], event(299).trimEnd()]), twice);
  const crlf = all.map((one) => one.replaceAll("\n", "\r\n"));
  assert.deepEqual(await found([...crlf, crlf[7], crlf[8]]), twice);
  const last = all.map((one, n) => `${one.split("\n")[1]}\nid: ${n}\n\n`);
  assert.deepEqual(await found([...last, last[9], last[0]]), twice);
  const replayed = [["twice", Array.from({ length: 100 }, (_, n) => 300 + n)]];
  assert.deepEqual(await found([...all, ...all.slice(0, 100)]), replayed);
  // Ids that many events have, or ids without data, say nothing.
  assert.deepEqual(await found([...all.map((_, n) => event(n, 5)), event(9, 5)]), []);
  assert.deepEqual(await found([...all.slice(0, 250), "id: 7\n\n", ...all.slice(250)]), []);
});

test("a file in which two answers are mixed is read whole", async () => {
  const event = (n) =>
    `data: {"id":"${n < 60 || n % 3 ? "a" : "b"}","choices":[{"delta":{"content":"${n} "}}]}\n\n`;
  const bytes = new TextEncoder().encode(Array.from({ length: 300 }, (_, n) => event(n)).join(""));
  assert.equal(await fold(new Blob([bytes]), find), undefined);
  const apart = Array.from({ length: 300 }, (_, n) =>
    event(n).replace(/"[ab]"/, n < 150 ? '"a"' : '"b"'),
  );
  assert.ok(await fold(new Blob([apart.join("")]), find));
});
