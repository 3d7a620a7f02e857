"""Files are read in MicroPython as in CPython: the modules that a page loads, as they are
shipped.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import build_on_demand
import pytest
from recordings import judged
from server_vectors import VECTORS, body_of
from test_alike import single_rows
from test_hubs import COPIED, IN_HAR, LOGS
from test_printed import PRINTED
from test_recorders import CLOUD, PASTED
from test_verdict import CASES, sse
from test_wrapped import BODY, WRAPPED, cassette

from detok_py.errors import CaptureError

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / ".build" / "runtime"
SAMPLES = sorted((ROOT / "tests" / "fixtures" / "streams").iterdir())
HERE = Path(__file__).resolve()
# The longest first, so that each part has some of the long ones.
OTHER_TESTS = sorted(
    (path for path in HERE.parent.glob("test_*.py") if path.name != HERE.name),
    key=lambda path: (-path.stat().st_size, path.name),
)
PARTS = 4

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (RUNTIME / build_on_demand.NAME).exists() or shutil.which("node") is None,
        reason="the runtime is not built (python tools/setup.py test)",
    ),
]


def read_in_micropython(files):
    """Return what MicroPython makes of each file: a stream, or the message of its error."""
    done = subprocess.run(
        ["node", str(ROOT / "tests" / "micropython" / "captures.mjs"), *map(str, files)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def row_by_row(found):
    """Return an answer whose rows are single: which ones are given together differs."""
    return {**found, "rows": [row for each in found["rows"] for row in single_rows(each)]}


def test_the_modules_that_are_served_are_those_that_these_sources_give():
    served = (RUNTIME / build_on_demand.NAME).read_bytes()
    assert served == build_on_demand.bundle(), "run python tools/setup.py test"


def test_every_sample_and_vector_is_read_in_micropython_as_in_cpython(tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"hello")
    texts = [vector for vector in VECTORS if "content" in vector or "tool_call" in vector]
    for vector in texts:
        (tmp_path / vector["name"]).write_bytes(body_of(vector))
    others = {name: row[0] for name, row in {**WRAPPED, **CASES, **PRINTED}.items()}
    others |= {**CLOUD, **PASTED, **COPIED, **IN_HAR, **LOGS}
    for style in (None, "'", '"', "|", ">"):
        others[f"cassette {style}".replace(">", "fold")] = cassette(BODY, style=style)
    so_far = [
        {"text": text, "meta_info": {"finish_reason": None}} for text in ("Сп", "Сп�", "Спас")
    ]
    others["text that ends with the last byte of a �"] = sse(*so_far)
    for name, data in others.items():
        (tmp_path / name).write_bytes(data.encode() if isinstance(data, str) else data)
    good = [*SAMPLES, *[tmp_path / vector["name"] for vector in texts]]
    good += [tmp_path / name for name in others]
    files = [*good, bad]
    *streams, refused = read_in_micropython(files)
    for file, said in zip(good, streams, strict=True):
        assert row_by_row(said) == row_by_row(judged(file.read_bytes(), file.name)), file.name
    with pytest.raises(CaptureError) as caught:
        judged(bad.read_bytes(), bad.name)
    assert str(caught.value) in refused


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_the_tests_of_the_reader_read_is_read_in_micropython_as_in_cpython(tmp_path, part):
    tests = map(str, OTHER_TESTS[part::PARTS])
    environment = dict(os.environ, READ_FOLDER=str(tmp_path), PYTHONPATH=str(HERE.parent))
    command = [sys.executable, "-m", "pytest", "-q", "--tier=any", "-p", "read_recorder"]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly"]
    command += ["--hypothesis-seed=0", *tests]
    subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True, timeout=250)
    files = sorted(tmp_path.iterdir())
    assert len(files) > 60
    differ = []
    for file, said in zip(files, read_in_micropython(files), strict=True):
        try:
            expected = row_by_row(judged(file.read_bytes(), file.name))
        except CaptureError as error:
            # In MicroPython the order of keys differs, and what of a line is white space.
            told = str(error).split(" Its events have ")[0].split(" Line ")[0]
            same = isinstance(said, str) and told in said
            differ += [] if same else [(file.read_bytes()[:300], said, str(error))]
            continue
        said = row_by_row(said) if isinstance(said, dict) else said
        differ += [] if said == expected else [(file.read_bytes()[:300], said, expected)]
    assert differ == []
