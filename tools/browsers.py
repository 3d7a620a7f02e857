"""Find the browsers that the tests drive, bring them up to date, or say in one sentence why not.

`python tools/browsers.py chromium firefox` prints one line a browser: its name, a tab, the program;
or `Firefox: skipped, because …`. Exit code 1 when Chromium is missing, which is a failure; a
missing Firefox or WebKit is a skip, and so is `chromium-shell`, Chromium without windows, in which
a page costs a quarter less. `--install` may change the machine: as root it installs or upgrades
Debian's packages, from lists that are refreshed first; otherwise it takes Playwright's own download
of Chromium. `--launch` starts each of them once.

The search: an environment variable (DETOK_CHROMIUM, DETOK_CHROMIUM_SHELL, DETOK_FIREFOX), a program
on the PATH, what Playwright has downloaded before.
"""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from toolchain import ROOT, SetupFailed, apt_install

sys.path.insert(0, str(ROOT))
from detok_py.glyphs.drive import OLDEST as DRIVEN


class Browser(NamedTuple):
    """How a browser is called, found, installed from Debian, and how old it may be."""

    title: str
    variable: str
    names: tuple[str, ...]
    packages: tuple[str, ...]
    applications: tuple[str, ...] = ()
    oldest: int | None = None


# The oldest major versions to expect of the pinned Playwright (1.64). Of Chromium 156 ran the whole
# suite; 150 is what a stale Debian list installs, and older ones are untried. Firefox ESR 140
# fails: it lacks network.addDataCollector of WebDriver BiDi. WebKitGTK tells its version on a
# display only; 2.50 ran all of its tests.
BROWSERS = {
    "chromium": Browser(
        "Chromium",
        "DETOK_CHROMIUM",
        ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome"),
        # Fonts come with the browser: tests that look at pixels need CJK, emoji and Indic glyphs.
        ("chromium", "fonts-noto-core", "fonts-noto-cjk", "fonts-noto-color-emoji"),
        (
            "Chromium.app/Contents/MacOS/Chromium",
            "Google Chrome.app/Contents/MacOS/Google Chrome",
        ),
        DRIVEN["chromium"],
    ),
    "chromium-shell": Browser(
        "Chromium's headless shell",
        "DETOK_CHROMIUM_SHELL",
        ("chromium-headless-shell", "chrome-headless-shell", "headless_shell"),
        ("chromium-headless-shell",),
        oldest=DRIVEN["chromium"],
    ),
    "firefox": Browser(
        "Firefox",
        "DETOK_FIREFOX",
        ("firefox-esr", "firefox"),
        ("firefox-esr",),
        ("Firefox.app/Contents/MacOS/firefox",),
        DRIVEN["firefox"],
    ),
    "webkit": Browser("WebKit", "DETOK_WEBKIT", ("MiniBrowser",), ("webkit2gtk-driver", "xvfb")),
}


class BrowserNotFound(Exception):
    """No browser that can be used: the sentence says what was tried and what to do."""


def find(browser: str) -> str | None:
    """Return the program of an installed `browser`, whatever its version, or None.

    Raises BrowserNotFound if the environment variable names something that cannot run.
    """
    named = os.environ.get(BROWSERS[browser].variable)
    if named:
        program = shutil.which(named)
        if program is None:
            raise BrowserNotFound(
                f"{BROWSERS[browser].variable}={named} is not a program that can be run; correct it or unset it"
            )
        return program
    for name in BROWSERS[browser].names:
        program = shutil.which(name)
        if program:
            return program
    for folder in ("/Applications", os.path.expanduser("~/Applications")):
        for application in BROWSERS[browser].applications:
            if os.access(os.path.join(folder, application), os.X_OK):
                return os.path.join(folder, application)
    if browser == "webkit":
        inside = Path("/usr").glob("lib*/**/webkit2gtk-4.*/MiniBrowser")
        return next(map(str, inside), None) if shutil.which("WebKitWebDriver") else None
    return downloaded(browser)


def downloaded(browser: str) -> str | None:
    """Return the Chromium, or its shell, that `playwright install` has left here, or None.

    Playwright's Firefox is patched for a protocol of its own; the tests speak WebDriver BiDi.
    """
    if browser == "firefox":
        return None
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as playwright:
        program = Path(playwright.chromium.executable_path)
    if browser == "chromium-shell":
        shells = program.parent.parent.parent.glob("chromium_headless_shell-*/*/*headless*shell*")
        return next((str(shell) for shell in shells if os.access(shell, os.X_OK)), None)
    return str(program) if program.exists() else None


def version(program: str) -> int:
    """Return the major version that a browser tells. Raises BrowserNotFound if it tells none."""
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60
        )
        told = (done.stdout + done.stderr).decode("utf-8", "replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrowserNotFound(f"{program} cannot be launched ({error})") from None
    number = re.search(r"(\d+)\.\d", told)
    if done.returncode or number is None:
        last = (told.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise BrowserNotFound(f"{program} cannot be launched ({last[:160]})")
    return int(number[1])


def usable(browser: str) -> str:
    """Return the program of a browser that is new enough.

    Raises BrowserNotFound with what is missing and what to do.
    """
    program = find(browser)
    if program is None:
        raise BrowserNotFound(
            f"there is no {BROWSERS[browser].title}; install one, or set {BROWSERS[browser].variable} to its program"
        )
    oldest = BROWSERS[browser].oldest
    if oldest and (found := version(program)) < oldest:
        raise BrowserNotFound(
            f"{program} is version {found}, and the tests need {oldest} or newer; upgrade it, "
            f"or set {BROWSERS[browser].variable} to a newer one"
        )
    return program


def bring_up(browser: str) -> str:
    """Return the program of a usable browser, after installing or upgrading it where we may.

    Raises BrowserNotFound with what is missing, what was tried, and what to do.
    """
    try:
        return usable(browser)
    except BrowserNotFound as error:
        if os.environ.get(BROWSERS[browser].variable):
            raise
        problem = str(error)
    try:
        apt_install(*BROWSERS[browser].packages, trouble="")
    except SetupFailed as error:
        tried = " ".join(str(error).split())
        if browser == "chromium":
            command = [sys.executable, "-m", "playwright", "install", "chromium"]
            done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL)
            if done.returncode == 0:
                return usable(browser)
            tried += " Playwright's own download failed as well."
        raise BrowserNotFound(f"{problem}. {tried}") from None
    return usable(browser)


def launch(browser: str, program: str) -> None:
    """Start a browser once as the tests do. Raises BrowserNotFound if it does not start.

    One sentence instead of an error for each test. Does nothing where Playwright is missing, and
    for WebKit, which the first of its tests starts.
    """
    if browser == "webkit":
        return
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        return
    settings = runpy.run_path(str(ROOT / "playwright.config.py"))
    kind = "firefox" if browser == "firefox" else "chromium"
    options = {**settings["browsers"][kind], "timeout": settings["patience"]}
    with sync_playwright() as playwright:
        try:
            getattr(playwright, kind).launch(executable_path=program, **options).close()
        except Error as error:
            reason = error.message.strip().splitlines()[0][:200]
            raise BrowserNotFound(f"{program} cannot be launched ({reason})") from None


def main(words: list[str]) -> int:
    """Print where each browser is; exit code 1 when Chromium is asked for and cannot be had."""
    code = 0
    driven = [name for name, known in BROWSERS.items() if known.oldest]
    for browser in [word for word in words if word in BROWSERS] or driven:
        try:
            program = bring_up(browser) if "--install" in words else usable(browser)
            if "--launch" in words:
                launch(browser, program)
            print(f"{browser}\t{program}", flush=True)
        except BrowserNotFound as error:
            skipped = browser != "chromium"
            code = code or int(not skipped)
            sentence = str(error).rstrip(".")
            print(
                f"{BROWSERS[browser].title}: {'skipped, because ' if skipped else ''}{sentence}.",
                flush=True,
            )
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
