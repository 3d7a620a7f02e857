"""Pictures of broken glyphs: of the page if they are still shown, else painted again.

In: findings with their frames and pages. Out: `screenshot`, a PNG in base64, and `screenshot_kind`
("page" or "redrawn") in the first findings.
"""

import json
from base64 import b64encode
from typing import Any

from .calls import Steps, quietly, script

MAX_PICTURES = 24
PATIENCE = 30_000  # milliseconds: a busy machine takes long to paint
DRAW = """([text, font]) => { const p = document.createElement('p'); p.style.cssText = 'margin:8px;display:inline-block';
    p.style.font = font; p.textContent = JSON.parse(text); document.body.replaceChildren(p); }"""


def add_pictures(browser: Any, findings: list[dict[str, Any]]) -> Steps:
    """Add a picture to each of the first findings."""
    easel: list[Any] = []  # a context and its page, made for the first text to be painted again
    for finding in findings[:MAX_PICTURES]:
        picture = yield from _of_the_page(finding)
        finding["screenshot_kind"] = "page" if picture else "redrawn"
        picture = picture or (yield from _redrawn(browser, finding, easel))
        if picture:
            finding["screenshot"] = b64encode(picture).decode("ascii")
    for context in easel[:1]:
        yield from quietly(context.close)


def _of_the_page(finding: dict[str, Any]) -> Steps:
    """Return a picture of a glyph that is still shown, or None."""
    page, frame = finding["page"], finding["frame"]
    if not finding["live"] or not page:
        return None
    rect = yield from quietly(frame.evaluate, script("show.js"), finding["id"])
    if not rect:
        return None
    if frame == page.main_frame:
        return (yield from quietly(page.screenshot, clip=_around(rect, page), timeout=PATIENCE))
    element = yield from quietly(frame.frame_element)
    return element and (yield from quietly(element.screenshot, timeout=PATIENCE))


def _redrawn(browser: Any, finding: dict[str, Any], easel: list[Any]) -> Steps:
    """Return a picture of a text that is gone: the recorded text, painted again in its font."""
    if not easel and browser is not None:
        context = yield from quietly(browser.new_context)
        page = context and (yield from quietly(context.new_page))
        easel += [context, page] if page else []
    if not easel:
        return None
    page = easel[1]
    font = (finding.get("style") or {}).get("font", "16px sans-serif")
    yield from quietly(page.evaluate, DRAW, [json.dumps(finding["text"]), font])
    return (yield from quietly(page.locator("p").screenshot, timeout=PATIENCE))


def _around(rect: dict[str, float], page: Any) -> dict[str, float]:
    size = page.viewport_size or {"width": 1280, "height": 720}
    x, y = max(0.0, rect["x"] - 12), max(0.0, rect["y"] - 12)
    width = max(40.0, min(rect["width"] + 24, size["width"] - x))
    return {"x": x, "y": y, "width": width, "height": max(24.0, min(rect["height"] + 24, 400.0))}
