"""The public names have types: mypy and pyright accept their right use, and refuse the
wrong one.
"""

import doctest
import importlib
import inspect
import json
import os
import pkgutil
import re
import sys
from pathlib import Path

import pytest
from programs import ran

import detok_py
import detok_py.integrations

ROOT = Path(__file__).resolve().parents[1]
PYRIGHT = ROOT / "node_modules" / "pyright" / "index.js"
pytestmark = pytest.mark.native  # about the files of the repository


@pytest.fixture
def files(tmp_path):
    """Return what is checked: the use of each public name, and the examples of the documents."""
    found = [ROOT / "tests" / "types" / "public_api.py"]
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        examples = doctest.DocTestParser().get_examples(path.read_text(encoding="utf-8"))
        if examples:
            found.append(tmp_path / (path.stem.replace("-", "_") + ".py"))
            found[-1].write_text("".join(each.source for each in examples), encoding="utf-8")
    assert len(found) > 3
    return [str(path) for path in found]


@pytest.mark.slow
def test_mypy_knows_the_public_names(files):
    pytest.importorskip("mypy", reason="mypy is not installed")
    # `packages` of pyproject.toml and a file exclude each other.
    words = ("--strict", "--no-error-summary", "--config-file=")
    done = ran(sys.executable, "-m", "mypy", *words, *files, timeout=300)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


def pyright(*options):
    """Return how pyright ends, and what it prints. By PATH it finds what detok_py imports."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    words = (PYRIGHT, "--pythonpath", sys.executable, *options)
    return ran("node", *words, env=os.environ | {"PATH": path}, timeout=600)


@pytest.mark.full
@pytest.mark.skipif(not PYRIGHT.exists(), reason="pyright is not installed by npm")
def test_pyright_knows_the_public_names(files, tmp_path):
    # It would take mypy's comments for its own, and not report its own as needless.
    own = re.sub(r"# type: ignore\[[\w-]+\]  ", "", Path(files[0]).read_text(encoding="utf-8"))
    copy = tmp_path / Path(files[0]).name
    copy.write_text(own, encoding="utf-8")
    done = pyright(str(copy), *files[1:])
    assert done.returncode == 0, done.stdout


def public_objects():
    for name in detok_py.__all__:
        yield name, getattr(detok_py, name)
    for module in pkgutil.iter_modules(detok_py.integrations.__path__):
        found = importlib.import_module(f"detok_py.integrations.{module.name}")
        for name, value in vars(found).items():
            if getattr(value, "__module__", "") == found.__name__ and not name.startswith("_"):
                yield f"{module.name}.{name}", value


def public_functions():
    for name, found in public_objects():
        if inspect.isfunction(found):
            yield name, found
        for key, member in vars(found).items() if inspect.isclass(found) else ():
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if inspect.isfunction(function) and (key == "__init__" or not key.startswith("_")):
                yield f"{name}.{key}", function


def positional(function):
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = inspect.signature(function).parameters.values()
    return [each.name for each in given if each.kind in kinds and each.name not in ("self", "cls")]


def test_at_most_three_parameters_are_given_by_position():
    many = {name: positional(function) for name, function in public_functions()}
    assert {name: names for name, names in many.items() if len(names) > 3} == {}


@pytest.mark.full
@pytest.mark.skipif(not PYRIGHT.exists(), reason="pyright is not installed by npm")
def test_every_name_of_every_module_has_a_type_that_all_checkers_agree_on():
    done = pyright("--ignoreexternal", "--outputjson", "--verifytypes", "detok_py")
    found = json.loads(done.stdout)["typeCompleteness"]
    unknown = {
        symbol["name"]: [each["message"] for each in symbol["diagnostics"]]
        for symbol in found["symbols"]
        if symbol["isTypeAmbiguous"] or not symbol["isTypeKnown"]
    }
    assert unknown == {}
    assert found["completenessScore"] == 1
    assert found["exportedSymbolCounts"]["withKnownType"] > 2000


def test_no_public_signature_says_any():
    """But for values of JSON, as in the decoder of a tokenizer.json, and for the calls of an
    answer: texts between tags, or `ToolCall`s in a format.
    """
    anything = {}
    for name, function in public_functions():
        said = " ".join(str(kind) for kind in function.__annotations__.values())
        said = re.sub(r"\[str, (typing\.)?Any\]", "", said)
        if "Any" in said and name != "ChatStream.calls":
            anything[name] = said
    assert anything == {}


def test_dir_lists_every_public_name():
    assert set(detok_py.__all__) <= set(dir(detok_py))
