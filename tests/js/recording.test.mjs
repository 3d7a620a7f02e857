// The page's own record of a stream, beside the decoder of the platform.

import assert from "node:assert/strict";
import test from "node:test";

import { PANES, Recording } from "../../web/demo/recording.js";

/** Streams of a few kinds of bytes, that begin, go on and break characters. */
function* streams() {
  const kinds = [
    0x41, 0xc3, 0xa9, 0xe2, 0x82, 0xac, 0xed, 0xa0, 0xf0, 0x9f, 0x98, 0x80, 0xef, 0xbf, 0xbd, 0xff,
  ];
  let seed = 7;
  const random = (/** @type {number} */ below) =>
    (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % below;
  for (let n = 0; n < 400; n++)
    yield Array.from({ length: 1 + random(12) }, () =>
      Uint8Array.from({ length: random(4) }, () => kinds[random(kinds.length)] ?? 0),
    );
}

/** @param {Uint8Array[]} chunks @param {"token" | "chunk"} [unit] */
function record(chunks, unit) {
  const recording = new Recording(0, unit);
  chunks.forEach((bytes, n) =>
    recording.add(
      { id: n, bytes, text: "", heldBytes: new Uint8Array(0), heldText: "", special: null },
      n,
    ),
  );
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
    assert.equal(tracks.naive.brokenAt(length), alone.split("\ufffd").length - 1);
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
    const faulty = recording.faults.some(({ kind }) => kind !== "split");
    assert.equal(faulty, shown.includes("\ufffd"));
  }
});

test("faults have their kind, once for each step, in order", () => {
  const bytes = (/** @type {number[]} */ ...list) => Uint8Array.from(list);
  const chunks = [
    bytes(0x41),
    bytes(0xc3),
    bytes(0xa9, 0xff),
    bytes(0xef, 0xbf, 0xbd),
    bytes(0xe2, 0x82),
  ];
  assert.deepEqual(record(chunks).faults, [
    { step: 1, kind: "split" },
    { step: 2, kind: "invalid" },
    { step: 3, kind: "written" },
    { step: 4, kind: "cut" },
  ]);
  assert.equal(record(chunks, "chunk").faults[2]?.kind, "marked");
  assert.equal(record(chunks).nextFault(3), 2);
  assert.equal(record(chunks).nextFault(5), -1);
});

test("a place in the text belongs to the step that added it", () => {
  const recording = record([..."naïve"].map((one) => new TextEncoder().encode(one)));
  for (const name of PANES) {
    const track = recording.tracks[name];
    const length = track.lengthAt(recording.length);
    for (let at = 0; at < length; at++) assert.equal(track.stepAt(at), at);
  }
});
