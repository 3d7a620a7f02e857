"""Colours that a page is shown in."""

from typing import Any

import pytest


def emulate(page: Any, feature: str, value: str) -> None:
    """Let a media feature have a value, and skip the test in a Firefox that cannot be told so:
    Debian's is driven by WebDriver BiDi, where Playwright 1.64 emulates no media.
    """
    page.emulate_media(**{feature.removeprefix("prefers-").replace("-", "_"): value})
    if not page.evaluate("(query) => matchMedia(query).matches", f"({feature}: {value})"):
        assert page.context.browser.browser_type.name == "firefox"
        pytest.skip(f"this Firefox cannot be told {feature}: {value}")
