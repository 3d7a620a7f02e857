/** decoder-worker.js for the single file, which contains MicroPython, so nothing is loaded. */

import { bundle, loadMicroPython, wasm as compressed } from "detok:runtime";
import { startPython } from "../src/boot-micropython.js";
import { answerCalls, holdWhileAlive, postNote } from "../src/messages.js";
import * as socket from "../src/socket.js";
import { streamCalls } from "../src/stream-calls.js";
import { wasm } from "./single-wasm.js";

const scope = /** @type {import("../src/messages.js").Port} */ (
  /** @type {unknown} */ (globalThis)
);

/** @param {string} base64 */
async function inflated(base64) {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** @type {import("../src/boot-micropython.js").Python} */
let python;

answerCalls(scope, {
  ...streamCalls(
    () => python,
    (batch) => postNote(scope, "batch", batch),
    reportError,
    () => socket,
  ),
  /** @param {string} lock */
  async boot(lock) {
    const began = performance.now();
    await holdWhileAlive(lock);
    postNote(scope, "progress", { step: "starting MicroPython", loaded: 0, total: 0 });
    const [program, modules] = await Promise.all([inflated(compressed), inflated(bundle)]);
    wasm.bytes = program;
    python = await startPython(loadMicroPython, "micropython.wasm", modules);
    return {
      runtime: "micropython",
      ...JSON.parse(python.streams.about()),
      kept: false,
      milliseconds: performance.now() - began,
      bytes: 0,
      transferred: 0,
    };
  },
});
