"""Copy as test: what the page writes fails where a program breaks the stream, else it passes."""

import json
import runpy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from playwright.sync_api import expect
from pytest_runs import LAUNCH, run_pytest
from transfer import HARD_TO_QUOTE, copied_test, drop

from detok_py.commands.conformance import judge

pytestmark = [pytest.mark.one_browser, pytest.mark.full]

ROOT = Path(__file__).resolve().parents[2]
OURS = (ROOT / "conformance" / "adapters" / "detok.py").read_text("utf-8")
# Each token by itself, as the program does that the test is for.
BROKEN = """
class Broken:
    def push(self, data): return data.decode(errors="replace")
    def flush(self): return ""
adapter = lambda case: Broken()
"""


def test_the_test_of_a_decoder_fails_in_a_broken_one_and_passes_in_ours(
    booted: Any, tmp_path: Path
) -> None:
    booted.stream_text(HARD_TO_QUOTE, cut="byte")
    written = copied_test(booted.page, "pytest, of a decoder")
    expect(booted.page.locator("#alert")).to_contain_text("A test is in the clipboard: pytest")
    for name, adapter, failed in (("ours", OURS, 0), ("broken", BROKEN, 1)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "test_stream.py").write_text(written, encoding="utf-8")
        (folder / "my_adapter.py").write_text(adapter)
        done = run_pytest(folder)
        assert done.returncode == failed, done.stdout
        assert ("1 failed" in done.stdout) == bool(failed), done.stdout


@pytest.mark.only_browser("chromium")
def test_the_test_of_a_page_fails_where_each_chunk_is_decoded_alone(
    booted: Any, chat_pages: Any, browser_type_launch_args: Any, tmp_path: Path
) -> None:
    booted.stream_text(HARD_TO_QUOTE, cut="byte")
    written = copied_test(booted.page, "pytest, of a chat page")
    launch = {name: browser_type_launch_args[name] for name in ("args", "executable_path")}
    for name, address, failed in zip(("broken", "right"), chat_pages, (1, 0), strict=True):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "conftest.py").write_text(LAUNCH % launch)
        (folder / "test_page.py").write_text(written.replace("http://127.0.0.1:3000", address))
        done = run_pytest(folder, "--browser", "chromium")
        assert done.returncode == failed, done.stdout
        assert ("ufffd" in done.stdout) == bool(failed), done.stdout


def test_the_case_is_one_of_the_suite_and_long_streams_are_cut_to_a_part(booted: Any) -> None:
    schema = json.loads((ROOT / "conformance" / "schema.json").read_text("utf-8"))
    case_schema = {"$defs": schema["$defs"], "$ref": "#/$defs/case"}
    ours = runpy.run_path(str(ROOT / "conformance" / "adapters" / "detok.py"))
    longer = "plain " * 100 + HARD_TO_QUOTE * 40
    cases = ((longer, ""), (HARD_TO_QUOTE, "invalid"), (HARD_TO_QUOTE, "truncate"))
    for text, fault in cases:
        booted.stream_text(text, cut="byte", fault=fault)
        case = json.loads(copied_test(booted.page, "a case of the conformance suite"))
        jsonschema.validate(case, case_schema)
        assert len(case["steps"]) < 310
        outcome = judge(case, ours["adapter"])
        assert outcome.verdict == "right", outcome.why


def test_a_stream_that_was_broken_before_is_no_test_of_a_decoder(booted: Any) -> None:
    page = booted.page
    page.get_by_role("button", name="Broken llama.cpp stream").click()
    expect(page.locator("#alert")).to_contain_text("The engine broke")
    for label in ("pytest, of a decoder", "pytest, of a chat page"):
        page.locator("#copy-test").click()
        page.get_by_role("button", name=label).click()
        expect(page.locator("#alert")).to_contain_text("No test could be copied. The text of this")
    # Where the tokens have the right bytes, they are the test.
    drop(page, "x.txt", b"no stream")
    page.get_by_role("button", name="vLLM with �").click()
    expect(page.locator("#source-name")).to_have_text("vllm-logprobs.sse")
    case = json.loads(copied_test(page, "a case of the conformance suite"))
    assert "".join(step["out"] for step in case["steps"]) == "Grüezi, ça va ? 你好 🚀"
