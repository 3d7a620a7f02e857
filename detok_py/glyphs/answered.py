"""Whether there was an answer to test, and if not, what there was instead.

In: the streams that passed the proxy and the requests that failed there; or the page's requests,
and its text before and after the prompt. Out: None, or what was seen and what to do.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from .traffic import status_failure
from .truth import letters

if TYPE_CHECKING:
    from .traffic import Answer, Traffic

ASK = (
    "Ask the page (--prompt TEXT, or --script FILE for its own steps), or wait longer (--quiet MS)"
)
WAYS = {
    "failed": "Mend what the page asks, or the address that it asks; then check again.",
    "empty": f"{ASK}.",
    "none": f"{ASK}. If the page's own server calls the engine, put the proxy before it: --upstream URL --listen PORT, or chaos.listen in Playwright Test.",
}
LEAVE_OUT = " To check a page that has no answer, ignore the rule no-answer."


class Missing(NamedTuple):
    """Why no answer was tested: what was seen, which of WAYS is the way out, and how many seconds
    the check waited. `was_asked` is false if nothing had asked for an answer.
    """

    seen: str
    way: str
    seconds: float = 0.0
    was_asked: bool = True

    @property
    def text(self) -> str:
        """What was seen, and for how long it was waited."""
        waited = f"; waited {self.seconds:.1f} s" if self.seconds else ""
        return self.seen + waited

    @property
    def hint(self) -> str:
        """What to do about it."""
        return WAYS[self.way] + (LEAVE_OUT if self.was_asked else "")


def by_proxy(
    traffic: "Traffic", answers: "Sequence[Answer]", seconds: float = 0.0
) -> Missing | None:
    """Return why no answer has passed the proxy, or None if one has.

    A stream whose events are of no known kind counts as an answer, and so does JSON of an unknown
    form: the proxy cut it, but cannot read it.
    """
    texts = [answer.sent.text for answer in answers]
    if any(text is None or text.strip() for text in texts):
        return None
    if traffic.failed:
        return Missing(traffic.failed[-1], "failed", seconds)
    if any(answer.bytes and answer.sent.is_document for answer in answers):
        return None
    if answers:
        what = "had no text" if any(answer.bytes for answer in answers) else "was empty"
        return Missing(f"the stream of {answers[-1].url} {what}", "empty", seconds)
    return Missing("no stream passed the proxy", "none", seconds)


def nothing_sent(traffic: "Traffic | None") -> str:
    """Return the sentence for a true text that is empty."""
    missing = traffic and by_proxy(traffic, traffic.answers)
    if missing:
        return f"There is no text to compare: {missing.text}.\n  {missing.hint}"
    return (
        "There is no text to compare: the true text is empty. If the proxy cannot read the events of your engine, "
        "`sent_text` is None; compare with a text of your own."
    )


class Requests:
    """The requests of a page: their hosts, which are not answered yet, and whether those that a
    script made have succeeded (`succeeded`) or failed (`failed`, sentences). `begun` counts those
    of scripts, and `ended` is when the last of them ended.
    """

    def __init__(
        self, page: Any, clock: Any, pending_seconds: float, traffic: "Traffic | None" = None
    ) -> None:
        self.hosts: set[str] = set()
        self.failed: list[str] = []
        self.succeeded: bool = False
        self.begun: int = 0
        self.ended: float | None = None
        self._clock = clock
        self._pending_seconds = pending_seconds
        self._traffic = traffic
        self._made: Counter[str] = Counter()
        self._waiting: list[tuple[Any, float]] = []
        self._heard: list[Any] = []
        page.on("request", self._began)
        page.on("websocket", self._opened)
        page.on("response", self._answered)
        page.on("requestfinished", self._ended)
        page.on("requestfailed", self._failed)

    def forget(self) -> None:
        """Forget what has succeeded or failed so far: the page is asked only now."""
        self.failed.clear()
        self.succeeded = False

    def _began(self, request: Any) -> None:
        if request.resource_type not in STATIC:
            self._note_host(request.url)
        if request.resource_type in ("fetch", "xhr"):
            self._made[request.url] += 1
            self._waiting.append((request, self._clock()))
        self.begun += request.resource_type in OF_SCRIPTS

    def _opened(self, socket: Any) -> None:
        self._note_host(socket.url)

    def _note_host(self, url: str) -> None:
        if host := urlsplit(url).netloc:  # `data:` and `blob:` have none
            self.hosts.add(host)

    def _answered(self, response: Any) -> None:
        if response.request.resource_type not in OF_SCRIPTS:
            return
        self._heard.append(response.request)
        if response.status >= 400:
            self.failed.append(status_failure(response.url, response.status))
        else:
            self.succeeded = True

    def _failed(self, request: Any) -> None:
        # A page may also stop reading an answer that has begun.
        if request.resource_type in OF_SCRIPTS and request not in self._heard:
            self.failed.append(f"{request.url.partition('?')[0]} gave no answer")
        self._ended(request)

    def _ended(self, request: Any) -> None:
        self._waiting[:] = [one for one in self._waiting if one[0] != request]
        if request.resource_type in OF_SCRIPTS:
            self.ended = self._clock()

    @property
    def pending(self) -> bool:
        """Whether a request of the last `pending_seconds` has no answer, or has not all of it.

        A page may stop reading before the end. What the proxy has sent in full is not waited for.
        """
        answers = self._traffic.answers if self._traffic else ()
        open_ = self._made - Counter(answer.url for answer in answers if answer.finished)
        now = self._clock()
        return any(
            now - since < self._pending_seconds and open_[request.url] > 0
            for request, since in self._waiting
        )


# Types of requests that never stream an answer, and of those that a script makes for one.
STATIC = ("stylesheet", "font", "image", "media", "manifest")
OF_SCRIPTS = ("fetch", "xhr", "eventsource")


def by_page(
    before: str, after: str, typed: Sequence[str], requests: Requests, seconds: float = 0.0
) -> Missing | None:
    """Return why the page has not shown an answer, or None if it may have.

    `before` and `after` are its text before it was asked and at the end. `typed` are the texts
    that were typed; the page may show each of them once.
    """
    if requests.failed and not requests.succeeded:
        return Missing(requests.failed[-1], "failed", seconds)
    # Only which characters there are is compared: the prompt may stand anywhere in the page.
    had, has = Counter(letters(before)), Counter(letters(after))
    if had - has or has - had - Counter(letters("".join(typed))):
        return None
    if typed:
        return Missing("the page showed nothing new but the prompt", "none", seconds)
    if requests.succeeded:
        return None  # it may have shown the answer before its text was first read
    return Missing("nothing was asked, and the page showed nothing new", "none", seconds, False)
