// Build Pyodide's part of .build/runtime/: what a browser needs to run Python, ready to be served
// from this machine.
//
// In: the npm package `pyodide`, the micropip wheel in .build/wheels/. Out: Pyodide's files; the
// standard library and the wheel as bytecode; memory.bin, the memory of a Pyodide that has started;
// and a lock file that names only the packages that are there.

import { createHash } from "node:crypto";
import { copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { packMemory } from "../web/src/memory-snapshot.js";
import { importMicropip } from "../web/src/micropip.js";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const npm = join(root, "node_modules", "pyodide");
const wheels = join(root, ".build", "wheels");
const runtime = join(root, ".build", "runtime");
// Built beside it and then moved in, file by file: a running server never sees half a file.
const out = `${runtime}.new`;

const { loadPyodide } = await import(pathToFileURL(join(npm, "pyodide.mjs")).href);
const compiler = await loadPyodide({ indexURL: npm });
compiler.FS.writeFile(
  "/compile_stdlib.py",
  new Uint8Array(await readFile(join(root, "tools", "compile_stdlib.py"))),
);
compiler.runPython('import sys; sys.path.insert(0, "/"); import compile_stdlib');

/**
 * Compile the modules of a zip with the Python that will run them.
 * @param {string} path
 * @param {number} least
 * @param {"ZIP_STORED" | "ZIP_DEFLATED"} compression
 */
async function compiled(path, least, compression) {
  compiler.FS.writeFile("/sources.zip", new Uint8Array(await readFile(path)));
  const count = compiler.runPython(
    `compile_stdlib.compile_zip("/sources.zip", "/compiled.zip", compile_stdlib.zipfile.${compression})`,
  );
  if (!(count > least)) throw new Error(`only ${count} modules of ${path} could be compiled`);
  return compiler.FS.readFile("/compiled.zip");
}

/**
 * Pyodide's memory when it has started from the standard library in `out` and imported micropip.
 * @param {object} info
 * @param {string} micropip  The name of its wheel.
 */
async function startedMemory(info, micropip) {
  const python = await loadPyodide({
    indexURL: `${out}/`,
    stdLibURL: join(out, "python_stdlib.zip"),
    lockFileContents: { info, packages: {} },
    packageBaseUrl: "/", // micropip keeps it, and this folder is not where the page has it
    _makeSnapshot: true,
  });
  importMicropip(python, new Uint8Array(await readFile(join(out, micropip))));
  // Objects of Pyodide that micropip holds are written as the path to them, which boot-pyodide.js
  // follows.
  /** @param {unknown} object @returns {string[]} */
  const wayTo = (object) => {
    for (const [start, holder] of [
      [[], python],
      [["_api"], python._api],
    ])
      for (const [name, descriptor] of Object.entries(Object.getOwnPropertyDescriptors(holder)))
        if (descriptor.value === object) return [...start, name];
    throw new Error(`micropip holds ${String(object)}, which is not of Pyodide`);
  };
  return packMemory(python.makeMemorySnapshot({ serializer: wayTo }));
}

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
for (const name of ["pyodide.asm.wasm", "pyodide.asm.mjs", "pyodide.mjs"])
  await copyFile(join(npm, name), join(out, name));
await writeFile(
  join(out, "python_stdlib.zip"),
  await compiled(join(npm, "python_stdlib.zip"), 100, "ZIP_STORED"),
);
const lock = JSON.parse(await readFile(join(npm, "pyodide-lock.json"), "utf8"));
const packages = /** @type {Record<string, {file_name: string}>} */ ({});
for (const name of await readdir(wheels)) {
  const wheel = await compiled(join(wheels, name), 10, "ZIP_DEFLATED");
  await writeFile(join(out, name), wheel);
  const [project = "", version] = name.split("-");
  const sha256 = createHash("sha256").update(wheel).digest("hex");
  packages[project] = { ...lock.packages[project], file_name: name, version, sha256 };
}
// With this lock `loadPackage("micropip")` works, which PyScript calls.
await writeFile(join(out, "pyodide-lock.json"), JSON.stringify({ ...lock, packages }));
await writeFile(
  join(out, "memory.bin"),
  await startedMemory(lock.info, packages.micropip.file_name),
);
await mkdir(runtime, { recursive: true });
for (const name of await readdir(runtime))
  if (name.startsWith("micropip-")) await rm(join(runtime, name));
for (const name of await readdir(out)) await rename(join(out, name), join(runtime, name));
await rm(out, { recursive: true });
process.exit(0);
