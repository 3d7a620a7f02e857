"""The suite over HTTP: the copied test against servers whose model says the ids of the cases.

tests/real_engines/ runs it against vLLM.
"""

import ast
import asyncio
import sys

import pytest
from bridge_rig import running
from http_suite import HTTP, failed, write_model
from test_recite_model import running as recite_server

from detok_py.bridge.engines.recite import ReciteEngine
from detok_py.tokenizers import load_tokenizer

pytestmark = [pytest.mark.native, pytest.mark.slow]

# llama-server drops what it holds when an answer ends, and the bridge says so in a note.
ENDS_INSIDE = {
    "ids/byte-level/end-in-a-character",
    "spans/end-in-a-character",
    "stops/limit-behind-half-a-character",
    "window/half-a-character-at-the-end",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with the model that says the cases."""
    return write_model(tmp_path_factory.mktemp("script"))


def test_llama_cpp_loses_what_it_holds_at_the_end_and_nothing_else(model):
    with recite_server(model / "script.gguf") as (_, ready):
        found = failed(f"http://127.0.0.1:{ready['port']}", model)
    assert found == {*ENDS_INSIDE, "stops/limit-behind-half-a-stop"}


@pytest.mark.full
async def test_the_bridge_streams_what_the_tokens_of_llama_cpp_say(model):
    vocabulary = load_tokenizer(model).vocabulary
    async with running(ReciteEngine(model / "script.gguf"), vocabulary=vocabulary) as bridge:
        assert await asyncio.to_thread(failed, bridge.url, model) == ENDS_INSIDE


def test_the_copied_test_is_short_and_stands_alone():
    text = (HTTP / "test_over_http.py").read_text("utf-8")
    assert text.count("\n") <= 40
    for name in ("test_over_http.py", "make_model.py"):
        tree = ast.parse((HTTP / name).read_text("utf-8"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        modules = {
            module.split(".")[0]
            for node in imports
            for module in (
                [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
            )
        }
        assert modules <= {*sys.stdlib_module_names, "pytest"}, name
