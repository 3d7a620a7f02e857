"""`detok check` drives a chat page, or with `--pty` a program in a terminal, watches it, and
reports broken glyphs. `detok proxy` runs the chaos proxy alone.

In: the command line. Out: a verdict on stdout and in files (JSON, JUnit, HTML); exit code 0 if
clean, 1 for violations, 2 if it could not run or there was no answer to test.
"""

import argparse
import contextlib
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import report
from .drive import Check, drive, exit_code, first_line, launch_options, summary, unfit
from .options import CheckError, cuts, steps_of, text_of_file, true_text
from .options import add_arguments as add_options

if TYPE_CHECKING:
    from .proxy import ChaosProxy

__all__ = ["add_arguments", "run"]

FORMS = {"json": report.as_json, "junit": report.as_junit, "html": report.as_html}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `detok check` or `detok proxy`."""
    add_options(parser)
    if parser.get_default("command") == "check":
        parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
        parser.add_argument(
            "--pty",
            action="store_true",
            help="check a program in a terminal, not a page: detok check --pty -- python chat.py",
        )


def run(args: argparse.Namespace) -> int:
    """Run `detok check` or `detok proxy`; return its exit code."""
    if args.command == "proxy":
        return run_proxy(args)
    if args.itself:
        return check_self(args)
    if args.words and not args.pty:
        raise CheckError(f"One page is checked; leave out {args.words[0]!r}, or add --pty.")
    if not args.url and not args.pty:
        raise CheckError(
            "Which page? Give its address: detok check http://127.0.0.1:3000, or --self to prove the installation."
        )
    # Read all files before a browser is started.
    truth = true_text(Path(args.text).read_bytes(), args.text) if args.text else None
    script = text_of_file(Path(args.script).read_bytes(), args.script) if args.script else ""
    steps = steps_of(script, args.script) if args.script else None
    for name in (args.json, args.junit, args.html):
        if name and name != "-" and not Path(name).resolve().parent.is_dir():
            raise CheckError(f"{name} cannot be written: its folder does not exist.")
    if not args.pty:
        result = check(args, args.url, truth, steps)
    else:
        result = check_program(args, truth)
    to_stdout = False
    for form, write in FORMS.items():
        name = getattr(args, form)
        if name == "-":
            to_stdout = True
            sys.stdout.write(write(result).encode("utf-8", "backslashreplace").decode("utf-8"))
        elif name:
            Path(name).write_text(write(result), encoding="utf-8", errors="backslashreplace")
    if not to_stdout:
        print(summary(result))
    return exit_code(result)


# --- the browser ----------------------------------------------------------------------------------
@contextlib.contextmanager
def browser_of(args: argparse.Namespace, proxy: str | None) -> Iterator[Any]:
    """Yield the browser that the command line asks for."""
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        kind = getattr(playwright, args.browser)
        own = Path(kind.executable_path).exists()
        options = launch_options(args, proxy, own, os.environ.get, shutil.which)
        try:
            browser = kind.launch(**options)
        except Error as error:
            raise CheckError(
                f"{args.browser.capitalize()} does not start: {first_line(error)}"
            ) from None
        try:
            yield browser
        finally:
            browser.close()


def check(
    args: argparse.Namespace,
    url: str,
    truth: str | None = None,
    steps: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Open `url`, do the steps, wait until it is quiet, and return the verdict (drive.py)."""
    from playwright.sync_api import Error

    from .watch import GlyphWatch

    with contextlib.ExitStack() as stack:
        chaos = stack.enter_context(proxy_of(args)) if cuts(args) else None
        browser = stack.enter_context(browser_of(args, chaos.server if chaos else None))
        try:
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            watch = GlyphWatch(context)
            page = context.new_page()
        except Error as error:
            raise unfit(args.browser, browser.version, version("playwright"), error) from None
        asked = Check(args, url, truth, steps, chaos)
        result: dict[str, Any] = watch._run(drive(watch, page, asked))
        return result


def check_program(args: argparse.Namespace, truth: str | None) -> dict[str, Any]:
    """Run a command in a terminal, and return the verdict (terminal.py)."""
    from .terminal import run_and_judge

    with contextlib.ExitStack() as stack:
        chaos = stack.enter_context(proxy_of(args)) if cuts(args) else None
        return run_and_judge(args, truth, chaos)


def proxy_of(args: argparse.Namespace) -> "ChaosProxy":
    """Return the proxy that the command line asks for."""
    from .proxy import ChaosProxy

    return ChaosProxy(args.upstream, port=args.listen or 0, **cuts(args) or {})


# --- detok proxy ----------------------------------------------------------------------------------
def run_proxy(args: argparse.Namespace) -> int:
    """Serve until interrupted; print each stream when it has ended."""
    with proxy_of(args) as chaos:

        def say(line: str, /, **fields: Any) -> None:
            print(json.dumps(fields) if args.json else line, flush=True)

        before = f"before {args.upstream}" if args.upstream else "as a browser's HTTP proxy"
        say(
            f"{chaos.server} {before}, split: {args.split}. Ctrl+C ends it.",
            server=chaos.server,
            upstream=args.upstream,
            split=args.split,
        )
        told: set[int] = set()
        problems = 0
        try:
            while True:
                time.sleep(0.2)
                for answer in [a for a in chaos.answers if a.finished and id(a) not in told]:
                    told.add(id(answer))
                    text = answer.sent.text
                    said = "its events are of no known kind"
                    if text is not None:
                        said = repr(report.visible(text[:60]))
                    say(
                        f"{answer.url}: {answer.bytes} bytes in {answer.pieces} pieces: {said}",
                        url=answer.url,
                        bytes=answer.bytes,
                        pieces=answer.pieces,
                        text=text,
                    )
                for problem in chaos.problems[problems:]:
                    print(problem, file=sys.stderr, flush=True)
                problems = len(chaos.problems)
        except KeyboardInterrupt:
            return 0


# --- detok check --self ---------------------------------------------------------------------------
TRUE_TEXT = "Grüße 東京 👋 ไทย"
PAGE = """<!doctype html><html lang=en data-state=streaming><meta charset=utf-8><title>detok check --self</title><link rel=icon href=data:,>
<main role=log></main><script type=module>
const decoder = new TextDecoder();
for await (const chunk of (await fetch("stream")).body) document.querySelector("main").append(%s);
document.documentElement.dataset.state = "finished";
</script>"""
PAGES = {
    "/faulty": PAGE % "new TextDecoder().decode(chunk)",
    "/fixed": PAGE % "decoder.decode(chunk, { stream: true })",
}


class SelfRequest(BaseHTTPRequestHandler):
    """Serves two pages that differ in one line, and a stream that the proxy cuts."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        page = PAGES.get(self.path)
        body = (page or TRUE_TEXT).encode()
        self.send_response(200)
        self.send_header("content-type", f"text/{'html' if page else 'plain'}; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))


def check_self(args: argparse.Namespace) -> int:
    """Check a page with a known fault, and a fixed copy.

    Return 0 if the fault is found and the copy passes, else 1.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), SelfRequest)
    server.daemon_threads = True
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        args.split, args.quiet, args.delay = args.split or "every-byte", 300.0, 20.0
        caught = check(args, f"{address}/faulty", None, [])
        clean = check(args, f"{address}/fixed", None, [])
    finally:
        server.shutdown()
        server.server_close()
    for write in FORMS.values():  # each must be able to tell the fault
        write(caught).encode("utf-8", "backslashreplace")
    seen, others = (
        ", ".join(sorted({e["id"] for e in one["violations"]})) for one in (caught, clean)
    )
    pieces = [s["pieces"] for s in caught.get("streams", [])]
    print(
        f"The faulty page: {seen or 'nothing was seen'}; its stream was cut into {sum(pieces)} pieces."
    )
    print(f"The mended page: {others or 'clean'}.")
    cut = sum(pieces) == len(TRUE_TEXT.encode())
    if cut and "ufffd-persistent" in seen and not others:
        print("This installation works.")
        return 0
    print(
        "This installation does not work: the fault was not found, or the mended page was reported."
    )
    return 1
