"""The regression kit: finds broken glyphs in anybody's chat page, even one that lived for one frame.

`plugin` is the pytest plugin, `command` is `detok check` and `detok proxy`; both need the extra `test` (Playwright). The parts:
`watch` (what was shown), `proxy` (what was sent, in other pieces), `truth` (the one against the other), `report` (the verdict).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detok_py.glyphs.proxy import ChaosProxy
    from detok_py.glyphs.watch import GlyphWatch, expect_no_replacement

__all__ = ["ChaosProxy", "GlyphWatch", "expect_no_replacement"]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: pytest imports the plugin in every run, also where nothing is watched.
    if name in ("GlyphWatch", "expect_no_replacement"):
        from detok_py.glyphs import watch

        return getattr(watch, name)
    if name == "ChaosProxy":
        from detok_py.glyphs.proxy import ChaosProxy

        return ChaosProxy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
