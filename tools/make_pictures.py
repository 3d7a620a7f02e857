"""Make the pictures of the README from the real page: `make pictures`.

In: `detok serve` with its included engine, and Chromium. Out: docs/images/page.png, and
docs/images/page.webp, which plays the tokens of the same answer one by one. Held: all frames, as
PNG.
"""

import argparse
import io
import re
import runpy
import sys
from typing import Any

import browsers
from playwright.sync_api import Page, sync_playwright
from toolchain import BUILD, ROOT

sys.path[:0] = [str(BUILD / "pictures" / "site"), str(ROOT / "tests")]

from served_bridge import Bridge  # noqa: E402

IMAGES = ROOT / "docs" / "images"
SETTINGS = runpy.run_path(str(ROOT / "playwright.config.py"))
SIZE = {"width": 1366, "height": 768}
# The tokens that play, and the one of the still.
FIRST, LAST, STILL = 1, 120, 74
FRAME_MS = 90
# Time to read the first frame, and the last one before it begins again.
BEGIN_MS, END_MS = 700, 3500
LARGEST = 1_500_000


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    bridge = Bridge()
    try:
        with sync_playwright() as playwright:
            options = SETTINGS["browsers"]["chromium"]
            program = browsers.usable("chromium")
            browser = playwright.chromium.launch(**options, executable_path=program)
            page = browser.new_page(viewport=SIZE, reduced_motion="reduce")
            shots = frames(page, bridge.url)
            browser.close()
    finally:
        bridge.stop()
    write(shots)


def frames(page: Page, url: str) -> list[bytes]:
    """Return a picture of the page after each token."""
    page.goto(url)
    page.locator('html[data-state="ready"]').wait_for()
    page.select_option("#speed", label="15 tokens / s")
    page.get_by_role("button", name="Start", exact=True).click()
    page.locator('html[data-state="finished"]').wait_for()
    page.get_by_role("button", name="Pause").click()
    page.locator("#to-start").click()
    # No button has the focus, and no pointer is over one.
    page.evaluate("() => document.activeElement.blur()")
    page.mouse.move(0, SIZE["height"] - 1)
    shots = []
    for token in range(LAST + 1):
        if token:
            page.keyboard.press("ArrowRight")
        page.locator("#position", has_text=re.compile(rf"^{token} / ")).wait_for()
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        shots.append(page.screenshot())
    return shots


def write(shots: list[bytes]) -> None:
    """Write the still and the moving picture."""
    # Only this program uses it, so it is installed into a folder of its own.
    from PIL import Image

    def picture(shot: bytes) -> Any:
        return Image.open(io.BytesIO(shot)).convert("RGB")

    still = IMAGES / "page.png"
    picture(shots[STILL]).save(still, optimize=True)
    first, *rest = [picture(shot) for shot in shots[FIRST:]]
    moving = IMAGES / "page.webp"
    first.save(
        moving,
        save_all=True,
        append_images=rest,
        duration=[BEGIN_MS, *[FRAME_MS] * (len(rest) - 1), END_MS],
        loop=0,
        lossless=True,
        method=4,
        # Each frame is what differs from the one before.
        kmin=9999,
        kmax=10000,
    )
    for path in (still, moving):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")
    if moving.stat().st_size > LARGEST:
        raise SystemExit(f"{moving.name} may have {LARGEST:,} bytes.")


if __name__ == "__main__":
    main()
