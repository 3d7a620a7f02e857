"""Drive a chat page as `detok check` does, and judge it: the same steps for every API of Playwright.

In: a watched page, the options of the command line, the true text if it is known, and the proxy if
there is one. Out: the verdict. What calls the browser is a generator of calls, as in watch.py.
"""

import argparse
import json
import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..errors import DetokError
from . import report
from .traffic import origin_of
from .truth import letters
from .verdict import RULES, entry
from .watch import GlyphWatch, Steps, is_browsers

if TYPE_CHECKING:
    from .traffic import Traffic

BROWSERS = {
    "chromium": (
        "DETOK_CHROMIUM",
        ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome"),
    ),
    "firefox": ("DETOK_FIREFOX", ("firefox-esr", "firefox")),
    "webkit": ("DETOK_WEBKIT", ()),
}
# The Playwright that the tests pin, and the oldest browsers that it drives (tools/browsers.py says how
# that is known).
PLAYWRIGHT = "1.64"
OLDEST = {"chromium": 150, "firefox": 153}
STEPS = ("goto", "click", "fill", "type", "press", "wait_for", "wait", "settle")
# The fields that people type into. The last visible one is used: a chat's field comes after its
# search.
FIELDS = (
    "textarea:visible, [contenteditable=true]:visible, [contenteditable='']:visible, "
    "[contenteditable='plaintext-only']:visible, input[type=text]:visible, input:not([type]):visible"
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
        parser.add_argument("--json", action="store_true", help="write one JSON object per line")
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
        choices=sorted(RULES),
        help="leave a rule out; may be repeated",
    )
    judge.add_argument(
        "--max-late",
        metavar="MS",
        type=_seconds,
        help="fail if text that the proxy had sent whole was shown more than so many milliseconds later",
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


def summary(result: dict[str, Any]) -> str:
    """Return the verdict as text for a terminal."""
    lines = [
        report.sentence(result)
        if result["violations"]
        else f"No broken glyph was shown on {result['url']}."
    ]
    lines += [
        f"  to be judged: {e['id']}: {e['description']}{report.how_late(e)}: {report.visible(str(e.get('text', '')))!r}"
        for e in result["incomplete"][:20]
    ]
    return "\n".join(lines)


def true_text(raw: bytes, name: str) -> str:
    """Return the text of a file that has the true answer."""
    try:
        return raw.decode("utf-8").rstrip("\n")
    except UnicodeDecodeError as error:
        raise CheckError(
            f"{name} is not UTF-8 at byte {error.start}; the true text must be."
        ) from None


def steps_of(source: str, name: str) -> list[dict[str, Any]]:
    """Return the steps of a script, which is YAML or, if its name says so, JSON.

    >>> steps_of('[{"press": "Enter"}]', "ask.json")
    [{'press': 'Enter'}]
    """
    try:
        if name.endswith(".json"):
            steps = json.loads(source)
        else:
            try:
                import yaml
            except ImportError:
                raise CheckError(
                    f"{name} is not read as YAML here; write the same steps as JSON, in a file whose name ends in .json."
                ) from None
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


def cuts(args: argparse.Namespace) -> dict[str, Any] | None:
    """Return how the proxy is to cut, by the names of `Traffic`; None if no option asks for one."""
    asked = (args.split, args.upstream, args.listen, args.delay, args.only, args.websocket)
    if all(option is None for option in asked):
        return None
    return {
        "split": args.split or "every-byte",
        "delay": (3.0 if args.delay is None else args.delay) / 1000,
        "only": args.only,
        "websocket": args.websocket or "fragments",
    }


def launch_options(
    args: argparse.Namespace,
    proxy: str | None,
    own: bool,
    variable: Callable[[str], str | None],
    which: Callable[[str], str | None],
) -> dict[str, Any]:
    """Return how Playwright is to launch the browser of `args`.

    It is the one of DETOK_CHROMIUM (…), Playwright's `own` if there is one, or one on the PATH.
    """
    name, programs = BROWSERS[args.browser]
    options: dict[str, Any] = {"headless": not args.headed, "timeout": 60_000}
    named = variable(name)
    program = None
    if named:
        program = which(named)
        if program is None:
            raise CheckError(
                f"{name}={named} is not a program that can be run; correct it or unset it."
            )
    elif not own:
        program = next((path for path in map(which, programs) if path), None)
        if program is None:
            raise CheckError(
                f"No {args.browser} was found: run `playwright install {args.browser}`, install one, or set {name}."
            )
    if program:
        options["executable_path"] = program
        if args.browser == "firefox":
            options["channel"] = "moz-firefox"  # an unpatched Firefox speaks WebDriver BiDi
    if proxy:
        options["proxy"] = {"server": proxy}
        if args.browser == "firefox":
            # Otherwise Firefox uses no proxy for servers of this machine.
            options["firefox_user_prefs"] = {"network.proxy.allow_hijacking_localhost": True}
    if args.browser == "chromium":
        options["args"] = [
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
        ]
    return options


def drive(
    watch: GlyphWatch,
    page: Any,
    args: argparse.Namespace,
    url: str,
    truth: str | None,
    steps: list[dict[str, Any]] | None,
    traffic: "Traffic | None",
) -> Steps:
    """Open `url`, do the steps, wait until it is quiet, and return the verdict."""
    if "://" not in url:
        url = "http://" + url
    prompt = args.prompt if args.prompt is not None else truth if steps is None else None
    waiting: list[tuple[Any, float]] = []
    hosts: set[str] = set()

    def began(request: Any) -> None:
        if request.resource_type not in STATIC:
            hosts.add(urlsplit(request.url).netloc)
        if request.resource_type in ("fetch", "xhr"):
            waiting.append((request, time.monotonic()))

    def ended(request: Any) -> None:
        waiting[:] = [one for one in waiting if one[0] != request]

    page.on("request", began)
    page.on("websocket", lambda socket: hosts.add(urlsplit(socket.url).netloc))
    page.on("requestfinished", ended)
    page.on("requestfailed", ended)
    deadline = time.monotonic() + args.timeout
    try:
        answer = yield lambda: page.goto(
            url, wait_until="domcontentloaded", timeout=args.timeout * 1000 or 1
        )
    except Exception as error:
        if not is_browsers(error):
            raise
        raise CheckError(f"{url} cannot be opened: {first_line(error)}") from None
    if answer is not None and answer.status >= 400:
        raise CheckError(
            f"{url} answers {answer.status} {answer.status_text}: there is no page to check."
        )
    typed = 0
    try:
        if steps is not None:
            for number, step in enumerate(steps, 1):
                try:
                    typed += yield from do(
                        page, watch, step, {"text": truth or "", "prompt": prompt or ""}, args
                    )
                except Exception as error:
                    if not is_browsers(error):
                        raise
                    raise CheckError(
                        f"{url}: step {number}, {json.dumps(step)}, failed: {first_line(error)}"
                    ) from None
        elif prompt is not None:
            yield from find_field(page, args.timeout)
            yield from watch._settle(min(args.quiet, 300), 15_000, 0)
            typed = yield from ask(page, prompt)
        settled = yield from settle(watch, page, waiting, args.quiet, deadline, least_ms=3000)
    except Exception as error:
        if not is_browsers(error):
            raise
        raise CheckError(f"{url} could not be driven: {first_line(error)}") from None
    answers = traffic.answers if traffic else []
    if args.upstream:
        # The page's own server may have changed the engine's answer, so only the engine's counts.
        origin = origin_of(args.upstream) + "/"
        answers = [a for a in answers if a.url.startswith(origin)] or answers
    result: dict[str, Any] = yield from watch._result(
        args.within,
        args.exclude,
        tuple(args.ignore),
        truth,
        args.allow_literal,
        bool(args.html or args.json),
        True,
        [a.sent.text for a in answers if a.sent.text] or None,
        1 + (typed if truth and letters(truth) in letters(prompt or truth) else 0),
        answers,
        args.max_late,
    )
    result["url"] = url
    result["incomplete"] += [
        e for e in _unread(traffic, hosts, truth) if e["id"] not in args.ignore
    ]
    if not settled and "not-settled" not in args.ignore:
        result["incomplete"].append(
            entry("not-settled", target=[], text=f"after {args.timeout:g} s")
        )
    if traffic:
        result["streams"] = [
            {"url": a.url, "bytes": a.bytes, "pieces": a.pieces, "finished": a.finished}
            for a in traffic.answers
        ]
    return result


def _unread(traffic: "Traffic | None", hosts: set[str], truth: str | None) -> list[dict[str, Any]]:
    """Return an entry for each stream that the proxy could not read."""
    if traffic is None:
        return []
    texts = [
        f"{host}: encrypted, so not cut either"
        for host in sorted(traffic.blind)
        # The browser may have requests of its own.
        if host in hosts or host.removesuffix(":443") in hosts
    ]
    texts += [
        f"{a.url}: its events are of no known kind"
        for a in traffic.answers
        if a.sent.text is None and truth is None
    ]
    texts += [p for p in dict.fromkeys(traffic.problems) if any(h in p for h in hosts)]
    if not traffic.answers:
        texts.append("no stream passed the proxy: the page's own server may fetch it (--listen)")
    return [entry("not-read", target=[], text=text) for text in texts]


def first_line(error: Exception) -> str:
    """Return the first line of an error of the browser, without the name of the call.

    >>> first_line(RuntimeError("Error: page.goto: refused\\nCall log: …"))
    'refused'
    """
    return re.sub(
        r"^(\w*Error: )?([Pp]age\.goto: |[Bb]rowser\w*\.\w+: )?",
        "",
        str(error).strip().splitlines()[0],
    )


def unfit(browser: str, version: str, playwright: str, error: Exception) -> CheckError:
    """Return the error for a browser that has started, and then not done what Playwright asked.

    >>> refused = RuntimeError("Error: Protocol error (emulation.set): unknown command\\nemulation.set")
    >>> print(unfit("firefox", "153.7", "1.65.0", refused))
    Firefox 153.7 is too old for Playwright 1.65.0, which needs its command emulation.set: install
    Playwright 1.64 (it drives Firefox 153 and newer), or a newer Firefox.
    """
    name, said = browser.capitalize(), first_line(error).rstrip(".")
    command = re.search(r"Protocol error \(([\w.]+)\): unknown command", said)
    oldest = f" (it drives {name} {OLDEST[browser]} and newer)" if browser in OLDEST else ""
    way = f"install Playwright {PLAYWRIGHT}{oldest}, or a newer {name}."
    if command:
        return CheckError(
            f"{name} {version} is too old for Playwright {playwright}, which needs its command {command[1]}: {way}"
        )
    return CheckError(
        f"Playwright {playwright} cannot drive {name} {version}: {said}. If one of them is older than the other, {way}"
    )


def settle(
    watch: GlyphWatch,
    page: Any,
    waiting: Sequence[tuple[Any, float]],
    quiet_ms: float,
    deadline: float,
    least_ms: float,
) -> Steps:
    """Wait until nothing changes and no request of the last 20 s is pending.

    Return False if the deadline passed.
    """
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        if not (yield from watch._settle(quiet_ms, left * 1000, least_ms)):
            return False
        if not [r for r, since in waiting if time.monotonic() - since < 20]:
            return True
        yield lambda: page.wait_for_timeout(100)
        least_ms = 0


def find_field(page: Any, seconds: float) -> Steps:
    """Wait for a field to type into: an application may start long after its page was loaded."""
    try:
        yield lambda: page.locator(FIELDS).last.wait_for(timeout=seconds * 1000 or 1)
    except Exception as error:
        if not is_browsers(error, "TimeoutError"):
            raise
        sentence = "The page has no field to type into; say with --script how it is asked, or leave --prompt and --text out."
        raise CheckError(sentence) from None


def put(field: Any, text: str) -> Steps:
    """Put a text into a field so that the page notices it.

    In Firefox, React notices keys, but not a value that is only set. An editor (`contenteditable`)
    gets its text as typed anyway, and may not have taken in one key when the next comes.
    """
    yield lambda: field.fill(text, timeout=10_000)
    if (yield lambda: field.evaluate("e => e.isContentEditable")):
        return
    for key in ("Space", "Backspace"):
        yield lambda key=key: field.press(key, timeout=10_000)  # type: ignore[misc]


def ask(page: Any, prompt: str) -> Steps:
    """Type into the page's field and send it; return how often the page shows the prompt then: 1."""
    field = page.locator(FIELDS).last
    yield lambda: field.click(timeout=10_000)
    yield from put(field, prompt)
    yield lambda: field.press("Enter")
    yield lambda: page.wait_for_timeout(400)
    left = yield lambda: field.evaluate("e => e.isConnected ? (e.value ?? e.textContent) : ''")
    if left.strip():  # Enter only began a new line
        buttons = page.locator(
            "button[type=submit]:visible, button[aria-label*=send i]:visible, button:visible:has-text('Send')"
        )
        if (yield buttons.count):
            yield lambda: buttons.last.click(timeout=10_000)
    return 1


def do(
    page: Any,
    watch: GlyphWatch,
    step: dict[str, Any],
    values: dict[str, str],
    args: argparse.Namespace,
) -> Steps:
    """Do one step of a script; return how often it put the true text on the page."""
    ((verb, what),) = step.items()

    def filled(text: Any) -> str:
        return str(text).replace("{text}", values["text"]).replace("{prompt}", values["prompt"])

    if verb == "goto":
        yield lambda: page.goto(filled(what), wait_until="domcontentloaded")
    elif verb == "click":
        yield page.locator(str(what)).last.click
    elif verb in ("fill", "type"):
        selector, text = (
            (what.get("into", FIELDS), filled(what.get("text", "")))
            if isinstance(what, dict)
            else (FIELDS, filled(what))
        )
        field = page.locator(selector).last
        if verb == "fill":
            yield from put(field, text)
        else:
            yield lambda: field.press_sequentially(text)
        return int(bool(values["text"]) and values["text"] in text)
    elif verb == "press":
        yield lambda: page.keyboard.press(str(what))
    elif verb == "wait_for":
        yield lambda: page.locator(str(what)).last.wait_for(timeout=args.timeout * 1000)
    elif verb == "wait":
        yield lambda: page.wait_for_timeout(float(what))
    else:
        yield from watch._settle(float(what or args.quiet), args.timeout * 1000, 0)
    return 0
