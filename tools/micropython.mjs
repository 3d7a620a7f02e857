// Run a Python file in MicroPython's WebAssembly build, in Node, with detok_py's decode path and its shims in place.
//
// node tools/micropython.mjs FILE [--heap MIB]
// In: a Python file. It finds `detok_py` (every module of the core, as it stands in the source tree) and web/micropython/ on its path.
// Out: what it prints; exit code 1 and the traceback when it raises.

import { readdirSync, readFileSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { loadMicroPython } from "@micropython/micropython-webassembly-pyscript/micropython.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const [file, ...options] = process.argv.slice(2);
if (!file) {
  console.error("usage: node tools/micropython.mjs FILE [--heap MIB]");
  process.exit(2);
}
const mebibytes = options[0] === "--heap" ? Number(options[1]) : 32;

const python = await loadMicroPython({
  heapsize: mebibytes * 1024 * 1024,
  linebuffer: false,
  stdout: (/** @type {Uint8Array} */ bytes) => writeSync(1, bytes),
});

/** @param {string} from @param {string} to */
function copy(from, to) {
  python.FS.mkdirTree(to);
  for (const name of readdirSync(from)) {
    if (name.endsWith(".py")) python.FS.writeFile(`${to}/${name}`, readFileSync(join(from, name)));
  }
}
copy(join(root, "web", "micropython"), "/detok");
copy(join(root, "detok_py"), "/detok/detok_py");
copy(dirname(file), "/script"); // what a script imports from beside it
try {
  python.runPython(`import sys\nsys.path[:0] = ["/detok", "/script"]\nimport detok_start\n`);
  python.runPython(readFileSync(file, "utf8"));
} catch (error) {
  writeSync(2, `${error instanceof Error ? error.message : error}\n`);
  process.exit(1);
}
process.exit(0);
