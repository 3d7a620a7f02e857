// Run the unit tests inside Pyodide, in Node: the same files, the same assertions, the Python that
// a browser runs.
//
// In: .build/runtime/ (Pyodide, the compiled standard library, the browser's wheel),
// .build/pyodide-site/ (pytest), tests/, and pytest's own arguments after the file name;
// `--part=1/2` runs every second test function, for two processes side by side. detok_py comes from
// the wheel, not from the source tree, so a module that the wheel forgets is noticed. Out: pytest's
// output and its exit code. Test files that need what Pyodide lacks are named by tests/conftest.py.

import { existsSync, writeSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const runtime = join(root, ".build", "runtime");
const site = join(root, ".build", "pyodide-site");
for (const needed of [runtime, site]) {
  if (!existsSync(needed)) {
    console.error(`${needed} is not there; run: python3 tools/setup.py test`);
    process.exit(2);
  }
}

const { loadPyodide } = await import(pathToFileURL(join(runtime, "pyodide.mjs")).href);
const python = await loadPyodide({
  indexURL: `${runtime}/`,
  stdLibURL: join(runtime, "python_stdlib.zip"),
  env: {
    HOME: "/home/pyodide",
    PYTEST_DISABLE_PLUGIN_AUTOLOAD: "1",
    PYTHONPYCACHEPREFIX: "/pycache",
    COLUMNS: "120",
  },
});
// Byte for byte: by lines, each of pytest's dots would get a line of its own.
const through = (/** @type {number} */ fd) => ({
  isatty: false,
  write: (/** @type {Uint8Array} */ bytes) => writeSync(fd, bytes),
});
python.setStdout(through(1));
python.setStderr(through(2));

/** @param {string} from @param {string} to */
function mount(from, to) {
  python.FS.mkdirTree(to);
  python.FS.mount(python.FS.filesystems.NODEFS, { root: from }, to);
}
mount(join(root, "tests"), "/project/tests");
mount(join(root, "conformance"), "/project/conformance");
mount(site, "/site");
// The same settings, without those of a plugin that isn't here: an unknown setting is an error.
const settings = await readFile(join(root, "pyproject.toml"), "utf8");
python.FS.writeFile("/project/pyproject.toml", settings.replace(/^asyncio_.*\n/gm, ""));
const data = process.env.DETOK_DATA ?? join(dirname(root), "shared", "data");
if (existsSync(data)) mount(data, "/shared/data");

const wheel = (await readdir(runtime)).find(
  (name) => name.startsWith("detok_py-") && name.endsWith("-any.whl"),
);
if (!wheel)
  throw new Error(
    "there is no wheel of detok_py in .build/runtime; run: python3 tools/setup.py test",
  );
const where = python.runPython("import site; site.getsitepackages()[0]");
python.unpackArchive(new Uint8Array(await readFile(join(runtime, wheel))), "wheel", {
  extractDir: where,
});

// In the file system of Pyodide, the folder of the file that gets the counts has another name.
const given = process.argv.slice(2).map((word) => {
  const file = /^--counts=(.+)$/.exec(word)?.[1];
  if (!file) return word;
  mount(dirname(file), "/counts");
  return `--counts=/counts/${basename(file)}`;
});
const [, part = "1", parts = "1"] =
  given.map((word) => /^--part=(\d+)\/(\d+)$/.exec(word)).find(Boolean) ?? [];
python.globals.set("words", python.toPy(given.filter((word) => !word.startsWith("--part="))));
python.globals.set("part", Number(part) - 1);
python.globals.set("parts", Number(parts));
const code = python.runPython(`
import os, sys
sys.path.insert(0, "/site")
os.chdir("/project")
import pytest

class Part:
    """Of the test functions every n-th, with all its cases: what they share is made once."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        functions = list(dict.fromkeys((item.path, getattr(item, "originalname", item.name)) for item in items))
        ours = set(functions[part::parts])
        items[:] = [item for item in items if (item.path, getattr(item, "originalname", item.name)) in ours]

int(pytest.main([
    "-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "_hypothesis_pytestplugin",
    "-q", "--continue-on-collection-errors", "--ignore=tests/browser", "--ignore=tests/webkit", "--ignore=tests/pyodide", *words,
], plugins=[Part()]))
`);
process.exit(code);
