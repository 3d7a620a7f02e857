"""Watch a browser context for broken glyphs: the Python side of watcher.js.

In: a Playwright page or context, sync or async. Out: findings, and the verdict on them. Held: the
findings of every document that the context has shown, closed ones too.

The same code serves each of Playwright's APIs (calls.py). With the async API, every method returns
an awaitable.

watcher.js runs in every frame before any script of the page, and finds U+FFFD and lone surrogates,
which look the same. Out: `__detokGlyphs` for read.js, and each change of a finding through the
binding `__detokGlyphsPost`, if there is one. Mutation observers run after each task and each
animation callback, before the frame is painted. An animation callback after all others therefore
knows what the frame paints; `frames` counts the frames that showed a finding. `spots` has each
U+FFFD of a place with the 12 characters before it, to compare with the true text. `culprit` is the
line that decoded bytes into U+FFFD, as a hint at the cause. From 4,000 characters on, a text node
is watched by the methods that write, because a mutation record would keep a copy of the old text.
"""

import json
import re
import time
import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import DetokError
from . import report
from .answered import by_proxy, nothing_sent
from .calls import Steps, make, make_async, quietly, script
from .evidence import Options, Seen
from .markup import markers
from .pictures import add_pictures
from .rules import RULES, TEXT_RULES
from .shadow import open_closed_roots
from .truth import compare
from .verdict import verdict

if TYPE_CHECKING:
    from .traffic import Traffic

BINDING = "__detokGlyphsPost"


class WatchError(DetokError, RuntimeError):
    """The page cannot be watched or judged."""


class GlyphWarning(UserWarning):
    """A broken glyph was shown, with `--glyph-watch=warn`, or not every cut was tested."""


class GlyphWatch:
    """Every broken glyph that the pages of a context have shown, however briefly.

    Create it before the page is opened, so that it sees the first paint. `page_or_context` is of
    Playwright's sync or async API. With the async API (`is_async`), await `install()` first, then
    each method. `context` is the context; `mode` is "error", "warn" or "off"; `asked` says whether
    a method has judged the pages. `traffic` is the proxy before the page, if there is one.

    >>> watch = GlyphWatch(page)  # doctest: +SKIP
    >>> page.goto("http://127.0.0.1:3000")
    ... page.get_by_role("button").click()  # doctest: +SKIP
    >>> watch.settle()
    ... watch.expect_clean(within="[data-role=assistant]")  # doctest: +SKIP
    """

    def __init__(self, page_or_context: Any, *, mode: str = "error") -> None:
        self.context: Any = _context_of(page_or_context)
        self.is_async: bool = type(self.context).__module__.startswith("playwright.async_api")
        self.mode = mode
        self.asked: bool = False
        self._gone: dict[str, dict[str, Any]] = {}
        self._debuggers: list[tuple[Any, Any]] = []
        self._tails: list[tuple[float, str]] = []
        self._literal: list[str] = []
        self._unwatched: list[str] = []
        self._hidden: dict[str, str] = {}
        # The proxy before the page, if any; it knows when text arrived.
        self.traffic: Traffic | None = None
        self._installed = mode == "off"
        self._since = time.monotonic()
        if not self.is_async:
            self.install()

    @classmethod
    def of(cls, page_or_context: Any, *, mode: str = "error") -> "GlyphWatch":
        """Return the watch of this context; each context has one."""
        context = _context_of(page_or_context)
        watch: GlyphWatch | None = getattr(context, "_detok_glyph_watch", None)
        if watch is None:
            watch = context._detok_glyph_watch = cls(context, mode=mode)
        return watch

    # --- installing -------------------------------------------------------------------------------
    def _run(self, steps: Steps) -> Any:
        return make_async(steps) if self.is_async else make(steps)

    def install(self) -> Any:
        """Put the watcher into every open frame and every later one."""
        return self._run(self._install())

    def _install(self) -> Steps:
        if self._installed:
            return
        self._installed = True
        yield lambda: self.context.expose_binding(BINDING, self._received)
        for name in ("watcher.js", "reads.js"):
            yield partial(self.context.add_init_script, script(name))
            for _, frame in self._frames():
                yield from quietly(frame.evaluate, script(name))

    def _received(self, source: Any, message: str) -> str:
        data = json.loads(message)
        if "stream" in data:
            return self.traffic.read(data) if self.traffic else "{}"
        for finding in data["findings"]:
            finding["url"] = data["url"]
            self._gone[finding["id"]] = finding
        return ""

    def _pages(self) -> list[Any]:
        return [page for page in self.context.pages if not page.is_closed()]

    def _frames(self) -> list[tuple[Any, Any]]:
        return [(page, frame) for page in self._pages() for frame in page.frames]

    # --- waiting ----------------------------------------------------------------------------------
    def settle(self, quiet_ms: float = 800, timeout_ms: float = 30_000, least_ms: float = 0) -> Any:
        """Wait until no watched document has changed for `quiet_ms`. Return False after
        `timeout_ms`, else True.

        A document is not quiet while it loads, is `aria-busy`, or has an `<html data-state>` of
        loading or streaming. If nothing has changed since the page was loaded, `least_ms` is the
        shortest wait.
        """
        return self._run(self._settle(quiet_ms, timeout_ms, least_ms))

    def _settle(self, quiet_ms: float, timeout_ms: float, least_ms: float) -> Steps:
        pages = self._pages()
        if not pages:
            raise WatchError(
                "There is no open page to wait for; open one in the watched context first."
            )
        yield from self._open_closed_roots()
        waited, before, moved = 0.0, -1, False
        while True:
            states = yield from self._states()
            total = sum(state["mutations"] for state in states)
            moved = moved or (before >= 0 and total != before)
            before = total
            shown = {state["state"] for state in states}
            busy = not states or any(s["loading"] or s["busy"] for s in states)
            busy = busy or bool(shown & {"loading", "streaming"})
            quiet = min((s["quiet"] for s in states), default=timeout_ms)
            begun = moved or waited >= least_ms or shown & {"finished", "error"}
            if self.mode == "off" or (not busy and quiet >= quiet_ms and begun):
                yield from self._open_closed_roots()
                return True
            if waited >= timeout_ms:
                return False
            pause = 50 if busy else min(max(20.0, quiet_ms - quiet), 200)
            yield partial(pages[0].wait_for_timeout, pause)
            waited += pause

    def _states(self) -> Steps:
        """Return the state of each document that answers."""
        states = []
        for _, frame in self._frames():
            state = yield from quietly(frame.evaluate, script("state.js"))
            states += [state] if state else []
        return states

    def _open_closed_roots(self) -> Steps:
        yield from open_closed_roots(self.context, self._pages(), self._debuggers)

    # --- reading ----------------------------------------------------------------------------------
    def findings(self, include: str | None = None, exclude: str | None = None) -> Any:
        """Return every finding as a dict, oldest first.

        `outside` is true for those outside `include` or inside `exclude`.
        """
        self.asked = True
        return self._run(self._findings(include, exclude))

    def _findings(self, include: str | None, exclude: str | None) -> Steps:
        if self.mode == "off":
            return []
        yield from self._open_closed_roots()
        found: dict[str, dict[str, Any]] = {}
        tails: list[tuple[float, str]] = []
        self._unwatched = []
        frames = self._frames()
        matched, silent = not frames, True
        for page, frame in frames:
            data = yield from self._read(frame, include, exclude)
            # A page that is watched late says so itself; its frames cannot.
            is_inner = frame.parent_frame is not None
            if is_inner and not frame.is_detached() and (not data or data["late"]):
                self._unwatched.append(frame.url or "a frame without an address")
            if not data:
                continue
            matched, silent = matched or data["matched"], False
            tails += [(when, text) for when, text in data["tails"]]
            if self.traffic:
                for read in data["reads"]:
                    self.traffic.read(read)
            for finding in data["findings"]:
                where = {"url": data["url"], "frame": frame, "page": page, "more": data["more"]}
                found[finding["id"]] = {**finding, **where, "live": finding["gone"] is None}
        if not matched:
            raise WatchError(
                "The page does not answer: it has crashed, or is being replaced."
                if silent
                else f"No element of the page matches {include!r}: there is nothing to judge."
            )
        self._tails = sorted(tails, key=lambda one: one[0])
        # The other findings come from closed documents. They were shown, so they count.
        closed = {"outside": False, "live": False, "frame": None, "page": None, "more": 0}
        found = {name: {**one, **closed} for name, one in self._gone.items()} | found
        for finding in found.values():
            finding["text"], finding["at"] = _in_context(finding)
        return sorted(found.values(), key=lambda f: (f["url"], f["born"]))

    def _read(self, frame: Any, include: str | None, exclude: str | None) -> Steps:
        """Return the findings of a frame's watcher, or None if the frame does not answer."""
        # If the page forbids scripts, the watcher did not run either. The debugger runs it now,
        # which finds at least the current content.
        yield from quietly(frame.evaluate, script("watcher.js"))
        answer = yield from quietly(frame.evaluate, script("read.js"), [include, exclude])
        if not answer:
            return None
        data = json.loads(answer)
        if "wrong" in data:
            raise WatchError(f"{data['wrong']!r} is not a CSS selector.")
        if data["findings"] and include and frame.parent_frame is not None:
            # A finding of an inner frame is inside `include` if the frame is, or if its own
            # elements match.
            if not (yield from self._outside(frame, include, exclude)):
                for finding in data["findings"]:
                    finding["outside"] = False
        return data

    def clear(self) -> None:
        """Forget the findings of closed documents, so that later verdicts leave them out."""
        self._gone.clear()

    def _outside(self, frame: Any, include: str, exclude: str | None) -> Steps:
        element = yield from quietly(frame.frame_element)
        if element is None:
            return False
        test = "(e, [i, x]) => (!!i && !e.closest(i)) || (!!x && !!e.closest(x))"
        return (yield from quietly(element.evaluate, test, [include, exclude]))

    def text(self, within: str | None = None) -> Any:
        """Return the text of all frames as a reader sees it, one line a block.

        Shadow roots and input values are included.
        """

        def steps() -> Steps:
            return re.sub("[\ufff9\ufffb]", "", (yield from self._text(within)))

        return self._run(steps())

    def _text(self, within: str | None) -> Steps:
        """Return the text, and keep what is hidden in `_hidden`, by the reason why."""
        parts = []
        self._hidden = {}
        yield from self._open_closed_roots()
        for _, frame in self._frames():
            answer = yield from quietly(frame.evaluate, script("text.js"), within)
            if answer:
                data = json.loads(answer)
                parts.append(data["text"])
                for why, text in data["hidden"].items():
                    self._hidden[why] = self._hidden.get(why, "") + text
        return "\n".join(parts)

    # --- the verdict ------------------------------------------------------------------------------
    def result(
        self,
        within: str | None = None,
        *,
        exclude: str | None = None,
        ignore: Iterable[str] = (),
        truth: str | None = None,
        allow_literal: bool | str = False,
        screenshots: bool = False,
        tofu: bool = True,
        sent: Sequence[str] | None = None,
        times: int = 1,
        max_late: float | None = None,
        markdown: bool = False,
    ) -> Any:
        """Return the verdict in axe's format: `{"violations": […], "incomplete": […], "passes":
        […], …}`.

        `truth` is what the model sent. With it, dropped, doubled, reordered and Latin-1 characters
        are found, and a U+FFFD that it has at the same place passes. `allow_literal` is a text for
        that last purpose only, or True to let every U+FFFD pass that stays to the end. `sent` are
        the engine's answers as a proxy read them; without `truth`, each is compared. `times` is how
        often the page must show the text. `ignore` names rules (verdict.RULES). `screenshots` adds
        a PNG in base64 to each finding. If `traffic` is set, `sent` are its answers, text that was
        held back for a second is incomplete, and for more than `max_late` milliseconds a violation.
        With `markdown`, so is Markdown syntax that was shown and then rendered.
        """
        self.asked = True
        options = Options(
            within,
            exclude,
            tuple(ignore),
            truth,
            allow_literal,
            screenshots,
            tofu,
            times=times,
            markdown=markdown,
        )
        return self._run(self._result(self._by_proxy(options, max_late, sent)))

    def _by_proxy(
        self, options: Options, max_late: float | None, sent: Sequence[str] | None = None
    ) -> Options:
        """Return the options, completed with the proxy's answers and times."""
        unknown = set(options.ignore) - set(RULES)
        if unknown:
            raise WatchError(f"There is no rule {min(unknown)!r}; there are {', '.join(RULES)}.")
        traffic = None if self.mode == "off" else self.traffic
        answers = list(traffic.answers) if traffic else []
        if traffic and traffic.problems and not answers:
            raise WatchError(f"Nothing could be watched: {traffic.problems[0]}")
        if max_late is not None and not answers and self.mode != "off":
            raise WatchError(
                "Only a proxy knows when text arrived, and no stream passed one; open the page by chaos.url(…), or leave max_late out."
            )
        if sent is None:
            sent = [answer.sent.text for answer in answers if answer.sent.text]
        return options._replace(
            answers=answers, max_late=max_late, sent=sent, literal=tuple(self._literal)
        )

    def _result(self, options: Options) -> Steps:
        findings = yield from self._findings(options.within, options.exclude)
        shown = yield from self._text(options.within)
        missing = (yield from self._ask_frames("tofu.js")) if options.tofu else []
        if options.screenshots:
            inside = [finding for finding in findings if not finding["outside"]]
            yield from add_pictures(self.context.browser, inside)
        places = [markers(), options.within, options.exclude]
        found = yield from self._ask_frames("faults.js", places)
        markup = [one for one in found if "marker" in one]
        split = [one for one in found if "whole" in one]
        url = next((page.url for page in self._pages()), "")
        tails, hidden, late = self._tails, self._hidden, self._unwatched
        seen = Seen(findings, url, shown, missing, tails, markup, late, hidden, split)
        return verdict(seen, options)

    def _ask_frames(self, name: str, *given: Any) -> Steps:
        """Return what a script of this folder finds in each frame."""
        out = []
        for _, frame in self._frames():
            found = yield from quietly(frame.evaluate, script(name), *given)
            out += [{**one, "url": frame.url} for one in found or []]
        return out

    def expect_clean(
        self,
        within: str | None = None,
        *,
        exclude: str | None = None,
        ignore: Iterable[str] = (),
        allow_literal: bool | str = False,
        strict: bool = False,
        max_late: float | None = None,
        markdown: bool = False,
    ) -> Any:
        """Raise AssertionError if a broken glyph was shown, with each fault and its likely cause.
        Return the verdict.

        A broken glyph that was never painted is only listed as incomplete; `strict` fails on it
        too. With the fixture `chaos`, text that was sent and is not shown is a fault; with
        `max_late`, so is text that was shown more milliseconds after it arrived; with `markdown`,
        so is Markdown syntax that was shown before it was rendered. If the page was to pass
        `chaos`, and no answer did, that is a fault too. Warns (GlyphWarning) if the
        page did not see every cut of `chaos`.
        """

        def steps() -> Steps:
            result = yield from self._clean(options, strict, max_late)
            if result["violations"]:
                self._fail(report.sentence(result))
            elif self.mode != "off" and (doubt := report.doubt(result)):
                warnings.warn(GlyphWarning(doubt), stacklevel=2)
            return result

        options = Options(within, exclude, tuple(ignore), None, allow_literal, tofu=False)
        options = options._replace(markdown=markdown)
        return self._run(steps())

    def _clean(self, options: Options, strict: bool, max_late: float | None) -> Steps:
        """Return the verdict of `expect_clean`. If the page lacks text that the proxy has sent,
        wait for it first, because it may still come.
        """
        self.asked = True
        result = yield from self._result(self._answered(options, max_late))
        found = {one["id"] for one in result["violations"]}
        if self._pages() and found & {"no-answer", *TEXT_RULES.values()}:
            yield from self._settle(800, 30_000, 3000 if "no-answer" in found else 0)
            result = yield from self._result(self._answered(options, max_late))
        if strict:
            unpainted = [one for one in result["incomplete"] if one["id"] == "ufffd-unpainted"]
            result["violations"] += unpainted
        return result

    def _answered(self, options: Options, max_late: float | None) -> Options:
        """Return the options, completed by the proxy, which also knows if there was no answer."""
        options = self._by_proxy(options, max_late)
        if self.mode == "off" or not (self.traffic and self.traffic.used):
            return options
        waited = time.monotonic() - self._since
        return options._replace(missing=by_proxy(self.traffic, options.answers, waited))

    def clean_result(
        self, within: str | None, strict: bool, max_late: float | None, **more: Any
    ) -> Any:
        """Return the verdict of `expect_clean`; for web/kit/."""
        options = Options(within, **more, tofu=False)
        return self._run(self._clean(options, strict, max_late))

    def expect_text(self, true_text: str | None, *, within: str | None = None) -> Any:
        """Raise AssertionError unless the page shows `true_text`.

        The message says what was dropped, doubled, reordered or read as Latin-1. Also raises if
        there is no text: `chaos.sent_text` is None if no answer passed. From then on, a U+FFFD at
        the same place is the model's own for `expect_clean`.
        """
        self.asked = True

        def steps() -> Steps:
            if not true_text:
                return None if self.mode == "off" else self._fail(nothing_sent(self.traffic))
            shown = yield from self._text(within)
            faults = compare(true_text, shown)
            if faults and self.mode != "off":
                self._fail(report.difference(faults))
            elif "\ufffd" in true_text:
                self._literal.append(true_text)  # what the model has really sent

        return self._run(steps())

    def _fail(self, sentence: str) -> None:
        if self.mode == "warn":
            warnings.warn(GlyphWarning(sentence), stacklevel=2)
            return
        raise AssertionError(sentence)


def _context_of(page_or_context: Any) -> Any:
    return page_or_context.context if hasattr(page_or_context, "goto") else page_or_context


def _in_context(finding: dict[str, Any]) -> tuple[str, int]:
    """Return the text of a finding and where it is broken.

    The text before its node is included, because a page may have a node for each token.
    """
    text, at = finding["text"], finding["at"]
    spot = max(
        [one for one in finding["spots"] if one.endswith(text[: at + 1])], key=len, default=""
    )
    return (spot + text[at + 1 :], len(spot) - 1) if spot else (text, at)


def expect_no_replacement(
    page: Any,
    include: str | None = None,
    exclude: str | None = None,
    allow_literal: bool | str = False,
) -> Any:
    """Fail if the page shows U+FFFD or a lone surrogate, or has shown one since it was watched.

    `include` and `exclude` are CSS selectors. `allow_literal` is the true text, or True to let a
    U+FFFD pass that stays, because a model may send one. Without the fixture `glyph_watch`, the
    watch begins now. With Playwright's async API, await the result.

    >>> expect_no_replacement(page, include="main", exclude="pre.raw")  # doctest: +SKIP
    """
    watch = GlyphWatch.of(page)
    expect = partial(watch.expect_clean, include, exclude=exclude, allow_literal=allow_literal)
    if not watch.is_async:
        return expect()

    async def both() -> Any:
        await watch.install()
        return await expect()

    return both()
