// What arrived, and what a rule breaks itself, in the text of a rule.

import assert from "node:assert/strict";
import test from "node:test";

import { Recording } from "../../web/demo/recording.js";
import { WildMarks } from "../../web/demo/wild-marks.js";
import { WILD_RULES, WildStream } from "../../web/demo/wild-rules.js";

/**
 * The kinds of the marks, and the U+FFFD that have none.
 * @param {number[][]} chunks
 * @param {string} id
 */
function marked(chunks, id) {
  const rule = WILD_RULES.find((one) => one.id === id);
  assert.ok(rule);
  const stream = new WildStream(rule);
  const marks = new WildMarks();
  const recording = new Recording(0);
  const row = { id: 1, text: "", heldBytes: new Uint8Array(0), heldText: "", special: null };
  let text = "";
  const parts = chunks.flatMap((chunk, n) => {
    const bytes = Uint8Array.from(chunk);
    recording.add({ bytes, ...row }, n);
    const piece = stream.push(bytes);
    text += piece;
    return marks.push(recording, n, piece);
  });
  for (const { from, to } of parts) assert.match(text.slice(from, to), /^\ufffd+$/);
  const all = text.split("\ufffd").length - 1;
  const kinds = parts.map(({ kind }) => kind);
  return { kinds, own: all - parts.reduce((sum, { from, to }) => sum + to - from, 0) };
}

test("a U+FFFD that the model wrote or that arrived is not the rule's own, one that it makes is", () => {
  const split = [[0x61, 0xe4, 0xbd], [0xa0], [0x62]];
  for (const [chunks, kinds, own] of [
    [[[0x61], [0xef, 0xbf, 0xbd], [0x62]], ["written"], 0],
    [[[0x61], [0xff], [0x62]], ["damage"], 0],
    [[...split, [0xef, 0xbf, 0xbd]], ["written"], 2],
  ])
    assert.deepEqual(marked(chunks, "each-token"), { kinds, own });
});
