"""The browsers start as playwright.config.py says."""

import re

import pytest
from playwright.sync_api import Error

# What each says of an address that its settings keep from it. Without them it would look: Chromium
# for a server, which 127.0.0.2 has not, and Firefox for the name.
REFUSED = {
    "chromium": ("http://127.0.0.2:1024/", "net::ERR_NAME_NOT_RESOLVED"),
    "firefox": ("http://example.com/", "NS_ERROR_PROXY_CONNECTION_REFUSED"),
}


@pytest.mark.engine
def test_a_browser_starts_and_paints_text(page):
    page.set_content("<p>𝄞 … 你好</p>")
    assert page.inner_text("p") == "𝄞 … 你好"


@pytest.mark.engine
def test_nothing_leaves_the_machine(page, browser_name):
    address, said = REFUSED[browser_name]
    with pytest.raises(Error, match=re.escape(said)):
        page.goto(address)
