"""`detok check` drives a chat page, watches it, and reports broken glyphs. `detok proxy` runs the
chaos proxy alone.

In: the command line. Out: a verdict on stdout and in files (JSON, JUnit, HTML); exit code 0 if
clean, 1 for violations, 2 if it could not run.
"""

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..errors import DetokError
from . import report
from .truth import letters

if TYPE_CHECKING:
    from .proxy import ChaosProxy

BROWSERS = {
    "chromium": (
        "DETOK_CHROMIUM",
        ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome"),
    ),
    "firefox": ("DETOK_FIREFOX", ("firefox-esr", "firefox")),
    "webkit": ("DETOK_WEBKIT", ()),
}
STEPS = ("goto", "click", "fill", "type", "press", "wait_for", "wait", "settle")
# The fields that people type into. The last visible one is used: a chat's field comes after its
# search.
FIELDS = (
    "textarea:visible, [contenteditable=true]:visible, [contenteditable='plaintext-only']:visible, "
    "input[type=text]:visible, input:not([type]):visible"
)


class CheckError(DetokError, RuntimeError):
    """The check could not run: no browser, no page, or a step that failed."""


# Types of requests that never stream an answer.
STATIC = ("stylesheet", "font", "image", "media", "manifest")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `detok check`, or of `detok proxy` if that is the parser's command."""
    if parser.get_default("command") == "proxy":
        parser.add_argument(
            "--upstream",
            metavar="URL",
            help="the engine; without it, the proxy is a browser's HTTP proxy",
        )
        parser.add_argument(
            "--listen",
            metavar="PORT",
            type=_port,
            default=8764,
            help="the port on 127.0.0.1 (default: 8764; 0: any free one)",
        )
        _add_cuts(parser, "every-byte")
        return
    parser.add_argument(
        "url",
        nargs="?",
        metavar="URL",
        help="the page; one that streams by itself needs nothing else",
    )
    parser.add_argument(
        "--self",
        action="store_true",
        dest="itself",
        help="prove this installation: a page with a known fault, and its mended twin",
    )
    drive = parser.add_argument_group("driving the page")
    drive.add_argument(
        "--prompt", metavar="TEXT", help="what to type into the page's field and send"
    )
    drive.add_argument(
        "--text",
        metavar="FILE",
        help="the true answer (UTF-8); also what is typed when there is no --prompt and no --script",
    )
    drive.add_argument(
        "--script",
        metavar="FILE",
        help=f"steps to do instead, YAML or JSON: a list of {', '.join(STEPS)}; {{text}} and {{prompt}} are filled in",
    )
    drive.add_argument(
        "--timeout",
        metavar="S",
        type=_seconds,
        default=60.0,
        help="seconds for the page to finish (default: 60)",
    )
    drive.add_argument(
        "--quiet",
        metavar="MS",
        type=_seconds,
        default=800.0,
        help="milliseconds without a change that mean it has finished (default: 800)",
    )
    drive.add_argument("--browser", choices=tuple(BROWSERS), default="chromium")
    drive.add_argument("--headed", action="store_true", help="show the browser")
    cuts = parser.add_argument_group(
        "cutting its stream (any of these puts the chaos proxy between)"
    )
    cuts.add_argument(
        "--upstream",
        metavar="URL",
        help="the engine; where the page's server calls it, give --listen too and point the server there",
    )
    cuts.add_argument(
        "--listen",
        metavar="PORT",
        type=_port,
        help="the proxy's port on 127.0.0.1 (default: any free one)",
    )
    _add_cuts(cuts, None)
    judge = parser.add_argument_group("judging")
    judge.add_argument(
        "--within", metavar="CSS", help="only what is inside an element that matches"
    )
    judge.add_argument(
        "--exclude", metavar="CSS", help="not what is inside an element that matches"
    )
    judge.add_argument(
        "--ignore",
        metavar="RULE",
        action="append",
        default=[],
        choices=sorted(report.RULES),
        help="leave a rule out; may be repeated",
    )
    judge.add_argument(
        "--allow-literal", action="store_true", help="a U+FFFD that stays is the model's own"
    )
    out = parser.add_argument_group("output")
    for form in ("json", "junit", "html"):
        out.add_argument(
            f"--{form}",
            metavar="FILE",
            help=f"write the verdict as {form.upper() if form != 'junit' else 'JUnit XML'}; - is stdout",
        )


def _add_cuts(parser: Any, split: str | None) -> None:
    parser.add_argument(
        "--split",
        default=split,
        metavar="HOW",
        help="every-byte (default), token, random:SEED, or none",
    )
    parser.add_argument(
        "--delay",
        type=_seconds,
        metavar="MS",
        help="milliseconds to wait after each cut that matters (default: 3)",
    )
    parser.add_argument(
        "--only", metavar="REGEX", help="cut only the streams whose address matches"
    )
    parser.add_argument(
        "--websocket",
        choices=("fragments", "messages"),
        help="cut WebSocket messages into fragments (default) or messages",
    )


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < 86_400_000:
        raise ValueError(text)
    return value


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value < 65536:
        raise ValueError(text)
    return value


def run(args: argparse.Namespace) -> int:
    """Run `detok check` or `detok proxy`; return its exit code."""
    if args.command == "proxy":
        return run_proxy(args)
    if args.itself:
        return check_self(args)
    if not args.url:
        raise CheckError(
            "Which page? Give its address: detok check http://127.0.0.1:3000, or --self to prove the installation."
        )
    # Read all files before a browser is started.
    truth = _read(args.text) if args.text else None
    steps = _steps(args.script) if args.script else None
    for name in (args.json, args.junit, args.html):
        if name and name != "-" and not Path(name).resolve().parent.is_dir():
            raise CheckError(f"{name} cannot be written: its folder does not exist.")
    result = check(args, args.url, truth, steps)
    forms = {"json": report.as_json, "junit": report.as_junit, "html": report.as_html}
    to_stdout = False
    for form, write in forms.items():
        name = getattr(args, form)
        if name == "-":
            to_stdout = True
            sys.stdout.write(write(result).encode("utf-8", "backslashreplace").decode("utf-8"))
        elif name:
            Path(name).write_text(write(result), encoding="utf-8", errors="backslashreplace")
    if not to_stdout:
        print(summary(result))
    return 1 if result["violations"] else 0


def summary(result: dict[str, Any]) -> str:
    """Return the verdict as text for a terminal."""
    lines = [
        report.sentence(result)
        if result["violations"]
        else f"No broken glyph was shown on {result['url']}."
    ]
    lines += [
        f"  to be judged: {e['id']}: {e['description']}: {report.visible(str(e.get('text', '')))!r}"
        for e in result["incomplete"][:20]
    ]
    return "\n".join(lines)


def _read(name: str) -> str:
    raw = Path(name).read_bytes()
    try:
        return raw.decode("utf-8").rstrip("\n")
    except UnicodeDecodeError as error:
        raise CheckError(
            f"{name} is not UTF-8 at byte {error.start}; the true text must be."
        ) from None


def _steps(name: str) -> list[dict[str, Any]]:
    source = _read(name)
    try:
        if name.endswith(".json"):
            steps = json.loads(source)
        else:
            import yaml

            try:
                steps = yaml.safe_load(source)
            except yaml.YAMLError as error:
                raise CheckError(f"{name} is not YAML: {' '.join(str(error).split())}.") from None
    except ValueError as error:
        raise CheckError(f"{name} is not JSON: {error}.") from None
    if not isinstance(steps, list):
        raise CheckError(
            f"{name} must be a list of steps, such as `- press: Enter`; it is a {type(steps).__name__}."
        )
    for number, step in enumerate(steps, 1):
        if not isinstance(step, dict) or len(step) != 1 or next(iter(step)) not in STEPS:
            raise CheckError(
                f"{name}, step {number}: {step!r} is none of {', '.join(STEPS)}; write one a line, such as `- press: Enter`."
            )
        ((verb, what),) = step.items()
        if (
            verb in ("wait", "settle")
            and not isinstance(what, int | float)
            and (what is not None or verb == "wait")
        ):
            raise CheckError(
                f"{name}, step {number}: {verb} takes milliseconds, such as `- {verb}: 500`, not {what!r}."
            )
    return steps


# --- the browser ----------------------------------------------------------------------------------
@contextlib.contextmanager
def browser_of(args: argparse.Namespace, proxy: str | None) -> Iterator[Any]:
    """Yield a browser: the one of DETOK_CHROMIUM (…), Playwright's own, or one on the PATH."""
    from playwright.sync_api import Error, sync_playwright

    variable, names = BROWSERS[args.browser]
    options: dict[str, Any] = {"headless": not args.headed, "timeout": 60_000}
    if proxy:
        options["proxy"] = {"server": proxy}
    with sync_playwright() as playwright:
        kind = getattr(playwright, args.browser)
        named = os.environ.get(variable)
        found = next((path for path in (shutil.which(name) for name in names) if path), None)
        if named:
            program = shutil.which(named)
            if program is None:
                raise CheckError(
                    f"{variable}={named} is not a program that can be run; correct it or unset it."
                )
        else:
            program = None if Path(kind.executable_path).exists() else found
        if program is None and not Path(kind.executable_path).exists():
            raise CheckError(
                f"No {args.browser} was found: run `playwright install {args.browser}`, install one, or set {variable}."
            )
        if program:
            options["executable_path"] = program
            if args.browser == "firefox":
                options["channel"] = "moz-firefox"  # an unpatched Firefox speaks WebDriver BiDi
        if proxy and args.browser == "firefox":
            # Otherwise Firefox uses no proxy for servers of this machine.
            options["firefox_user_prefs"] = {"network.proxy.allow_hijacking_localhost": True}
        if args.browser == "chromium":
            options["args"] = [
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
            ]
        try:
            browser = kind.launch(**options)
        except Error as error:
            raise CheckError(
                f"{args.browser.capitalize()} does not start: {_first(error)}"
            ) from None
        try:
            yield browser
        finally:
            browser.close()


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0].removeprefix("Page.goto: ")


def check(
    args: argparse.Namespace,
    url: str,
    truth: str | None = None,
    steps: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Open `url`, do the steps, wait until it is quiet, and return the verdict (report.verdict)."""
    from playwright.sync_api import Error

    from .watch import GlyphWatch

    if "://" not in url:
        url = "http://" + url
    prompt = args.prompt if args.prompt is not None else truth if steps is None else None
    with contextlib.ExitStack() as stack:
        chaos = None
        if any(
            option is not None
            for option in (
                args.split,
                args.upstream,
                args.listen,
                args.delay,
                args.only,
                args.websocket,
            )
        ):
            chaos = stack.enter_context(proxy_of(args))
        browser = stack.enter_context(browser_of(args, chaos.server if chaos else None))
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        watch = GlyphWatch(context)
        page = context.new_page()
        waiting: dict[Any, float] = {}
        hosts: set[str] = set()
        page.on(
            "request",
            lambda r: None if r.resource_type in STATIC else hosts.add(urlsplit(r.url).netloc),
        )
        page.on("websocket", lambda w: hosts.add(urlsplit(w.url).netloc))
        page.on(
            "request",
            lambda r: (
                waiting.update({r: time.monotonic()})
                if r.resource_type in ("fetch", "xhr")
                else None
            ),
        )
        for event in ("requestfinished", "requestfailed"):
            page.on(event, lambda r: waiting.pop(r, None))
        deadline = time.monotonic() + args.timeout
        try:
            answer = page.goto(url, wait_until="domcontentloaded", timeout=args.timeout * 1000 or 1)
        except Error as error:
            raise CheckError(f"{url} cannot be opened: {_first(error)}") from None
        if answer is not None and answer.status >= 400:
            raise CheckError(
                f"{url} answers {answer.status} {answer.status_text}: there is no page to check."
            )
        typed = 0
        try:
            if steps is not None:
                for number, step in enumerate(steps, 1):
                    try:
                        typed += do(
                            page, watch, step, {"text": truth or "", "prompt": prompt or ""}, args
                        )
                    except Error as error:
                        raise CheckError(
                            f"{url}: step {number}, {json.dumps(step)}, failed: {_first(error)}"
                        ) from None
            elif prompt is not None:
                find_field(page, args.timeout)
                watch.settle(min(args.quiet, 300), 15_000)
                typed = ask(page, prompt)
            settled = settle(watch, waiting, args.quiet, deadline, least_ms=3000)
        except Error as error:
            raise CheckError(f"{url} could not be driven: {_first(error)}") from None
        answers = chaos.answers if chaos else []
        if args.upstream:
            # The page's own server may have changed the engine's answer, so only the engine's
            # counts.
            from .http import origin_of

            origin = origin_of(args.upstream) + "/"
            answers = [a for a in answers if a.url.startswith(origin)] or answers
        sent = [a.sent.text for a in answers if a.sent.text] or None
        result: dict[str, Any] = watch.result(
            args.within,
            exclude=args.exclude,
            ignore=args.ignore,
            truth=truth,
            allow_literal=args.allow_literal,
            screenshots=bool(args.html or args.json),
            sent=sent,
            times=1 + (typed if truth and letters(truth) in letters(prompt or truth) else 0),
        )
        result["url"] = url
        extra = []
        if not settled:
            extra.append(report.entry("not-settled", target=[], text=f"after {args.timeout:g} s"))
        if chaos:
            extra += [
                report.entry("not-read", target=[], text=f"{host}: encrypted, so not cut either")
                for host in sorted(chaos.blind)
                if _asked(host, hosts)
            ]
            extra += [
                report.entry(
                    "not-read", target=[], text=f"{a.url}: its events are of no known kind"
                )
                for a in chaos.answers
                if a.sent.text is None and truth is None
            ]
            extra += [
                report.entry("not-read", target=[], text=problem)
                for problem in dict.fromkeys(chaos.problems)
                if any(h in problem for h in hosts)
            ]
            if not chaos.answers:
                extra.append(
                    report.entry(
                        "not-read",
                        target=[],
                        text="no stream passed the proxy: the page's own server may fetch it (--listen)",
                    )
                )
            result["streams"] = [
                {"url": a.url, "bytes": a.bytes, "pieces": a.pieces, "finished": a.finished}
                for a in chaos.answers
            ]
        result["incomplete"] += [e for e in extra if e["id"] not in args.ignore]
        return result


def proxy_of(args: argparse.Namespace) -> "ChaosProxy":
    """Return the proxy that the command line asks for."""
    from .proxy import ChaosProxy

    return ChaosProxy(
        args.upstream,
        split=args.split or "every-byte",
        delay=(3.0 if args.delay is None else args.delay) / 1000,
        port=args.listen or 0,
        only=args.only,
        websocket=args.websocket or "fragments",
    )


def _asked(host: str, hosts: set[str]) -> bool:
    """Return whether the page itself sent requests to this host; the browser may send its own."""
    return host in hosts or host.removesuffix(":443") in hosts


def settle(
    watch: Any, waiting: dict[Any, float], quiet_ms: float, deadline: float, least_ms: float
) -> bool:
    """Wait until nothing changes and no request of the last 20 s is pending.

    Return False if the deadline passed.
    """
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        if not watch.settle(quiet_ms, left * 1000, least_ms):
            return False
        if not [r for r, since in list(waiting.items()) if time.monotonic() - since < 20]:
            return True
        watch.context.pages[0].wait_for_timeout(100)
        least_ms = 0


def find_field(page: Any, seconds: float) -> None:
    """Wait for a field to type into: an application may start long after its page was loaded."""
    from playwright.sync_api import TimeoutError

    try:
        page.locator(FIELDS).last.wait_for(timeout=seconds * 1000 or 1)
    except TimeoutError:
        sentence = "The page has no field to type into; say with --script how it is asked, or leave --prompt and --text out."
        raise CheckError(sentence) from None


def put(field: Any, text: str) -> None:
    """Put a text into a field so that the page notices it.

    In Firefox, React notices keys, but not a value that is only set.
    """
    field.fill(text, timeout=10_000)
    for key in ("Space", "Backspace"):
        field.press(key, timeout=10_000)


def ask(page: Any, prompt: str) -> int:
    """Type into the page's field and send it; return how often the page shows the prompt then: 1."""
    field = page.locator(FIELDS).last
    field.click(timeout=10_000)
    put(field, prompt)
    field.press("Enter")
    page.wait_for_timeout(400)
    left = field.evaluate("e => e.isConnected ? (e.value ?? e.textContent) : ''")
    if left.strip():  # Enter only began a new line
        buttons = page.locator(
            "button[type=submit]:visible, button[aria-label*=send i]:visible, button:visible:has-text('Send')"
        )
        if buttons.count():
            buttons.last.click(timeout=10_000)
    return 1


def do(
    page: Any, watch: Any, step: dict[str, Any], values: dict[str, str], args: argparse.Namespace
) -> int:
    """Do one step of a script; return how often it put the true text on the page."""
    ((verb, what),) = step.items()

    def filled(text: Any) -> str:
        return str(text).replace("{text}", values["text"]).replace("{prompt}", values["prompt"])

    if verb == "goto":
        page.goto(filled(what), wait_until="domcontentloaded")
    elif verb == "click":
        page.locator(str(what)).last.click()
    elif verb in ("fill", "type"):
        selector, text = (
            (what.get("into", FIELDS), filled(what.get("text", "")))
            if isinstance(what, dict)
            else (FIELDS, filled(what))
        )
        field = page.locator(selector).last
        if verb == "fill":
            put(field, text)
        else:
            field.press_sequentially(text)
        return int(bool(values["text"]) and values["text"] in text)
    elif verb == "press":
        page.keyboard.press(str(what))
    elif verb == "wait_for":
        page.locator(str(what)).last.wait_for(timeout=args.timeout * 1000)
    elif verb == "wait":
        page.wait_for_timeout(float(what))
    else:
        watch.settle(float(what or args.quiet), args.timeout * 1000)
    return 0


# --- detok proxy ----------------------------------------------------------------------------------
def run_proxy(args: argparse.Namespace) -> int:
    """Serve until interrupted; print each stream when it has ended."""
    with proxy_of(args) as chaos:
        before = f"before {args.upstream}" if args.upstream else "as a browser's HTTP proxy"
        print(f"{chaos.server} {before}, split: {args.split}. Ctrl+C ends it.", flush=True)
        told: set[int] = set()
        problems = 0
        try:
            while True:
                time.sleep(0.2)
                for answer in [a for a in chaos.answers if a.finished and id(a) not in told]:
                    told.add(id(answer))
                    text = answer.sent.text
                    said = (
                        "its events are of no known kind"
                        if text is None
                        else repr(report.visible(text[:60]))
                    )
                    print(
                        f"{answer.url}: {answer.bytes} bytes in {answer.pieces} pieces: {said}",
                        flush=True,
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
        self.send_header(
            "content-type",
            "text/html; charset=utf-8"
            if page
            else "text/event-stream"
            if self.path == "/events"
            else "text/plain; charset=utf-8",
        )
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
    with tempfile.TemporaryDirectory() as folder:
        for name, write in (
            ("check.html", report.as_html),
            ("check.xml", report.as_junit),
            ("check.json", report.as_json),
        ):
            Path(folder, name).write_text(
                write(caught), encoding="utf-8", errors="backslashreplace"
            )
    seen = sorted({e["id"] for e in caught["violations"]})
    pieces = [s["pieces"] for s in caught.get("streams", [])]
    print(
        f"The faulty page: {', '.join(seen) or 'nothing was seen'}; its stream was cut into {sum(pieces)} pieces."
    )
    print(
        f"The mended page: {', '.join(sorted({e['id'] for e in clean['violations']})) or 'clean'}."
    )
    good = (
        "ufffd-persistent" in seen
        and not clean["violations"]
        and sum(pieces) == len(TRUE_TEXT.encode())
    )
    print(
        "This installation works."
        if good
        else "This installation does not work: the fault was not caught, or the mended page was blamed."
    )
    return 0 if good else 1
