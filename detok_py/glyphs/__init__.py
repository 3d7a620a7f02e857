"""The regression kit: finds broken glyphs in any chat page, even if one is shown for one frame
only.

`plugin` is the pytest plugin. `command` is `detok check` and `detok proxy`. All of it needs the
extra `test` (Playwright, h11, websockets). The parts:

- `watch` records what the page shows, with `watcher.js` in each frame; `calls` makes its calls to
  the browser, `shadow` opens what scripts cannot reach, and `pictures` adds screenshots
- `proxy` cuts the engine's streams: `recut` decides where, `http` and `messages` frame the pieces,
  `traffic` reads the text that was sent, and `reads` knows which cuts the page saw
- `truth` compares what was sent with what is shown, `added` finds what a page adds to it, `held`
  text that was shown late, and `markup` markup that was shown
- `verdict` judges by `rules`, `causes` says why, and `report` writes the verdict
- `drive` types and waits as `detok check` does, and `options` reads the command line and its files
- `terminal` runs a program in a terminal, and `terminal_screen` watches its screen

The npm package runs them in Node too (web/kit/): all but `command`, `plugin`, `proxy`, `http` and
those for a terminal.

Runs in: CPython.
Imports: captures, errors, decode, formats, protocol, bridge.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .proxy import ChaosProxy
    from .watch import GlyphWatch, expect_no_replacement

__all__ = ["ChaosProxy", "GlyphWatch", "expect_no_replacement"]


def __getattr__(name: str) -> Any:
    # Imported at first use, because pytest imports this package in every run.
    if name in ("GlyphWatch", "expect_no_replacement"):
        from . import watch

        return getattr(watch, name)
    if name == "ChaosProxy":
        from .proxy import ChaosProxy

        return ChaosProxy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
