"""What a verdict is reached from: what to judge and what was sent, and what the page showed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .truth import letters

if TYPE_CHECKING:
    from .answered import Missing
    from .traffic import Answer


class Options(NamedTuple):
    """What to judge, and how: the arguments of `GlyphWatch.result`.

    `sent` are the engine's answers as a proxy read them; without `truth` they are the true text.
    `answers` are those streams, with the times when their text arrived. Text that was shown more
    than `max_late` milliseconds after it arrived is a violation. `literal` has texts whose U+FFFD
    the model has sent itself. `markdown` asks for that rule, `missing` explains `no-answer`, and
    `before` is the page's text before it was asked.
    """

    within: str | None = None
    exclude: str | None = None
    ignore: Iterable[str] = ()
    truth: str | None = None
    allow_literal: bool | str = False
    screenshots: bool = False
    tofu: bool = True
    sent: Sequence[str] = ()
    times: int = 1
    answers: Sequence["Answer"] = ()
    max_late: float | None = None
    literal: Sequence[str] = ()
    markdown: bool = False
    missing: "Missing | None" = None
    before: str | None = None

    @property
    def compared(self) -> list[str]:
        """The texts that the page must show."""
        if self.truth is not None:
            return [self.truth]
        return [one for one in self.sent if letters(one)]

    def asked(self, one: str) -> list[str]:
        """Return the lines of text in the request of an answer."""
        return [line for a in self.answers if a.sent.text == one for line in a.asked]

    def own(self, one: str) -> list[str]:
        """Return the lines that a page may show beside an answer: those before, and its request."""
        return [*(self.before or "").splitlines(), *self.asked(one)]

    @property
    def genuine(self) -> list[str]:
        """Texts whose U+FFFD the model has sent itself."""
        if self.truth is not None:
            return [self.truth]
        literal = self.allow_literal
        return [*self.sent, *self.literal, *([literal] if isinstance(literal, str) else [])]

    @property
    def halves(self) -> bool:
        """Whether an engine sent the halves of a pair apart."""
        return any(answer.sent.halves for answer in self.answers)

    @property
    def odd(self) -> str:
        """A pattern of characters that an engine must not send. Without the true text, U+FFFD is
        allowed, because the model may have sent it itself.
        """
        unknown = self.truth is None or "\ufffd" in self.truth
        return "[\ud800-\udfff]" if unknown else "[\ufffd\ud800-\udfff]"


class Seen(NamedTuple):
    """What the page showed: findings of the watcher, its text, characters without a glyph (`tofu`),
    the last characters of each changed text with the time (`tails`), markers of chat formats
    (`markup`), the addresses of frames in which the watcher did not run in time (`unwatched`),
    the text that no reader can see, by the reason why (`hidden`), and characters that are drawn in
    parts (`split`).
    """

    findings: Sequence[dict[str, Any]]
    url: str
    text: str = ""
    tofu: Sequence[dict[str, Any]] = ()
    tails: Sequence[tuple[float, str]] = ()
    markup: Sequence[dict[str, Any]] = ()
    unwatched: Sequence[str] = ()
    hidden: Mapping[str, str] = {}
    split: Sequence[dict[str, Any]] = ()
