// Each rule that was found in a program does what it is named for, and its losses, doubles and late
// characters are counted.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Utf8Reader } from "../../web/demo/utf8.js";
import { difference, WILD_RULES, WildStream } from "../../web/demo/wild-rules.js";

const encoder = new TextEncoder();

/**
 * What a rule shows for tokens, step by step, and its counts.
 * @param {string} id
 * @param {(string | number[])[]} tokens
 */
function play(id, tokens) {
  const rule = WILD_RULES.find((one) => one.id === id);
  assert.ok(rule, id);
  const stream = new WildStream(rule);
  const shown = tokens.map((token) =>
    stream.push(typeof token === "string" ? encoder.encode(token) : Uint8Array.from(token)),
  );
  return { shown: [...shown, stream.flush()], counts: stream.counts };
}

const ROCKET = [...encoder.encode("🚀")];
const FIRST = ROCKET.slice(0, 2);
const REST = ROCKET.slice(2);
const none = { lost: 0, doubled: 0, broken: 0, late: 0 };

test("every rule has a name, a link and a sentence", () => {
  assert.equal(new Set(WILD_RULES.map(({ id }) => id)).size, 7);
  for (const { name, does, link, where } of WILD_RULES) {
    assert.match(link, /^https:\/\//);
    assert.ok(name && where && does.endsWith("."));
  }
});

test("text of whole ASCII tokens with spaces is right by every rule", () => {
  for (const { id } of WILD_RULES) {
    const { shown, counts } = play(id, ["Hi", " there", ",", " you"]);
    assert.equal(shown.join(""), "Hi there, you", id);
    assert.deepEqual({ ...counts, late: 0 }, none, id);
  }
});

test("decode each token: each half is a replacement character", () => {
  const { shown, counts } = play("each-token", ["a", FIRST, REST, "b"]);
  assert.deepEqual(shown, ["a", "�", "��", "b", ""]);
  assert.deepEqual(counts, { lost: 1, doubled: 0, broken: 3, late: 0 });
});

test("window of 4 tokens: what was � and becomes a character is lost", () => {
  const { shown, counts } = play("window-4", ["Hi ", FIRST, REST, "!"]);
  assert.deepEqual(shown, ["Hi ", "", "", "!", ""]);
  assert.deepEqual(counts, { lost: 1, doubled: 0, broken: 0, late: 0 });
  // Text that ends with � when the window has moved on is never shown.
  assert.equal(play("window-4", ["x", "�", "a", "b", "c", "d"]).shown.join(""), "xabcd");
});

test("ends with �: halves wait, and so does a � that is text, up to a bound", () => {
  assert.deepEqual(play("ends-with", ["a", FIRST, REST]), {
    shown: ["a", "", "🚀", ""],
    counts: none,
  });
  assert.equal(play("ends-with", [[0xc3], [0xa9]]).shown[1], "é");
  const { shown, counts } = play("ends-with", ["a�", "b"]);
  assert.deepEqual(shown, ["", "a�b", ""]);
  assert.equal(counts.late, 2);
  assert.equal(play("ends-with", [`${"x".repeat(20)}�`]).shown[0], `${"x".repeat(20)}�`);
});

test("hold to the last space: each word waits for the next, CJK and lines do not", () => {
  const { shown, counts } = play("last-space", ["Hel", "lo", " you", "\n", "你", "好", "!", "end"]);
  assert.deepEqual(shown, ["", "", "Hello ", "you\n", "你", "好", "", "", "!end"]);
  assert.deepEqual(counts, { ...none, late: 12 });
  assert.equal(play("last-space", [[...encoder.encode("你")].slice(0, 2), [0xa0]]).shown[1], "你");
});

test("flush on space: text without spaces waits until the end", () => {
  const { shown, counts } = play("flush-on-space", ["one", " two", "你", "好"]);
  assert.deepEqual(shown, ["", "one", "", "", " two你好"]);
  assert.deepEqual(counts, { ...none, late: 9 });
  // A token that begins with a space breaks the half before it.
  assert.deepEqual(play("flush-on-space", [FIRST, " x"]).shown, ["", "�", " x"]);
});

test("count of � modulo 4: after one � that is text, all waits; four halves are shown", () => {
  assert.deepEqual(play("modulo-4", [FIRST, REST, "a"]), {
    shown: ["", "🚀", "a", ""],
    counts: none,
  });
  const { shown, counts } = play("modulo-4", ["�", "a", "b"]);
  assert.deepEqual(shown, ["", "", "", "�ab"]);
  assert.equal(counts.late, 3);
  const three = play("modulo-4", ["���", FIRST, REST]);
  assert.equal(three.shown[1], "����");
  assert.deepEqual([three.counts.lost, three.counts.broken], [1, 3]);
});

test("slice(0, n): half of a pair is shown, and the end is right", () => {
  const { shown, counts } = play("slice", ["🚀", "🚀"]);
  assert.ok(shown.some((text) => /\p{Surrogate}/u.test(text)));
  assert.equal(shown.join(""), "🚀🚀");
  assert.deepEqual({ ...counts, late: 0 }, none);
  assert.ok(counts.late > 0);
});

test("what differs is counted by characters, not by UTF-16 units", () => {
  assert.deepEqual(difference("a🚀b", "a��b"), { lost: 1, doubled: 0, broken: 2 });
  assert.deepEqual(difference("世ab", "世世ab"), { lost: 0, doubled: 1, broken: 0 });
  assert.deepEqual(difference("a�b", "a�b"), { lost: 0, doubled: 0, broken: 0 });
  const long = "ab".repeat(3000);
  assert.deepEqual(difference(`x${long}y`, `y${long.replaceAll("ab", "ba")}x`).lost, 0);
});

test("the end of bytes is inside a character just if the browser's decoder waits", () => {
  const bytes = [0x41, 0x80, 0xa0, 0xbf, 0xc2, 0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xf5];
  for (const a of bytes)
    for (const b of bytes)
      for (const c of bytes) {
        const given = Uint8Array.of(a, b, c);
        const decoder = new TextDecoder();
        const length = decoder.decode(given, { stream: true }).length;
        const whole = new TextDecoder().decode(given).length;
        const reader = new Utf8Reader();
        reader.feed(given);
        assert.equal(reader.needed > 0, whole > length, given.join());
      }
});
