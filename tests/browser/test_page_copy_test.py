"""Copy as test: what the page writes fails where a program breaks the stream, else it passes."""

import contextlib
import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from playwright.sync_api import expect
from static_folder import serving
from test_page_imports import drop

from detok_py.commands.conformance import judge

pytestmark = [pytest.mark.one_browser, pytest.mark.full]

ROOT = Path(__file__).resolve().parents[2]
TEXT = "Grüße 日本語 👩‍🚀 `${'it''s'}` \\ \"end\""
COPY = """(label) => new Promise((resolve) => {
  navigator.clipboard.writeText = async (text) => {
    delete navigator.clipboard.writeText;
    resolve(text);
  };
  document.getElementById("copy-test").click();
  for (const one of document.querySelectorAll("#test-forms button"))
    if (one.textContent === label) one.click();
})"""
OURS = (ROOT / "conformance" / "adapters" / "detok.py").read_text("utf-8")
# Each token by itself, as the program does that the test is for.
BROKEN = """
class Broken:
    def push(self, data): return data.decode(errors="replace")
    def flush(self): return ""
adapter = lambda case: Broken()
"""
PAGE = """<!doctype html><title>chat</title><input aria-label="Message"><main></main><script>
document.querySelector("input").onkeydown = async ({ key }) => {
  if (key !== "Enter") return;
  const { body } = await fetch("/v1/chat/completions", { method: "POST", body: "{}" });
  let decoder = new TextDecoder(), lines = "";
  for (let reader = body.getReader(), part; !(part = await reader.read()).done;) {
    if (ALONE) decoder = new TextDecoder();
    lines += decoder.decode(part.value, { stream: !ALONE });
    for (let at; (at = lines.indexOf("\\n")) >= 0; lines = lines.slice(at + 1)) {
      const line = lines.slice(0, at);
      if (line.startsWith("data: {"))
        document.querySelector("main").append(JSON.parse(line.slice(6)).choices[0].delta.content);
    }
  }
};
</script>"""
LAUNCH = """
import pytest
@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    return {**browser_type_launch_args, **%r}
"""


@pytest.fixture
def copied(booted: Any) -> Any:
    """Copy the shown stream as a test."""
    return lambda label: str(booted.page.evaluate(COPY, label))


@pytest.fixture
def chat_pages(tmp_path: Path) -> Any:
    """The addresses of a chat page that decodes each chunk alone, and of one that does not."""
    for name in ("true", "false"):
        (tmp_path / f"{name}.html").write_text(PAGE.replace("ALONE", name))
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(serving(tmp_path))
        yield [f"{address}/{name}.html" for name in ("true", "false")]


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "."],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_test_of_a_decoder_fails_in_a_broken_one_and_passes_in_ours(
    booted: Any, copied: Any, tmp_path: Path
) -> None:
    booted.stream_text(TEXT, cut="byte")
    written = copied("pytest, of a decoder")
    expect(booted.page.locator("#alert")).to_contain_text("A test is in the clipboard: pytest")
    for name, adapter in (("ours", OURS), ("broken", BROKEN)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "test_stream.py").write_text(written, encoding="utf-8")
        (folder / "my_adapter.py").write_text(adapter)
    done = run(tmp_path / "ours")
    assert done.returncode == 0, done.stdout
    done = run(tmp_path / "broken")
    assert done.returncode == 1 and "1 failed" in done.stdout, done.stdout


@pytest.mark.only_browser("chromium")
def test_the_test_of_a_page_fails_where_each_chunk_is_decoded_alone(
    booted: Any, copied: Any, chat_pages: Any, browser_type_launch_args: Any, tmp_path: Path
) -> None:
    booted.stream_text(TEXT, cut="byte")
    written = copied("pytest, of a chat page")
    launch = {name: browser_type_launch_args[name] for name in ("args", "executable_path")}
    for name, address, failed in zip(("broken", "right"), chat_pages, (1, 0), strict=True):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "conftest.py").write_text(LAUNCH % launch)
        (folder / "test_page.py").write_text(written.replace("http://127.0.0.1:3000", address))
        done = run(folder, "--browser", "chromium")
        assert done.returncode == failed, done.stdout
        assert ("ufffd" in done.stdout) == bool(failed), done.stdout


def test_the_case_is_one_of_the_suite_and_long_streams_are_cut_to_a_part(
    booted: Any, copied: Any
) -> None:
    schema = json.loads((ROOT / "conformance" / "schema.json").read_text("utf-8"))
    case_schema = {"$defs": schema["$defs"], "$ref": "#/$defs/case"}
    ours = runpy.run_path(str(ROOT / "conformance" / "adapters" / "detok.py"))
    for text, fault in (("plain " * 100 + TEXT * 40, ""), (TEXT, "invalid"), (TEXT, "truncate")):
        booted.stream_text(text, cut="byte", fault=fault)
        case = json.loads(copied("a case of the conformance suite"))
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
    drop(booted, "x.txt", b"no stream")
    page.get_by_role("button", name="vLLM with �").click()
    expect(page.locator("#source-name")).to_have_text("vllm-logprobs.sse")
    case = json.loads(str(page.evaluate(COPY, "a case of the conformance suite")))
    assert "".join(step["out"] for step in case["steps"]) == "Grüezi, ça va ? 你好 🚀"
