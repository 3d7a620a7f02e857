"""Drive a chat page as `detok check` does, and judge it: the same steps for every API of
Playwright.

In: a watched page, the options of the command line, the true text if it is known, and the proxy if
there is one. Out: the verdict. Code that calls the browser is a generator (calls.py).
"""

import argparse
import json
import re
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from . import report
from .answered import Missing, Requests, by_page, by_proxy
from .calls import Steps, is_playwrights, script
from .evidence import Options
from .options import CheckError
from .traffic import origin_of
from .truth import letters
from .verdict import entry
from .watch import GlyphWatch

if TYPE_CHECKING:
    from .traffic import Traffic

# The variable that names the program of a browser, and its names on the PATH.
PROGRAMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "chromium": (
        "DETOK_CHROMIUM",
        ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome"),
    ),
    "firefox": ("DETOK_FIREFOX", ("firefox-esr", "firefox")),
    "webkit": ("DETOK_WEBKIT", ()),
}
# The Playwright that the tests pin, and the oldest browsers that it drives (tools/browsers.py says
# how that is known).
PLAYWRIGHT = "1.64"
OLDEST = {"chromium": 150, "firefox": 153}
# The fields that people type into. The last visible one is used: a chat's field comes after its
# search.
FIELDS = (
    "textarea:visible, [contenteditable=true]:visible, [contenteditable='']:visible, "
    "[contenteditable='plaintext-only']:visible, input[type=text]:visible, input:not([type]):visible"
)
PENDING_SECONDS = 20  # the check does not wait for a request that takes longer
TIMER_SECONDS = 6.0  # how long in all it waits for timers of a quiet page (timers.js)


class Check(NamedTuple):
    """What is checked: the options, the address, the true text, the steps of a script instead of
    the prompt, and the proxy.
    """

    args: argparse.Namespace
    url: str
    truth: str | None = None
    steps: list[dict[str, Any]] | None = None
    traffic: "Traffic | None" = None

    @property
    def prompt(self) -> str | None:
        """What is typed into the page's field."""
        if self.args.prompt is not None:
            return str(self.args.prompt)
        return self.truth if self.steps is None else None

    @property
    def asks(self) -> bool:
        """Whether a prompt is sent, or a script does more than wait."""
        if self.steps is None:
            return self.prompt is not None
        return any(verb in ("click", "fill", "type", "press") for one in self.steps for verb in one)

    @property
    def typed(self) -> list[str]:
        """The texts that are typed into the page. Not empty if it is asked in any way."""
        if not self.asks or self.steps is None:
            return [self.prompt or ""] if self.asks else []
        texts = []
        for step in self.steps:
            ((verb, what),) = step.items()
            if verb in ("fill", "type"):
                texts.append(str(what.get("text", "") if isinstance(what, dict) else what))
        return [one.replace("{prompt}", self.prompt or "") for one in texts] or [""]


def exit_code(result: dict[str, Any]) -> int:
    """Return the exit code for a verdict: 0 if it is clean, 1 for faults, 2 if no answer was
    tested.
    """
    found = {one["id"] for one in result["violations"]}
    return 2 if found == {"no-answer"} else int(bool(found))


def summary(result: dict[str, Any]) -> str:
    """Return the verdict as text for a terminal."""
    where = f" on {result['url']}"
    lines = [f"{report.clean(result, where)}.\n{report.scope(result)}"]
    if result["violations"]:
        lines = [report.sentence(result)]
    lines += [
        f"  to be judged: {e['id']}: {e['description']}{report.how_late(e)}: {report.visible(str(e.get('text', '')))!r}"
        for e in result["incomplete"][:20]
        if e["id"] != "not-asked"  # the sentence above says so
    ]
    return "\n".join(lines)


def launch_options(
    args: argparse.Namespace,
    proxy: str | None,
    own: bool,
    variable: Callable[[str], str | None],
    which: Callable[[str], str | None],
) -> dict[str, Any]:
    """Return the options with which Playwright launches the browser of `args`.

    That is the one that DETOK_CHROMIUM (…) names, else Playwright's own if it is installed (`own`),
    else one on the PATH.
    """
    name, programs = PROGRAMS[args.browser]
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


def drive(watch: GlyphWatch, page: Any, check: Check) -> Steps:
    """Open the address, do the steps, wait until the page is quiet, and return the verdict."""
    if "://" not in check.url:
        check = check._replace(url="http://" + check.url)
    require_proxy(check)
    watch.traffic = check.traffic
    requests = Requests(page, time.monotonic, PENDING_SECONDS, check.traffic)
    yield partial(watch.context.add_init_script, script("timers.js"))
    deadline = time.monotonic() + check.args.timeout
    yield from _open(page, check)
    before, asked = "", time.monotonic()
    try:
        yield from _ready(watch, page, check)
        before, asked = (yield from watch._text(None)), time.monotonic()
        if check.asks:
            requests.forget()
        typed = yield from _ask(watch, page, check)
        settled = yield from settle(watch, page, requests, check.args.quiet, deadline)
    except Exception as error:
        if not is_playwrights(error):
            raise
        raise CheckError(f"{check.url} could not be driven: {first_line(error)}") from None
    watched = _watched_ms(requests, check.traffic)
    traffic = check.traffic
    if traffic and not traffic.answers:
        for problem in traffic.problems:
            if any(host in problem for host in requests.hosts) or check.args.upstream:
                raise CheckError(problem)
    options = judging(check, typed)._replace(before="\n".join([before, *check.typed]))
    after = yield from watch._text(None)
    missing = missing_answer(check, options, before, after, requests, time.monotonic() - asked)
    result: dict[str, Any] = yield from watch._result(options._replace(missing=missing))
    if watched is not None:
        result["watched_ms"] = watched
    return complete(result, check, requests.hosts, settled)


def _watched_ms(requests: Requests, traffic: "Traffic | None") -> int | None:
    """Return for how many milliseconds the page was watched after its last answer had ended."""
    since = [] if requests.ended is None else [time.monotonic() - requests.ended]
    for answer in traffic.answers if traffic else ():
        since += [time.time() - when / 1000 for when, _ in answer.sent.arrived[-1:]]
    return round(min(since) * 1000) if since else None


def require_proxy(check: Check) -> None:
    """Raise CheckError if what is asked for needs a proxy, and there is none."""
    if check.args.max_late is not None and check.traffic is None:
        raise CheckError(
            "--max-late needs the proxy, which knows when text arrived; add --split none."
        )


def complete(
    result: dict[str, Any], check: Check, hosts: set[str], settled: bool
) -> dict[str, Any]:
    """Add to the verdict what only the check knows: its address, and what could not be judged."""
    result["url"] = check.url
    ignored = check.args.ignore
    result["incomplete"] += [e for e in _unread(check, hosts) if e["id"] not in ignored]
    if not settled and "not-settled" not in ignored:
        text = f"after {check.args.timeout:g} s"
        result["incomplete"].append(entry("not-settled", target=[], text=text))
    if check.truth is not None:
        result["given"] = True
    if check.traffic:
        result["streams"] = [
            {"url": a.url, "bytes": a.bytes, "pieces": a.pieces, "finished": a.finished}
            for a in check.traffic.answers
        ]
    return result


def _open(page: Any, check: Check) -> Steps:
    """Open the address. Raises CheckError if there is no page."""
    url, timeout = check.url, check.args.timeout * 1000 or 1
    try:
        answer = yield partial(page.goto, url, wait_until="domcontentloaded", timeout=timeout)
    except Exception as error:
        if not is_playwrights(error):
            raise
        raise CheckError(f"{url} cannot be opened: {first_line(error)}") from None
    if answer is not None and answer.status >= 400:
        raise CheckError(
            f"{url} answers {answer.status} {answer.status_text}: there is no page to check."
        )


def missing_answer(
    check: Check, options: Options, before: str, after: str, requests: Requests, seconds: float
) -> Missing | None:
    """Return why there was no answer to test; None if there was one, or if its text is known."""
    if options.truth is not None:
        return None  # the page has to show that text
    if check.traffic:
        return by_proxy(check.traffic, options.answers, seconds)
    return by_page(before, after, check.typed, requests, seconds)


def _ready(watch: GlyphWatch, page: Any, check: Check) -> Steps:
    """Wait until the page can be asked, if a prompt is to be typed."""
    if check.steps is None and check.prompt is not None:
        yield from find_field(page, check.args.timeout)
        yield from watch._settle(min(check.args.quiet, 300), 15_000, 0)


def _ask(watch: GlyphWatch, page: Any, check: Check) -> Steps:
    """Do the steps of the script, or send the prompt; return how often the true text was typed."""
    if check.steps is None:
        if check.prompt is None:
            return 0
        return (yield from ask(page, check.prompt))
    typed = 0
    for number, step in enumerate(check.steps, 1):
        try:
            typed += yield from do(watch, page, check, step)
        except Exception as error:
            if not is_playwrights(error):
                raise
            raise CheckError(
                f"{check.url}: step {number}, {json.dumps(step)}, failed: {first_line(error)}"
            ) from None
    return typed


def judging(check: Check, typed: int) -> Options:
    """Return the options for judging what was shown."""
    args, truth = check.args, check.truth
    answers = check.traffic.answers if check.traffic else []
    if args.upstream:
        # The page's own server may have changed the engine's answer, so compare with the engine's.
        origin = origin_of(args.upstream) + "/"
        answers = [a for a in answers if a.url.startswith(origin)] or answers
    echoed = truth and letters(truth) in letters(check.prompt or truth)
    return Options(
        args.within,
        args.exclude,
        tuple(args.ignore),
        truth,
        args.allow_literal,
        screenshots=bool(args.html or args.json),
        sent=[a.sent.text for a in answers if a.sent.text],
        times=1 + (typed if echoed else 0),
        answers=answers,
        max_late=args.max_late,
        markdown=args.markdown,
    )


def _unread(check: Check, hosts: set[str]) -> list[dict[str, Any]]:
    """Return an entry for each stream that the proxy could not read."""
    traffic = check.traffic
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
        if a.sent.text is None and check.truth is None
    ]
    texts += [p for p in dict.fromkeys(traffic.problems) if any(h in p for h in hosts)]
    if not traffic.answers and check.truth is not None:
        texts.append("no stream passed the proxy: the page's own server may fetch it (--listen)")
    return [entry("not-read", target=[], text=text) for text in texts]


def first_line(error: Exception) -> str:
    """Return the first line of a browser's error, without the name of the call.

    >>> first_line(RuntimeError("Error: page.goto: refused\\nCall log: …"))
    'refused'
    """
    return re.sub(
        r"^(\w*Error: )?([Pp]age\.goto: |[Bb]rowser\w*\.\w+: )?",
        "",
        str(error).strip().splitlines()[0],
    )


def unfit(browser: str, version: str, playwright: str, error: Exception) -> CheckError:
    """Return the error for a browser that started, but failed at a command of Playwright.

    >>> refused = RuntimeError(
    ...     "Error: Protocol error (emulation.set): unknown command\\nemulation.set"
    ... )
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
    watch: GlyphWatch, page: Any, requests: Requests, quiet_ms: float, deadline: float
) -> Steps:
    """Wait until nothing changes, no request is pending, and no timer is due that may change
    something. Return False if the deadline passed.

    After a timer that has changed nothing, later ones are not waited for: a page may set one again
    and again.
    """
    least_ms, patience, before = 3000.0, TIMER_SECONDS, (-1, -1)
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not (yield from watch._settle(quiet_ms, left * 1000, least_ms)):
            return False
        least_ms, pause = 0, 0.1
        if not requests.pending:
            states = yield from watch._states()
            now = (sum(state["mutations"] for state in states), requests.begun)
            pause = min(max((s["due"] for s in states), default=0) / 1000 + 0.05, patience, left)
            if now == before or pause <= 0.05:
                return True
            before, patience = now, patience - pause
        yield partial(page.wait_for_timeout, pause * 1000)


def find_field(page: Any, seconds: float) -> Steps:
    """Wait for a field to type into: an application may start long after its page was loaded."""
    try:
        yield lambda: page.locator(FIELDS).last.wait_for(timeout=seconds * 1000 or 1)
    except Exception as error:
        if not is_playwrights(error, "TimeoutError"):
            raise
        sentence = "The page has no field to type into; describe with --script how to ask it, or omit --prompt and --text."
        raise CheckError(sentence) from None


def put(field: Any, text: str) -> Steps:
    """Put a text into a field so that the page notices it.

    In Firefox, React notices keys, but not a value that is set. For an editor (`contenteditable`),
    Playwright's `fill` counts as typing anyway, and keys could come faster than it takes them.
    """
    yield lambda: field.fill(text, timeout=10_000)
    if (yield lambda: field.evaluate("e => e.isContentEditable")):
        return
    for key in ("Space", "Backspace"):
        yield lambda key=key: field.press(key, timeout=10_000)  # type: ignore[misc]


def ask(page: Any, prompt: str) -> Steps:
    """Send a prompt by the page's field; return how often the page then shows it: 1."""
    field = page.locator(FIELDS).last
    try:
        yield lambda: field.click(timeout=10_000)
        yield from put(field, prompt)
    except Exception as error:
        if not is_playwrights(error):
            raise
        tag = yield lambda: field.evaluate("e => e.cloneNode().outerHTML.slice(0, 200)")
        raise CheckError(
            f"The prompt cannot be typed into {tag}, the last field of the page: {first_line(error)} "
            "Describe with --script how to ask the page."
        ) from None
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


def do(watch: GlyphWatch, page: Any, check: Check, step: dict[str, Any]) -> Steps:
    """Do one step of a script; return how often it put the true text on the page."""
    ((verb, what),) = step.items()
    truth, args = check.truth or "", check.args

    def filled(text: Any) -> str:
        return str(text).replace("{text}", truth).replace("{prompt}", check.prompt or "")

    if verb in ("fill", "type"):
        fields = what if isinstance(what, dict) else {"text": what}
        field, text = page.locator(fields.get("into", FIELDS)).last, filled(fields.get("text", ""))
        if verb == "fill":
            yield from put(field, text)
        else:
            yield lambda: field.press_sequentially(text)
        return int(bool(truth) and truth in text)
    if verb == "settle":
        yield from watch._settle(float(what or args.quiet), args.timeout * 1000, 0)
        return 0
    target = page.locator(str(what)).last
    calls: dict[str, Callable[[], Any]] = {
        "goto": lambda: page.goto(filled(what), wait_until="domcontentloaded"),
        "click": target.click,
        "press": lambda: page.keyboard.press(str(what)),
        "wait_for": lambda: target.wait_for(timeout=args.timeout * 1000),
        "wait": lambda: page.wait_for_timeout(float(what)),
    }
    yield calls[verb]
    return 0
