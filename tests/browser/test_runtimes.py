"""One source, two runtimes, in a real browser: what the tests of the decode path saw in CPython
comes out, booted as the library boots.

What is played is the recording that tests/test_micropython.py plays in Node, in parts, so that a
page is never busy for long.
"""

import json
import os
import sys
from pathlib import Path

import build_micropython
import layout
import pytest
from large_data import data_folder

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "micropython"
sys.path.insert(0, str(HERE))

from recording import LONG, SCRIPTS, recording  # noqa: E402

pytestmark = pytest.mark.one_browser

PART = 1 << 20
# Of the recording's tests some: `make test-all` plays more of them in MicroPython in Node, `make
# soak` plays all of them here as well. Pyodide is CPython itself; it plays in the memory of an
# earlier start.
TIER = "soak" if os.environ.get("DETOK_PROFILE") == "soak" else "test-all"
EVERY = 1 if TIER == "soak" else 15


def parts(path, every):
    """Yield the recording in parts of about a megabyte, cut between tests: of each n tests the one
    with the most calls, and all scripts, or all but the long one if n is not 1.
    """
    tests, scripts = [], []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith('["script_'):
            scripts.append(line)
        elif line.startswith('["'):
            tests.append([line])
        else:
            tests[-1].append(line)
    if every > 1:
        tests = [max(tests[at : at + every], key=len) for at in range(0, len(tests), every)]
        scripts = [line for line in scripts if not line.startswith(f'["{LONG}"')]
    part = ""
    for piece in [*map("".join, tests), *scripts]:
        part += piece
        if len(part) > PART:
            yield part
            part = ""
    yield part


@pytest.mark.timeout(900)  # plays thousands of calls: minutes on a busy machine
@pytest.mark.full
@pytest.mark.parametrize("runtime", ["micropython", "pyodide"])
def test_what_the_tests_of_the_decode_path_saw_in_cpython_comes_out_here(page, bridge, runtime):
    files = {
        f"/replay/{path.name}": path.read_text(encoding="utf-8")
        for path in (HERE / "player.py", HERE / "say.py", *HERE.glob("script_*.py"))
    }
    if runtime == "micropython":
        more = build_micropython.left_out()
        files |= {f"/detok/{name}": source for name, source in more.items()}
    # Any document of the bridge will do: its policy is the strict one.
    page.goto(bridge.url + "/src/index.js")
    page.evaluate(
        """async ([runtime, files]) => {
          const { bootPython } = await import(`/src/boot-${runtime}.js`);
          const boot = async () => (await bootPython(location.origin + "/runtime/", () => {}, { cache: "detok" })).interpreter;
          window.python = await boot();
          if (runtime === "pyodide") {
            const store = await caches.open("detok"), first = python.runPython("hash('é')");
            while (!(await store.keys()).length) await new Promise((resolve) => setTimeout(resolve, 50));
            window.python = await boot();
            if (python.runPython("hash('é')") !== first) throw new Error("Python has started anew");
          }
          python.FS.mkdirTree("/replay");
          for (const [path, text] of files) python.FS.writeFile(path, text);
          python.runPython('import sys\\nsys.path.append("/replay")');
        }""",
        [runtime, list(files.items())],
    )
    played = {"calls": 0, "tests": 0, "scripts": 0, "left out": 0}
    for part in parts(recording(data_folder(), TIER), EVERY):
        told = page.evaluate(
            """([part, modules]) => {
              python.FS.writeFile("/recording", part);
              return python.pyimport("player").play("/recording", modules);
            }""",
            [part, " ".join(layout.modules("MicroPython"))],
        )
        seen = json.loads(told)
        assert seen["wrong"] == []
        played = {name: played[name] + seen[name] for name in played}
    assert played["scripts"] == len(SCRIPTS) - (EVERY > 1)
    assert played["tests"] * EVERY > 80
    assert played["calls"] > 5_000
    assert played["left out"] <= (2 if runtime == "micropython" else 0)
