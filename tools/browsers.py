"""Find the browsers that the tests drive, or install them, or say in one sentence why not.

`python tools/browsers.py chromium firefox` prints one line a browser: its name, a tab, the program; or `Firefox: skipped,
because …`. Exit 1 when Chromium is missing: that is a failure. Firefox missing is none, nor is `chromium-shell`, which is Chromium
without windows: what has no need of one takes a quarter less time in it. `--install` may change the machine: it first tries Playwright's
own download, then, as root, the distribution's packages.

The search: an environment variable (DETOK_CHROMIUM, DETOK_CHROMIUM_SHELL, DETOK_FIREFOX), a program on the PATH, what Playwright has
downloaded before.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = {
    "chromium": ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome"),
    "chromium-shell": ("chromium-headless-shell", "chrome-headless-shell", "headless_shell"),
    "firefox": ("firefox-esr", "firefox"),
}
TITLES = {"chromium": "Chromium", "chromium-shell": "Chromium's headless shell", "firefox": "Firefox"}
VARIABLES = {"chromium": "DETOK_CHROMIUM", "chromium-shell": "DETOK_CHROMIUM_SHELL", "firefox": "DETOK_FIREFOX"}
APPLICATIONS = {
    "chromium": ("Chromium.app/Contents/MacOS/Chromium", "Google Chrome.app/Contents/MacOS/Google Chrome"),
    "chromium-shell": (),
    "firefox": ("Firefox.app/Contents/MacOS/firefox",),
}
# Fonts only where the browser is installed too: tests that look at pixels need CJK, emoji and Indic glyphs.
PACKAGES = {
    "chromium": ("chromium", "fonts-noto-core", "fonts-noto-cjk", "fonts-noto-color-emoji"),
    "chromium-shell": ("chromium-headless-shell",),
    "firefox": ("firefox-esr",),
}


class BrowserNotFound(Exception):
    """No such browser: the sentence says what was tried and what to do."""


def find(browser: str) -> str | None:
    """Return the program of an installed `browser` ("chromium", "chromium-shell", "firefox"), or None.

    An environment variable that names something that cannot run raises BrowserNotFound: the user meant it.
    """
    variable = VARIABLES[browser]
    named = os.environ.get(variable)
    if named:
        program = shutil.which(named)
        if program is None:
            raise BrowserNotFound(f"{variable}={named} is no program that can be run; correct it or unset it")
        return program
    for name in NAMES[browser]:
        program = shutil.which(name)
        if program:
            return program
    for folder in ("/Applications", os.path.expanduser("~/Applications")):
        for application in APPLICATIONS[browser]:
            if os.access(os.path.join(folder, application), os.X_OK):
                return os.path.join(folder, application)
    return downloaded(browser)


def downloaded(browser: str) -> str | None:
    """Return the program that `playwright install` has left on this machine, or None.

    Only Chromium's: Playwright's Firefox is patched for its own protocol, and the tests speak WebDriver BiDi to a real one.
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
        # It lies beside the other: …/chromium-1228/chrome-linux64/chrome, …/chromium_headless_shell-1228/…/chrome-headless-shell
        shells = program.parent.parent.parent.glob("chromium_headless_shell-*/*/*headless*shell*")
        return next((str(shell) for shell in shells if os.access(shell, os.X_OK)), None)
    return str(program) if program.exists() else None


def install(browser: str) -> str:
    """Install `browser`: Playwright's download for Chromium (its shell comes along), else the distribution's package when we are root.

    Returns the program; raises BrowserNotFound with what was tried and what to do.
    """
    tried = []
    if browser == "chromium":
        done = run([sys.executable, "-m", "playwright", "install", "chromium"], seconds=300)
        program = find(browser)
        if program:
            return program
        tried.append(f"Playwright's download failed ({done})")
    if shutil.which("apt-get") is None:
        tried.append("there is no apt-get")
    elif hasattr(os, "geteuid") and os.geteuid() != 0:
        tried.append("apt-get needs root")
    else:
        environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        asked = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *PACKAGES[browser]]
        done = run(asked, seconds=900, environment=environment)
        if not find(browser):
            # A new machine has no lists of packages yet, an old one has old lists.
            run(["apt-get", "update", "-q"], seconds=300, environment=environment)
            done = run(asked, seconds=900, environment=environment)
        program = find(browser)
        if program:
            return program
        tried.append(f"apt-get install {PACKAGES[browser][0]} failed ({done})")
    raise BrowserNotFound(
        f"no {TITLES[browser]} on the PATH and none could be installed: {'; '.join(tried)}. "
        f"Install one, or set {VARIABLES[browser]} to its program"
    )


def run(command: list[str], seconds: int, environment: dict[str, str] | None = None) -> str:
    """Run `command` quietly; return how it ended in a few words: its last line, or that it took too long."""
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {seconds} s"
    except OSError as error:
        return str(error)
    lines = [line.strip() for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:160] if lines else f"exit code {done.returncode}"


def main(words: list[str]) -> int:
    """Print where each browser is; exit code 1 when Chromium is asked for and cannot be had."""
    code = 0
    for browser in [word for word in words if word in NAMES] or list(NAMES):
        try:
            program = find(browser) or (install(browser) if "--install" in words else None)
            if program is None:
                raise BrowserNotFound(f"no {TITLES[browser]} on the PATH; run with --install, or set {VARIABLES[browser]}")
            print(f"{browser}\t{program}", flush=True)
        except BrowserNotFound as error:
            code = 1 if browser == "chromium" else code
            print(f"{TITLES[browser]}: {'' if browser == 'chromium' else 'skipped, because '}{error}.", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
