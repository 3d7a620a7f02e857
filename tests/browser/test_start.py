"""The browsers start as playwright.config.py says."""

import pytest


@pytest.mark.engine
def test_a_browser_starts_and_paints_text(page):
    page.set_content("<p>𝄞 … 你好</p>")
    assert page.inner_text("p") == "𝄞 … 你好"


@pytest.mark.engine
def test_nothing_leaves_the_machine(page):
    from playwright.sync_api import Error

    with pytest.raises(Error):
        page.goto("http://example.com/")
