"""Fixtures for the real chat UIs.

The run ends with a table of results, one row per test, as in docs/real-uis.md.
"""

import collections
import runpy
from typing import Any

import browsers
import pytest
from served_bridge import Bridge
from ui_rig import ROOT, START, UI, Conversation, start_engine

from detok_py.glyphs import ChaosProxy

SETTINGS = runpy.run_path(str(ROOT / "playwright.config.py"))


@pytest.fixture(scope="session")
def browser_type_launch_args(
    browser_type_launch_args: dict[str, Any], browser_name: str
) -> dict[str, Any]:
    """Return the launch options with the browser's path and the project's settings."""
    program = browsers.find(browser_name)
    if program is None:
        pytest.skip(f"no {browser_name.capitalize()} on the PATH")
    settings = {**SETTINGS["browsers"][browser_name], "timeout": SETTINGS["patience"]}
    return {**browser_type_launch_args, **settings, "executable_path": program}


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_context_args, "viewport": SETTINGS["viewport"]}


@pytest.fixture
def context(context: Any) -> Any:
    context.set_default_timeout(SETTINGS["patience"])
    context.set_default_navigation_timeout(SETTINGS["patience"])
    return context


@pytest.fixture(scope="session")
def engine() -> Any:
    """Yield the address of llama.cpp with the reciting model."""
    program = start_engine()
    yield f"http://127.0.0.1:{program.said['port']}"
    program.stop()


@pytest.fixture(scope="session")
def before_engine(engine: str) -> Any:
    """Yield the proxy between the UIs' servers and the engine."""
    with ChaosProxy(engine, delay=0.001) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def before_exit(engine: str) -> Any:
    """Yield the proxy between the UIs' servers and the exit of a bridge in OpenAI's language."""
    bridge = Bridge("--engine", f"recite={engine}")
    try:
        with ChaosProxy(bridge.url, delay=0.001) as proxy:
            yield proxy
    finally:
        bridge.stop()


@pytest.fixture(scope="session")
def address_of(request: pytest.FixtureRequest) -> Any:
    """Yield the function that returns a UI's address and starts its server on first use."""
    running: dict[tuple[str, str], Any] = {}

    def address(ui: UI) -> str:
        name = (ui.server, ui.behind)
        if name not in running:
            running[name] = START[ui.server](request.getfixturevalue(ui.behind).server)
        return str(running[name].said["url"]) + ui.path

    yield address
    for program in running.values():
        program.stop()


@pytest.fixture
def conversation(
    request: pytest.FixtureRequest, page: Any, glyph_watch: Any, chaos: ChaosProxy
) -> Conversation:
    ui: UI = request.node.callspec.params["ui"]  # type: ignore[attr-defined]
    return Conversation(page, glyph_watch, chaos, request.getfixturevalue(ui.behind))


ROWS = pytest.StashKey[list[tuple[str, ...]]]()


@pytest.fixture
def add_row(
    request: pytest.FixtureRequest, browser: Any, browser_name: str, conversation: Conversation
) -> Any:
    """Return the function that adds a row to the table at the end of the run."""
    rows = request.config.stash.setdefault(ROWS, [])

    def add_row(ui: UI, split: str, result: dict[str, Any]) -> None:
        told = result["violations"] + result["incomplete"]
        counts = collections.Counter(entry["id"] for entry in told)
        found = ", ".join(f"{number} {name}" for name, number in counts.items()) or "clean"
        beyond = ", ".join(sorted(conversation.foreign)) or "none"
        versions = (f"{ui.package} {ui.version}", f"{browser_name} {browser.version}")
        rows.append((ui.name, *versions, split, found, beyond))

    return add_row


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    rows = config.stash.get(ROWS, [])
    if rows:
        terminalreporter.section("results")
        terminalreporter.write_line(
            "| UI | package | browser | split | found | requests to other machines |"
        )
        terminalreporter.write_line("|---|---|---|---|---|---|")
    for row in sorted(rows):
        terminalreporter.write_line("| " + " | ".join(row) + " |")
