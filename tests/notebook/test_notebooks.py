"""The notebooks of docs/notebooks/ run in CPython, by nbclient, with a real bridge."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from served_bridge import Bridge

ROOT = Path(__file__).resolve().parents[2]
BOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
PYTHON = ROOT / ".build" / "notebooks" / "venv" / "bin" / "python"
DEFAULT = "http://127.0.0.1:8765"
PROGRAM = """
import asyncio, json, sys
import nbformat
from nbclient import NotebookClient

book = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": sys.argv[2]}}).execute()
outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
print(json.dumps([sorted(output["data"]) for output in outputs if "data" in output]))
print(json.dumps([output["data"].get("text/html", "") for output in outputs if "data" in output]))
"""

pytestmark = [pytest.mark.native, pytest.mark.full]


@pytest.fixture(scope="module")
def bridge():
    served = Bridge("--engine", "recite")
    yield served.url
    served.stop()


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_a_notebook_runs_and_shows_its_objects(book, bridge, tmp_path):
    if not PYTHON.exists():
        pytest.skip("nbclient is not here: `make test-all` installs it")
    text = book.read_text("utf-8")
    copy = tmp_path / book.name
    copy.write_text(text.replace(DEFAULT, bridge), encoding="utf-8")
    shutil.copy(ROOT / "detok_py" / "bridge" / "recite" / "tokenizer.json", tmp_path)
    environment = {"PATH": str(PYTHON.parent), "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    command = [str(PYTHON), "-c", PROGRAM, str(copy), str(tmp_path)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=200, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-3000:]
    kinds, shown = map(json.loads, done.stdout.splitlines()[-2:])
    assert any("application/vnd.jupyter.widget-view+json" in each for each in kinds)
    assert any("tokens</b>" in each for each in shown)


def test_notebooks_are_kept_without_outputs():
    assert len(BOOKS) == 3
    for book in BOOKS:
        cells = json.loads(book.read_text("utf-8"))["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        assert [cell for cell in code if cell["outputs"] or cell["execution_count"]] == []
        for cell in code:  # tops of cells may await
            compile("".join(cell["source"]), book.name, "exec", flags=0x2000)
