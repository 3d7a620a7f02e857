"""How the browser tests start a browser: playwright.config.py says how, tools/browsers.py finds the program.

Run as `pytest tests/browser --browser chromium` (or firefox), in a process of its own: once Playwright's sync API has
run in a process, `asyncio.run` no longer works there.
"""

import importlib.util
import runpy
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = runpy.run_path(str(ROOT / "playwright.config.py"))
expect.set_options(timeout=SETTINGS["expect_timeout"])


def browser_finder() -> Any:
    """Load tools/browsers.py by path: tools/ is no package."""
    spec = importlib.util.spec_from_file_location("detok_tools_browsers", ROOT / "tools" / "browsers.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any], browser_name: str) -> dict[str, Any]:
    """Pytest-playwright's launch options, with the program that was found and the arguments of playwright.config.py."""
    finder = browser_finder()
    try:
        program = finder.find(browser_name)
    except finder.BrowserNotFound as error:
        pytest.fail(f"{browser_name.capitalize()}: {error}.", pytrace=False)
    if program is None:
        sentence = f"no {browser_name.capitalize()} on the PATH; set {finder.VARIABLES[browser_name]}, or run tools/browsers.py --install"
        if browser_name == "firefox":
            pytest.skip(f"Firefox: skipped, because {sentence}.")
        pytest.fail(f"{sentence}.", pytrace=False)
    return {
        **browser_type_launch_args,
        **SETTINGS["browsers"][browser_name],
        "executable_path": program,
        "timeout": SETTINGS["launch_timeout"],
    }


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_context_args, "viewport": SETTINGS["viewport"]}


@pytest.fixture
def context(context: Any) -> Any:
    context.set_default_timeout(SETTINGS["action_timeout"])
    context.set_default_navigation_timeout(SETTINGS["navigation_timeout"])
    return context
