// The page's own record of a stream, beside the decoder of the platform.

import assert from "node:assert/strict";
import test from "node:test";

import { PANES, Recording } from "../../web/demo/recording.js";

const bytesOf = (text) => new TextEncoder().encode(text);
const NONE = new Uint8Array(0);
const ROW = { id: null, bytes: NONE, text: "", heldBytes: NONE, heldText: "", special: null };

/** Streams of a few kinds of bytes, that begin, go on and break characters. */
function* streams() {
  const kinds = [
    0x41, 0xc3, 0xa9, 0xe2, 0x82, 0xac, 0xed, 0xa0, 0xf0, 0x9f, 0x98, 0x80, 0xef, 0xbf, 0xbd, 0xff,
  ];
  let seed = 7;
  const random = (below) => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % below;
  for (let n = 0; n < 400; n++)
    yield Array.from({ length: 1 + random(12) }, () =>
      Uint8Array.from({ length: random(4) }, () => kinds[random(kinds.length)]),
    );
}

/** @param {Uint8Array[]} chunks @param {"token" | "chunk"} [unit] */
function record(chunks, unit) {
  const recording = new Recording(0, unit);
  chunks.forEach((bytes, n) => recording.add({ ...ROW, id: n, bytes }, n));
  recording.end("", chunks.length);
  return recording;
}

test("the tracks are what the platform's decoder makes of the bytes", () => {
  for (const chunks of streams()) {
    const { tracks, length } = record(chunks);
    const whole = new TextDecoder("utf-8", { ignoreBOM: true }).decode(
      Uint8Array.from(chunks.flatMap((chunk) => [...chunk])),
    );
    assert.equal(tracks.stream.text(0, length), whole);
    const alone = chunks.map((chunk) => new TextDecoder().decode(chunk)).join("");
    assert.equal(tracks.naive.text(0, length), alone);
    const written = tracks.naive.damageIn(0, alone.length).filter(({ kind }) => kind === "written");
    const count = written.reduce((sum, { from, to }) => sum + to - from, 0);
    assert.equal(tracks.naive.brokenAt(length), alone.split("\ufffd").length - 1 - count);
  }
});

test("bytes are replaced exactly where the decoder shows U+FFFD for them", () => {
  for (const chunks of streams()) {
    const recording = record(chunks);
    const kept = chunks.flatMap((chunk, n) =>
      [...chunk].filter((_, i) => recording.stateOf(n, i) !== "replaced"),
    );
    // What is not replaced is text without a fault, and no character of it is missing.
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(
      Uint8Array.from(kept),
    );
    const shown = recording.tracks.stream.text(0, recording.length);
    assert.equal(shown.replaceAll("\ufffd", ""), text.replaceAll("\ufffd", ""));
    const faulty = recording.faults.length > 0;
    assert.equal(faulty, shown.includes("\ufffd"));
  }
});

test("faults have their kind, once for each step, in order", () => {
  const chunks = [[0x41], [0xc3], [0xa9, 0xff], [0xef, 0xbf, 0xbd], [0xe2, 0x82]].map((list) =>
    Uint8Array.from(list),
  );
  assert.deepEqual(record(chunks).faults, [
    { step: 2, kind: "invalid" },
    { step: 3, kind: "written" },
    { step: 4, kind: "cut" },
  ]);
  assert.equal(record(chunks, "chunk").faults[1]?.kind, "marked");
  assert.equal(record(chunks).faultIndex(3), 1);
  // A token that begins or ends inside a character is no fault, but can be visited.
  assert.deepEqual(record(chunks).splits, [1, 2, 4]);
  assert.deepEqual(record(chunks).places, [2, 3, 4]);
  assert.deepEqual(record([Uint8Array.of(0xc3), Uint8Array.of(0xa9)]).places, [0, 1]);
  assert.equal(record(chunks).faultIndex(5), 3);
});

test("a verdict takes the place of what was seen, and marks text that is wrong without a U+FFFD", () => {
  const recording = new Recording(0, "chunk");
  recording.add({ ...ROW, bytes: bytesOf("naÃ¯ve"), text: "naÃ¯ve" }, 0);
  recording.add({ ...ROW, bytes: Uint8Array.of(0xff), text: "\ufffd" }, 1);
  recording.end("", 2);
  const place = { row: 0, got: "Ã¯", right: "ï", begin: 2, end: 4 };
  const verdict = { who: "client", rule: "misread", said: "", places: [place], count: 1 };
  const own = { ...verdict, who: "nobody", rule: "model", places: [{ ...place, row: 1 }] };
  recording.judge("A client broke 1 place.", [verdict, own]);
  assert.deepEqual(
    recording.faults.map(({ step, kind }) => [step, kind]),
    [[0, "judged"]],
  );
  for (const name of PANES) {
    const [mark] = recording.tracks[name].damageIn(0, 6);
    assert.deepEqual(mark, { from: 2, to: 4, step: 0, kind: "damage" });
    assert.equal(recording.tracks[name].brokenAt(1), 1);
  }
});

test("misread text that goes on in the next step is one fault, and marked in both", () => {
  const recording = new Recording(0, "chunk");
  for (const [n, text] of ["naÃ", "¯ve"].entries())
    recording.add({ ...ROW, bytes: bytesOf(text), text }, n);
  recording.end("", 2);
  const places = [
    { row: 0, got: "Ã¯", right: "ï", begin: 2, end: 3 },
    { row: 1, got: "¯", right: "", begin: 0, end: 1 },
  ];
  const verdict = { who: "client", rule: "misread", said: "", places, count: 1, less: "reader" };
  recording.judge("", [verdict]);
  assert.deepEqual(recording.places, [0]);
  const marks = recording.tracks.held.damageIn(0, 6);
  assert.deepEqual(
    marks.map(({ from, step }) => [from, step]),
    [
      [2, 0],
      [3, 1],
    ],
  );
});

test("a place in the text belongs to the step that added it", () => {
  const recording = record([..."naïve"].map(bytesOf));
  for (const name of PANES) {
    const track = recording.tracks[name];
    const length = track.lengthAt(recording.length);
    for (let at = 0; at < length; at++) assert.equal(track.stepAt(at), at);
  }
});

test("a U+FFFD is damage where bytes arrived that are no UTF-8, and where a decoder makes it, it is not", () => {
  for (const chunks of streams()) {
    const { tracks, length } = record(chunks);
    const data = Uint8Array.from(chunks.flatMap((chunk) => [...chunk]));
    const marked = (name, mark = "damage") => {
      const text = tracks[name].text(0, length);
      const damage = tracks[name].damageIn(0, text.length).filter(({ kind }) => kind === mark);
      for (const { from, to } of damage)
        assert.match(text.slice(from, to), /^\ufffd+$/, "only U+FFFD is marked");
      return damage.reduce((sum, { from, to }) => sum + to - from, 0);
    };
    // In the whole text are also those whose own bytes came, and the one that the end cuts off.
    const whole = new TextDecoder("utf-8", { ignoreBOM: true });
    const text = whole.decode(data, { stream: true });
    const genuine = Buffer.from(data).toString("latin1").split("\xef\xbf\xbd").length - 1;
    assert.equal(marked("stream"), text.split("\ufffd").length - 1 - genuine);
    assert.equal(marked("stream", "written"), genuine);
    assert.ok(marked("naive") <= tracks.naive.brokenAt(length));
  }
  const whole = record([Uint8Array.of(0xc3), Uint8Array.of(0xa9), Uint8Array.of(0x41, 0xff)]);
  assert.deepEqual(whole.tracks.naive.damageIn(0, 9), [
    { from: 3, to: 4, step: 2, kind: "damage" },
  ]);
  assert.deepEqual(whole.tracks.stream.damageIn(0, 9), [
    { from: 2, to: 3, step: 2, kind: "damage" },
  ]);
  assert.deepEqual(whole.tracks.stream.damageIn(0, 2), []);
});

test("damage in the first pane is marked when its text comes, in the channel that has it", () => {
  const recording = new Recording(0);
  const bytes = Uint8Array.of(0x61, 0xff, 0x62);
  const row = { ...ROW, channel: "reasoning" };
  recording.add({ ...row, bytes, heldText: "a\ufffdb" }, 0);
  recording.add({ ...row, text: "a\ufffdb" }, 1);
  recording.add({ ...row, bytes: Uint8Array.of(0x63), text: "c" }, 2);
  recording.end("", 3);
  assert.deepEqual(recording.partsIn("held", 0, 4), [
    { from: 0, to: 1, kind: "reasoning" },
    { from: 1, to: 2, kind: "damage", step: 0 },
    { from: 2, to: 4, kind: "reasoning" },
  ]);
  assert.deepEqual(recording.partsIn("naive", 0, 4), [{ from: 1, to: 2, kind: "damage", step: 0 }]);
});

test("the text of many steps is that of each", () => {
  const chunks = Array.from({ length: 3000 }, (_, n) => bytesOf(`${n} `));
  const { tracks } = record(chunks);
  const { pieces } = tracks.stream;
  for (const [from, to] of [
    [0, 3000],
    [511, 2600],
    [512, 2560],
    [700, 703],
    [1, 1024],
  ])
    assert.equal(tracks.stream.text(from, to), pieces.slice(from, to).join(""));
});
