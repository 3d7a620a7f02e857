// Modules of the demo page, beside a stand-in for its document, in which every id has an element
// of any kind that does nothing.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Recording } from "../../web/demo/recording.js";

class AnyElement {
  dataset = {};
  value = "";
  addEventListener() {}
  append() {}
  closest() {}
  getContext() {}
  querySelector() {}
  querySelectorAll() {
    return [];
  }
  setAttribute() {}
}
class Field {
  constructor(kind, type) {
    Object.assign(this, { kind, type });
  }
}

const kinds = [
  "",
  "Input",
  "Select",
  "TextArea",
  "Form",
  "Button",
  "Progress",
  "FieldSet",
  "OList",
];
for (const kind of kinds)
  Object.defineProperty(globalThis, `HTML${kind}Element`, {
    value: class {
      static [Symbol.hasInstance](one) {
        return one instanceof AnyElement || one?.kind === kind;
      }
    },
  });
const listeners = {};
const stored = new Map();
const place = { search: "" };
Object.assign(globalThis, {
  HTMLAnchorElement: AnyElement,
  HTMLCanvasElement: AnyElement,
  Option: AnyElement,
  ResizeObserver: class {
    observe() {}
  },
  document: {
    documentElement: new AnyElement(),
    getElementById: () => new AnyElement(),
    addEventListener: (type, listener) => (listeners[type] = listener),
  },
  location: place,
  sessionStorage: {
    getItem: (key) => stored.get(key) ?? null,
    setItem: (key, value) => stored.set(key, value),
  },
});

const NONE = new Uint8Array(0);
const ROW = { id: 0, bytes: NONE, text: "", heldBytes: NONE, heldText: "", special: null };

/**
 * A stream whose tokens have these bytes and add these texts.
 * @param {[bytes: string, text: string][]} tokens
 * @param {string} [rest]
 */
function record(tokens, rest = "") {
  const recording = new Recording(0);
  tokens.forEach(([bytes, text], id) =>
    recording.add({ ...ROW, id, bytes: new TextEncoder().encode(bytes), text }, 2 * id),
  );
  recording.end(rest, 2 * tokens.length);
  return recording;
}

test("a test of a decoder expects the first space, also where the vocabulary drops it", async () => {
  const { conformanceCase } = await import("../../web/demo/copy-test.js");
  const about = { title: "", about: "" };
  const outs = (recording) => conformanceCase(recording, about).steps.map(({ out }) => out);
  const dropped = record([
    [" the", "the"],
    [" cat", " cat"],
  ]);
  assert.deepEqual(outs(dropped), [" the", " cat", ""]);
  const stopped = record(
    [
      [" the", ""],
      [" cat", " the"],
    ],
    " c",
  );
  stopped.stop = ["at"];
  assert.deepEqual(outs(stopped), ["", " the", " c"]);
  assert.deepEqual(conformanceCase(stopped, about).options, { stop: ["at"] });
});

test("an unfinished answer is kept for what the address asks, however it is shown", async () => {
  const { keepUnfinished, recallUnfinished } = await import("../../web/demo/unfinished.js");
  place.search = "?message=hi&speed=15";
  keepUnfinished({ request: { messages: [], stop: [], id: "one" }, lang: "" });
  for (const search of ["?message=hi&rule=slice&runtime=micropython", "?message=hi"]) {
    place.search = search;
    assert.equal(recallUnfinished()?.request.id, "one");
  }
  place.search = "?message=other&speed=15";
  assert.equal(recallUnfinished(), undefined);
});

test("a quotation has a direction of its own, and ends with a whole character", async () => {
  const { describeStep } = await import("../../web/demo/timeline.js");
  assert.match(describeStep(record([["שלום", "שלום"]]), 0), /, adds \u2068"שלום"\u2069$/);
  const emoji = "😀".repeat(200);
  for (const [text, shown] of [
    [emoji, emoji],
    [`a${emoji}`, `a${emoji.slice(2)}…`],
  ])
    assert.ok(describeStep(record([[text, text]]), 0).endsWith(`adds \u2068"${shown}"\u2069`));
});

test("a text in the report's table stays in its cell", async () => {
  const { tableOf } = await import("../../web/demo/report.js");
  const recording = record([["x", "x"]]);
  const place = { row: 0, got: "Ã|", right: "\\|\r\n", begin: 0, end: 1 };
  const verdict = { who: "engine", rule: "misread", said: "", less: "" };
  recording.judge("", [{ ...verdict, count: 1, places: [place] }]);
  const row = String.raw`| 1 | 0 | ${"`78`"} | Broken by the engine (event 1). “\\\|␍⏎” arrived as “Ã\|”. |`;
  assert.deepEqual(tableOf(recording).slice(2), [row]);
});

test("a stream that is saved before its end says so, and one without a word on its end does not", async () => {
  const { captureOf } = await import("../../web/demo/captures.js");
  const coming = new Recording(0);
  assert.match(captureOf(coming, { header: {} }).end?.note, /saved while the answer came/);
  coming.end("", 0);
  assert.equal(captureOf(coming, { header: {} }).end, undefined);
});

test("without a clipboard, the reason has a way out, and no text is made", async () => {
  const { copyText } = await import("../../web/demo/clipboard.js");
  const never = () => assert.fail("The text was made.");
  Object.defineProperty(globalThis, "navigator", { value: {}, configurable: true });
  await assert.rejects(copyText(never), /over https or at 127\.0\.0\.1, or press Save/);
});

test("the times of a long stream are all counted, and the longest are drawn", async () => {
  const { drawnOf, lanesOf } = await import("../../web/demo/times.js");
  const recording = new Recording(0);
  for (let n = 0; n < 50_000; n++) recording.add(ROW, n < 45_000 ? n : n + 700);
  const lanes = lanesOf(recording, new Float64Array(0));
  const [gaps = []] = lanes.values;
  assert.deepEqual([lanes.count, gaps.length, gaps[45_000]], [50_000, 50_000, 701]);
  const { every, data } = drawnOf(lanes);
  assert.deepEqual([every, data[0].slice(0, 3)], [3, [1, 4, 7]]);
  assert.deepEqual([data[1]?.length, data[1]?.[15_000], data[1]?.[1]], [16_667, 701, 1]);
  assert.deepEqual(drawnOf({ count: 2, values: [[null, 5]] }).data, [
    [1, 2],
    [null, 5],
  ]);
});

test("what is pasted is opened, unless a field for text has the focus", async () => {
  const { onPaste } = await import("../../web/demo/imports.js");
  let taken = 0;
  onPaste(() => (taken += 1));
  const isOpened = (target) => {
    const before = taken;
    const clipboardData = { files: [], getData: () => "data: {}" };
    listeners.paste?.({ target, clipboardData, preventDefault() {} });
    return taken > before;
  };
  for (const type of ["radio", "checkbox", "range", "file"])
    assert.ok(isOpened(new Field("Input", type)), type);
  for (const kind of ["", "Select", "Button"]) assert.ok(isOpened(new Field(kind, "")), kind);
  for (const type of ["text", "search", "url", "email", "number", "password", "tel"])
    assert.ok(!isOpened(new Field("Input", type)), type);
  assert.ok(!isOpened(new Field("TextArea", "textarea")));
});
