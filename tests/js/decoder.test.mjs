/** Decoders outside of a page, with a worker that says what the worker of a page would. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { getEventListeners } from "node:events";
import { connect } from "../../web/src/connect.js";
import { createDecoder } from "../../web/src/create-decoder.js";
import { decoderWorker, warmUp } from "../../web/src/decoder.js";
import { readable } from "../../web/src/detok-stream.js";
import { holdWhileAlive, postNote } from "../../web/src/messages.js";
import { stepTable } from "../../web/src/step-table.js";
import { standIn } from "./stand-in.mjs";

test("only a number is an id, also where its text is known", async (t) => {
  // The ids are letters from "a" on, in a stream without options.
  standIn(t, () => ({
    ask: (name) =>
      ({
        begin_steps: [["begun", true, "", ["", "", null], "", "content"], null],
        tokens_of: [..."abc"],
        fan: [[[], "end", null]],
      })[name],
  }));
  const vocabulary = { sha256: "0".repeat(64), size: 3, bytes: new Uint8Array(), format: null };
  const decoder = await createDecoder({ vocabulary });
  // The texts of the ids come in the background: before the reply to what is asked later.
  await new Promise(setImmediate);
  await decoderWorker().ask("fan");
  assert.equal(decoder.push(1), "b");
  for (const wrong of ["1", 1n, [[1]], undefined, [0, undefined], new Array(1)])
    assert.throws(() => decoder.push(wrong), TypeError);
});

test("a strict decoder gives the text before a wrong byte, also of a character that began before", async () => {
  const decoder = await createDecoder({ fatal: true });
  assert.equal(decoder.feed(Uint8Array.of(0xe4)), "");
  assert.equal(decoder.feed(Uint8Array.of(0xbd, 0xa0, 0x61, 0xff, 0x62)), "你a");
  assert.throws(() => decoder.feed(Uint8Array.of(0x63)), /UTF-8/);
});

test("a stream asks its source for nothing before it is read", async () => {
  let pulls = 0;
  const stream = readable({ pull: (controller) => controller.enqueue(++pulls) });
  await new Promise(setImmediate);
  assert.equal(pulls, 0);
  assert.equal((await stream.getReader().read()).value, 1);
});

test("finish is the last event and comes once, whichever event a listener cancels in", async (t) => {
  const text = (deltas) => ({ type: "text", deltas, count: 1, position: 1 });
  const events = [
    text([
      ["reasoning", "r"],
      ["content", "ax"],
    ]),
    text([["content", "b"]]),
    { type: "finished", reason: "eos", deltas: [["content", "c"]], position: 3 },
  ];
  standIn(t, (port) => ({
    prepare() {},
    connect: (stream) => postNote(port, "batch", { stream, at: 0, events }),
    release() {},
  }));
  const expected = {
    none: "delta r, delta ax, token, delta b, token, delta c, finish eos",
    r: "delta r, finish cancelled",
    ax: "delta r, delta ax, finish cancelled",
    c: "delta r, delta ax, token, delta b, token, delta c, finish cancelled",
  };
  for (const granularity of ["character", "grapheme"])
    for (const [limit, told] of Object.entries(expected)) {
      const answer = connect("ws://x/stream", { prompt: "", granularity });
      const log = [];
      let shown = "";
      answer.addEventListener("delta", ({ detail }) => (shown += detail.text));
      for (const type of ["delta", "token", "held", "error", "finish"])
        answer.addEventListener(type, ({ detail }) => {
          log.push(`${type} ${detail.reason ?? detail.text ?? ""}`.trim());
          if (type === "delta" && limit.startsWith(detail.text)) answer.cancel();
        });
      const { reason } = await answer.finished;
      await new Promise(setImmediate);
      assert.equal(reason, told.split(" ").at(-1));
      if (granularity === "character") assert.equal(log.join(", "), told);
      assert.ok("raxbc".startsWith(shown), shown); // no text comes from behind a gap
      assert.deepEqual(
        log.filter((line) => line.startsWith("finish")),
        log.slice(-1),
      );
    }
});

test("a worker that boots while the cause of its delay is looked for is kept", async (t) => {
  const { fetch } = globalThis;
  t.after(() => (globalThis.fetch = fetch));
  if (!globalThis.navigator) {
    globalThis.navigator = {}; // Node 20 has none
    t.after(() => delete globalThis.navigator);
  }
  let begin;
  const booting = new Promise((resolve) => (begin = resolve));
  const ended = standIn(t, (port) => ({
    async boot({ lock }) {
      await holdWhileAlive(lock);
      postNote(port, "progress", { step: "reading MicroPython" });
      return new Promise(begin);
    },
  }));
  globalThis.fetch = async (url) => {
    const boot = await booting; // the worker may begin late on busy cores
    boot({ runtime: "micropython" });
    await new Promise((resolve) => setTimeout(resolve, 5));
    const type = /js$/.test(url) ? "text/javascript" : "application/wasm";
    return new Response("", { headers: { "content-type": type } });
  };
  const { runtime } = await warmUp({ timeout: 20 });
  assert.equal(runtime, "micropython");
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.deepEqual(ended, []);
});

test("what a decoder was given for itself is not kept after it", async (t) => {
  standIn(t, () => ({ ask: () => [["begun", false, "", ["", "", null], "", "content"]] }));
  const { signal } = new AbortController();
  const options = { stop: ["of its own"], fatal: true };
  await createDecoder({ ...options, signal, onText() {} });
  assert.deepEqual(getEventListeners(signal, "abort"), []);
  const { options: kept } = stepTable({ ...options, signal });
  assert.equal(kept.fatal, true);
  assert.ok(!kept.signal && !kept.onText);
});
