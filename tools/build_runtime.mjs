// Build .build/runtime/: everything a browser needs to run Python, ready to be served from this machine.
//
// In: the npm package `pyodide`, the micropip wheel in .build/wheels/. Out: Pyodide's files, the standard library as bytecode,
// the wheel; beside each the same file brotli- and gzip-compressed where that is worth it, and manifest.json:
// {file: {bytes, br_bytes, gz_bytes, sha256}}. br_bytes equals bytes where there is no .br to serve.

import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { place } from "./place.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const npm = join(root, "node_modules", "pyodide");
const runtime = join(root, ".build", "runtime");
// Built beside the old one and then put in its place: a server that is running never sees half a runtime.
const out = `${runtime}.new`;

/** Compile the standard library by the very Python that will run it. */
async function compiledStdlib() {
  const { loadPyodide } = await import(pathToFileURL(join(npm, "pyodide.mjs")).href);
  const python = await loadPyodide({ indexURL: npm });
  python.FS.writeFile("/stdlib.zip", await readFile(join(npm, "python_stdlib.zip")));
  python.FS.writeFile("/compile_stdlib.py", await readFile(join(root, "tools", "compile_stdlib.py")));
  const count = python.runPython(`
import sys
sys.path.insert(0, "/")
import compile_stdlib
compile_stdlib.compile_zip("/stdlib.zip", "/compiled.zip")
`);
  if (!(count > 100)) throw new Error(`only ${count} modules of the standard library could be compiled`);
  return python.FS.readFile("/compiled.zip");
}

async function main() {
  await rm(out, { recursive: true, force: true });
  await mkdir(out, { recursive: true });
  /** @type {Record<string, Promise<object>>} */
  const placed = {};
  // The wasm takes longest to compress and does so on other threads: begin with it.
  for (const name of ["pyodide.asm.wasm", "pyodide.asm.mjs", "pyodide.mjs"]) {
    placed[name] = place(out, name, await readFile(join(npm, name)));
  }
  placed["python_stdlib.zip"] = place(out, "python_stdlib.zip", await compiledStdlib());
  const wheels = join(root, ".build", "wheels");
  const lock = JSON.parse(await readFile(join(npm, "pyodide-lock.json"), "utf8"));
  const packages = /** @type {Record<string, object>} */ ({});
  for (const name of await readdir(wheels)) {
    const wheel = await readFile(join(wheels, name));
    placed[name] = place(out, name, wheel);
    const [project = "", version] = name.split("-");
    packages[project] = { ...lock.packages[project], file_name: name, version, sha256: createHash("sha256").update(wheel).digest("hex") };
  }
  // The packages that are here, as they are here: `loadPackage("micropip")` works, and PyScript, which calls it.
  placed["pyodide-lock.json"] = place(out, "pyodide-lock.json", Buffer.from(JSON.stringify({ ...lock, packages })));
  /** @type {Record<string, object>} */
  const manifest = {};
  for (const name of Object.keys(placed).sort()) manifest[name] = await placed[name];
  await writeFile(join(out, "manifest.json"), JSON.stringify(manifest, null, 1) + "\n");
  await rm(runtime, { recursive: true, force: true });
  await rename(out, runtime);
}

await main();
process.exit(0);
