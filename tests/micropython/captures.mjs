// Read files in MicroPython as it is shipped, in Node: its runtime, and the modules that a page
// loads to open files.
//
// node tests/micropython/captures.mjs FILE…
// Out: one line of JSON, for each file what `capture_rows` returns, or the message of its error.

import { readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { startPython } from "../../web/src/boot-micropython.js";

const runtime = join(dirname(fileURLToPath(import.meta.url)), "..", "..", ".build", "runtime");
const { loadMicroPython } = await import(pathToFileURL(join(runtime, "micropython.mjs")).href);
const python = await startPython(
  loadMicroPython,
  join(runtime, "micropython.wasm"),
  readFileSync(join(runtime, "detok_micropython.bin")),
);
python.streams.extend(python.fill(readFileSync(join(runtime, "detok_captures.bin"))));
const results = process.argv.slice(2).map((file) => {
  try {
    const given = python.fill(new Uint8Array(readFileSync(file)));
    return JSON.parse(python.streams.capture_rows(given, basename(file)));
  } catch (error) {
    return String(error instanceof Error ? error.message : error)
      .trim()
      .split("\n")
      .at(-1);
  }
});
process.stdout.write(`${JSON.stringify(results)}\n`, () => process.exit(0));
