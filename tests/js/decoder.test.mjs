/** Decoders outside of a page, with a worker that says what the worker of a page would. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { createDecoder } from "../../web/src/create-decoder.js";
import { decoderWorker, shutDown } from "../../web/src/decoder.js";
import { readable } from "../../web/src/detok-stream.js";
import { answerCalls } from "../../web/src/messages.js";

/** The worker of a vocabulary whose ids are letters from "a" on, in a stream without options. */
class LettersWorker {
  constructor() {
    const { port1, port2 } = new MessageChannel();
    answerCalls(port2, {
      boot: () => ({}),
      ask: (name) =>
        ({
          begin_steps: [["begun", true, "", ["", "", null], "", "content"], null],
          tokens_of: [..."abc"],
          fan: [[[], "end", null]],
        })[name],
    });
    return Object.assign(port1, { terminate: () => port2.close() });
  }
}

test("only a number is an id, also where its text is known", async (t) => {
  globalThis.Worker = LettersWorker;
  t.after(() => {
    shutDown();
    delete globalThis.Worker;
  });
  const vocabulary = { sha256: "0".repeat(64), size: 3, bytes: new Uint8Array(), format: null };
  const decoder = await createDecoder({ vocabulary });
  // The texts of the ids come in the background: before the reply to what is asked later.
  await new Promise(setImmediate);
  await decoderWorker().ask("fan");
  assert.equal(decoder.push(1), "b");
  for (const wrong of ["1", 1n, [[1]]]) assert.throws(() => decoder.push(wrong), TypeError);
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
