/**
 * The library's worker: boots Python, answers the calls of decoder.js (stream-calls.js), and posts
 * the notes `progress` and `batch`.
 */

import { bootPython } from "./boot-micropython.js";
import { answerCalls, holdWhileAlive, postNote } from "./messages.js";
import { streamCalls } from "./stream-calls.js";

const scope = /** @type {import("./messages.js").Port} */ (/** @type {unknown} */ (globalThis));

/** @type {import("./boot-micropython.js").Python} */
let python;

answerCalls(scope, {
  ...streamCalls(
    () => python,
    (batch) => postNote(scope, "batch", batch),
    reportError, // the page gets this worker's `error` event, and replaces the worker
    (url) => import(/* webpackIgnore: true */ /* @vite-ignore */ url),
  ),
  /**
   * @param
   *   {{runtime: string, booter?: string, runtimeUrl: string, lock: string, [option: string]: any}}
   *   options
   */
  async boot({ runtime, booter, runtimeUrl, lock, ...options }) {
    const began = performance.now();
    const boot = booter ? import(/* webpackIgnore: true */ /* @vite-ignore */ booter) : undefined;
    boot?.catch(() => {}); // awaited below
    await holdWhileAlive(lock);
    python = await ((await boot)?.bootPython ?? bootPython)(
      runtimeUrl,
      (/** @type {unknown} */ progress) => postNote(scope, "progress", progress),
      options,
    );
    const read = /** @type {PerformanceResourceTiming[]} */ (
      performance.getEntriesByType("resource")
    );
    const sum = (/** @type {"encodedBodySize" | "transferSize"} */ name) =>
      read.reduce((all, file) => all + file[name], 0);
    return {
      runtime,
      ...JSON.parse(python.streams.about()),
      kept: python.kept,
      milliseconds: performance.now() - began,
      bytes: sum("encodedBodySize"),
      transferred: sum("transferSize"),
    };
  },
});
