// Build Pyodide's part of .build/runtime/: what a browser needs to run Python, ready to be served from this machine.
//
// In: the npm package `pyodide`, the micropip wheel in .build/wheels/. Out: Pyodide's files, the standard library as bytecode, the
// wheel, and a lock file that names only the packages that are there.

import { createHash } from "node:crypto";
import { copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const npm = join(root, "node_modules", "pyodide");
const wheels = join(root, ".build", "wheels");
const runtime = join(root, ".build", "runtime");
// Built beside it and then moved in, file by file: a running server never sees half a file.
const out = `${runtime}.new`;

/** Compile the standard library with the Python that will run it. */
async function compiledStdlib() {
  const { loadPyodide } = await import(pathToFileURL(join(npm, "pyodide.mjs")).href);
  const python = await loadPyodide({ indexURL: npm });
  python.FS.writeFile("/stdlib.zip", await readFile(join(npm, "python_stdlib.zip")));
  python.FS.writeFile(
    "/compile_stdlib.py",
    await readFile(join(root, "tools", "compile_stdlib.py")),
  );
  const count = python.runPython(`
import sys
sys.path.insert(0, "/")
import compile_stdlib
compile_stdlib.compile_zip("/stdlib.zip", "/compiled.zip")
`);
  if (!(count > 100))
    throw new Error(`only ${count} modules of the standard library could be compiled`);
  return python.FS.readFile("/compiled.zip");
}

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
for (const name of ["pyodide.asm.wasm", "pyodide.asm.mjs", "pyodide.mjs"])
  await copyFile(join(npm, name), join(out, name));
await writeFile(join(out, "python_stdlib.zip"), await compiledStdlib());
const lock = JSON.parse(await readFile(join(npm, "pyodide-lock.json"), "utf8"));
const packages = /** @type {Record<string, object>} */ ({});
for (const name of await readdir(wheels)) {
  const wheel = await readFile(join(wheels, name));
  await writeFile(join(out, name), wheel);
  const [project = "", version] = name.split("-");
  const sha256 = createHash("sha256").update(wheel).digest("hex");
  packages[project] = { ...lock.packages[project], file_name: name, version, sha256 };
}
// With this lock `loadPackage("micropip")` works, which PyScript calls.
await writeFile(join(out, "pyodide-lock.json"), JSON.stringify({ ...lock, packages }));
await mkdir(runtime, { recursive: true });
for (const name of await readdir(runtime))
  if (name.startsWith("micropip-")) await rm(join(runtime, name));
for (const name of await readdir(out)) await rename(join(out, name), join(runtime, name));
await rm(out, { recursive: true });
process.exit(0);
