"""What axe finds on a page, and whether the page is wider than its window."""

from pathlib import Path
from typing import Any

AXE = Path(__file__).resolve().parents[2] / "node_modules" / "axe-core" / "axe.min.js"


def violations(page: Any) -> list[Any]:
    """Return the rules of WCAG 2.2 AA, and the best practices of axe, that the page breaks."""
    page.evaluate(f"() => {{ {AXE.read_text('utf-8')} }}")
    found: list[Any] = page.evaluate(
        """async () => {
          const { violations } = await axe.run(document);
          delete globalThis.axe;
          return violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]);
        }"""
    )
    return found


def small_targets(page: Any, selector: str) -> list[str]:
    """Return which of these elements are less than 24 pixels high or wide (WCAG 2.2, 2.5.8)."""
    found: list[str] = page.evaluate(
        """(selector) => [...document.querySelectorAll(selector)]
          .filter((one) => one.checkVisibility())
          .map((one) => [one.outerHTML, one.getBoundingClientRect()])
          .filter(([, { width, height }]) => Math.min(width, height) < 24)
          .map(([markup]) => markup)""",
        selector,
    )
    return found


def faults(page: Any) -> list[Any]:
    """Return its violations, and its width if that is more than the window's."""
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return violations(page) + ([["width", wide]] if wide > 0 else [])
