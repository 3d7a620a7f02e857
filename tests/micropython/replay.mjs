// Play a recording in MicroPython as it is shipped, in Node: the runtime of .build/runtime/,
// started by the code that starts it in a page.
//
// node tests/micropython/replay.mjs RECORDING MODULES < MORE
// MORE: JSON, the modules that are not shipped, by name. Out: one line of JSON, what player.py
// returns.

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { startPython } from "../../web/src/boot-micropython.js";

const here = dirname(fileURLToPath(import.meta.url));
const runtime = join(here, "..", "..", ".build", "runtime");
const [recording, modules] = process.argv.slice(2);
const { loadMicroPython } = await import(pathToFileURL(join(runtime, "micropython.mjs")).href);
const { interpreter } = await startPython(
  loadMicroPython,
  join(runtime, "micropython.wasm"),
  readFileSync(join(runtime, "detok_micropython.bin")),
);
for (const [name, source] of Object.entries(JSON.parse(readFileSync(0, "utf8"))))
  interpreter.FS.writeFile(`/detok/${name}`, source);
interpreter.FS.mkdirTree("/replay");
for (const name of readdirSync(here)) {
  if (name.endsWith(".py"))
    interpreter.FS.writeFile(`/replay/${name}`, readFileSync(join(here, name)));
}
interpreter.runPython('import sys\nsys.path.append("/replay")');
interpreter.FS.writeFile("/recording", readFileSync(recording));
try {
  console.log(interpreter.pyimport("player").play("/recording", modules));
} catch (error) {
  // Not the error itself: Node would show the line it comes from, and micropython.mjs is one line.
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
}
process.exit(0);
