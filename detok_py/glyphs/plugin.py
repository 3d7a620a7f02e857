"""The pytest plugin: fixtures `glyph_watch` and `chaos`, markers of the same names,
`--glyph-watch=error|warn|off`.

In: the `page` or `context` of pytest-playwright, of its sync or async API. Out: a test that fails
if a broken glyph was shown. The page needs no preparation. Only pytest is imported until a test
uses one of the fixtures.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .proxy import ChaosProxy
    from .watch import GlyphWatch

WATCH = pytest.StashKey["GlyphWatch"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --glyph-watch."""
    parser.getgroup("detok", "broken glyphs").addoption(
        "--glyph-watch",
        choices=("error", "warn", "off"),
        default=None,
        help="watch every test that opens a page for broken glyphs: fail it, warn, or don't watch at all, "
        "not even where a test asks for it (default: watch the tests that ask, and fail them)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    config.addinivalue_line(
        "markers",
        "glyph_watch(within=, exclude=, ignore=, allow_literal=, strict=, max_late=, markdown=): watch this test's pages and judge them when it ends",
    )
    config.addinivalue_line(
        "markers", "chaos(split=, delay=, only=, websocket=): how the fixture `chaos` cuts streams"
    )


@pytest.fixture
def glyph_watch(request: pytest.FixtureRequest) -> "GlyphWatch":
    """The watch of this test's pages: `settle()`, `expect_clean()`, `expect_text(true_text)`.

    A test that calls none of the expectations is judged when it ends. With the async API, await the
    methods.
    """
    from .watch import GlyphWatch

    mode = request.config.getoption("--glyph-watch") or "error"
    watch = GlyphWatch.of(request.getfixturevalue("context"), mode=mode)
    if "chaos" in request.fixturenames:
        watch.traffic = request.getfixturevalue("chaos")
    _finish(watch, watch.install())
    request.node.stash[WATCH] = watch
    return watch


@pytest.fixture
def chaos(request: pytest.FixtureRequest) -> "Generator[ChaosProxy]":
    """A proxy that cuts streams at every byte.

    Use `page.goto(chaos.url("http://127.0.0.1:3000"))`, then `chaos.sent_text`.
    """
    from .proxy import ChaosProxy

    marker = request.node.get_closest_marker("chaos")
    with ChaosProxy(**(marker.kwargs if marker else {})) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def _glyph_watch_where_asked(request: pytest.FixtureRequest) -> None:
    asked = request.config.getoption("--glyph-watch") in (
        "error",
        "warn",
    ) or request.node.get_closest_marker("glyph_watch")
    if asked and {"page", "context"} & set(request.fixturenames):
        request.getfixturevalue("glyph_watch")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Judge a watched test that called no expectation, so that it fails in the test, not in
    teardown.
    """
    outcome = yield
    watch = item.stash.get(WATCH, None)
    if watch is not None and not watch.asked:
        marker = item.get_closest_marker("glyph_watch")
        _finish(watch, watch.expect_clean(**(marker.kwargs if marker else {})))
    return outcome


def _finish(watch: "GlyphWatch", answer: Any) -> Any:
    """Return the result of an awaitable of the async API.

    Outside the test, the event loop of its pages does not run, so it is run here.
    """
    if not watch.is_async:
        return answer
    return watch.context._impl_obj._loop.run_until_complete(answer)
