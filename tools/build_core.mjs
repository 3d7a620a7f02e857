// Build .build/runtime/python_core.zip: the standard library cut down to what Pyodide's start and
// detok_py's core import, and detok_py itself, all as bytecode. For pages that embed detok and
// nothing else: about a third of the bytes, and no micropip.
//
// In: .build/runtime/ with Pyodide and the wheel for browsers. Out: python_core.zip, and
// python_core.json: {info, bytes, sha256}, what Pyodide must know of itself, and the zip's size
// and hash; and detok_bytecode.bin, for a Pyodide with its whole library that installs the wheel
// (micropip.js). Which modules are needed is found by running them: core_work.py imports and uses
// everything once, and what has been loaded from the standard library by then goes in. Then a fresh
// Python starts from the new zip and does the same work again.

import { createHash } from "node:crypto";
import { readdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const out = join(root, ".build", "runtime");
const name = "python_core.zip";
const { loadPyodide } = await import(pathToFileURL(join(out, "pyodide.mjs")).href);
const compiler = await readFile(join(root, "tools", "compile_stdlib.py"));
const work = await readFile(join(root, "tools", "core_work.py"), "utf8");

const wheel = (await readdir(out)).find(
  (file) => file.startsWith("detok_py-") && file.endsWith("-any.whl"),
);
if (!wheel) throw new Error("there is no wheel of detok_py in .build/runtime/");

const python = await loadPyodide({
  indexURL: `${out}/`,
  stdLibURL: join(out, "python_stdlib.zip"),
});
python.FS.writeFile("/detok.zip", new Uint8Array(await readFile(join(out, wheel))));
python.FS.writeFile("/stdlib.zip", new Uint8Array(await readFile(join(out, "python_stdlib.zip"))));
python.runPython(`import sys; sys.path.insert(0, "/detok.zip")`);
python.runPython(work);
// Asked before the compiler brings its own imports along.
const loaded = python.runPython(`
import sys
[(module.__spec__.origin or "") for module in list(sys.modules.values()) if getattr(module, "__spec__", None)]
`);
python.FS.writeFile("/compile_stdlib.py", compiler);
python.globals.set("loaded", loaded);
python.runPython(`
sys.path.insert(0, "/")
import compile_stdlib
compile_stdlib.select("/stdlib.zip", "/detok.zip", "/core.zip", loaded)
compile_stdlib.compile_beside("/detok.zip", "/bytecode.bin")
`);
await writeFile(join(out, "detok_bytecode.bin"), python.FS.readFile("/bytecode.bin"));
const zip = python.FS.readFile("/core.zip");

// kit.zip has what the regression kit needs in Node: its folder of detok_py (no terminals), what
// reads servers' events, and what these import of the standard library beyond the core.
const kit = {
  glyphs: /^(?!terminal).*\.(py|js)$/,
  captures: /^(__init__|event_shapes|mojibake|replaced)\./,
};
for (const [folder, pattern] of Object.entries(kit)) {
  python.FS.mkdirTree(`/kit/detok_py/${folder}`);
  for (const file of await readdir(join(root, "detok_py", folder)))
    if (pattern.test(file))
      python.FS.writeFile(
        `/kit/detok_py/${folder}/${file}`,
        await readFile(join(root, "detok_py", folder, file)),
      );
}
python.runPython(`
import zipfile
from pathlib import Path
with zipfile.ZipFile("/sources.zip", "w") as sources:
    for path in sorted(Path("/kit").rglob("*.*")):
        sources.write(path, path.relative_to("/kit").as_posix())
import detok_py
detok_py.__path__.append("/kit/detok_py")
import detok_py.glyphs.drive, encodings.cp1252, encodings.cp437, encodings.cp850
beyond = [(module.__spec__.origin or "") for module in list(sys.modules.values()) if getattr(module, "__spec__", None)]
with zipfile.ZipFile("/core.zip") as core:
    known = set(core.namelist())
compile_stdlib.select("/stdlib.zip", "/sources.zip", "/kit.zip", [one for one in beyond if one.split(".zip/")[-1] not in known])
`);
await writeFile(join(root, ".build", "kit.zip"), python.FS.readFile("/kit.zip"));

const fresh = join(out, `${name}.new`);
await writeFile(fresh, zip);
const second = await loadPyodide({ indexURL: `${out}/`, stdLibURL: fresh });
second.runPython(work);
await rename(fresh, join(out, name));
const sha256 = createHash("sha256").update(zip).digest("hex");
const { info } = JSON.parse(await readFile(join(out, "pyodide-lock.json"), "utf8"));
await writeFile(join(out, "python_core.json"), JSON.stringify({ info, bytes: zip.length, sha256 }));
process.exit(0);
