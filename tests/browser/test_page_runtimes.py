"""The runtime picker: Pyodide and MicroPython decode the same stream, and the page says what each
cost on this visit.
"""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.one_browser

TEXT = "naïve 日本語 👩‍🚀 ไทย"
COST = re.compile(
    r"^ready in \d+\.\d\d s(, with its memory of an earlier visit)?"
    r"; a first visit reads (\d+\.\d) MB, compressed$"
)
# What the worker has read, as this browser counts it.
READ = """() => performance.getEntriesByType("resource")
  .filter(({ name }) => /[/](runtime|wheels)[/]/.test(name))
  .reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)"""


def pick(demo: Any, runtime: str) -> None:
    """Choose a runtime as a keyboard user does."""
    other = {"Pyodide": "MicroPython", "MicroPython": "Pyodide"}[runtime]
    demo.page.get_by_role("radio", name=other).focus()
    demo.page.keyboard.press("ArrowRight" if runtime == "MicroPython" else "ArrowLeft")
    expect(demo.page.get_by_role("radio", name=runtime)).to_be_checked()


def test_pyodide_installs_the_wheel_of_detok_py_on_a_first_visit(booted: Any) -> None:
    files = [url.rpartition("/")[2] for url in booted.requested]
    assert any(file.startswith("micropip-") for file in files)
    assert any(file.startswith("detok_py-") and file.endswith(".whl") for file in files)


@pytest.mark.only_browser("chromium")  # Firefox runs no test code in a worker
@pytest.mark.parametrize("runtime", ["pyodide", "micropython"])
def test_the_bytes_of_a_first_visit_are_those_that_the_browser_reads(
    demo: Any, runtime: str
) -> None:
    demo.open(f"?runtime={runtime}")
    cost = demo.page.locator(f"#cost-{runtime}")
    expect(cost).to_have_text(COST)
    said = COST.fullmatch(cost.text_content() or "")
    assert said and said[1] is None
    assert abs(demo.page.workers[-1].evaluate(READ) / 1e6 - float(said[2])) < 0.06


def test_the_other_runtime_decodes_alike_and_is_remembered_in_the_address(demo: Any) -> None:
    demo.open("?runtime=micropython")
    expect(demo.page.get_by_role("radio", name="MicroPython")).to_be_checked()
    for name in ("Pyodide", "MicroPython"):
        pick(demo, name)
        assert demo.wait_for("ready") == "ready"
        assert len(demo.page.workers) == 1  # that of the other has ended
        assert ("runtime=micropython" in demo.page.url) == (name == "MicroPython")
        assert ("runtime" in demo.page.url) == (name == "MicroPython")
        assert demo.stream_text(TEXT) == "finished"
        assert demo.text("held") == TEXT
    expect(demo.page.locator("#cost-micropython")).to_have_text(COST)
    expect(demo.page.locator("#cost-pyodide")).to_have_text(COST)
    assert demo.complaints == []


@pytest.mark.full
def test_a_choice_made_while_the_first_runtime_loads_wins(demo: Any) -> None:
    demo.page.goto(demo.url + "/")
    pick(demo, "MicroPython")
    assert demo.wait_for("ready", "error") == "ready"
    expect(demo.page.locator("#cost-pyodide")).to_have_text("not started")
    assert demo.stream_text(TEXT) == "finished"
    assert demo.text("held") == TEXT


@pytest.mark.full
def test_the_runtime_cannot_change_while_a_stream_runs(demo: Any) -> None:
    demo.open("?runtime=micropython&text=" + "a" * 1000 + "&pace=10&cut=byte", state="streaming")
    expect(demo.page.get_by_role("radio", name="Pyodide")).to_be_disabled()
    demo.page.get_by_role("button", name="Stop", exact=True).click()
    demo.wait_for("finished")
    expect(demo.page.get_by_role("radio", name="Pyodide")).to_be_enabled()


@pytest.mark.full
def test_a_later_visit_begins_with_the_kept_memory_and_says_so(demo: Any) -> None:
    demo.open()
    # The memory is kept after the page is ready.
    demo.page.evaluate("""async () => {
      const cache = await caches.open("detok");
      while (!(await cache.keys()).length) await new Promise((done) => setTimeout(done, 20));
    }""")
    demo.page.reload()
    demo.wait_for("ready")
    expect(demo.page.locator("#cost-pyodide")).to_contain_text("memory of an earlier visit")
    assert demo.stream_text(TEXT) == "finished"
    assert demo.text("held") == TEXT
