"""A format for one vocabulary: its markers as symbols, and which of them are markup where.

A marker that the vocabulary has as one token is one symbol; spelled as text it is only text. A
marker that the vocabulary lacks is a symbol too, which the reader recognises by its letters.
"""

from typing import Any, Callable, NamedTuple

from .table import FORMATS, INNER, Call, Format, Tags
from .values import FIRST_MARK, has_mark, is_mark

CONTENT, REASONING, TOOL_CALL = "content", "reasoning", "tool_call"

# The markers that are markup in one state of the text: what each does, by its symbols; all their
# beginnings, with up to two newlines before them; and their first symbols.
Markers = NamedTuple(
    "Markers",
    [
        ("does", "dict[str, tuple[str, int]]"),
        ("begun", "frozenset[str]"),
        ("first", "frozenset[str]"),
    ],
)


def marker_spellings() -> set[str]:
    """Return the spellings of the markers of all formats that may be one token.

    >>> sorted(marker_spellings())[:2]
    ['</TOOLCALL>', '</answer>']
    """
    words: list[str] = []
    for spec in FORMATS.values():
        words += [text for pair in spec.thinks + spec.wraps + spec.blocks for text in pair]
        words += list(spec.silent) + ["⟦" + text + "⟧" for text in spec.ends]
        for each in spec.calls:
            words += [each.opener, each.close] if not each.bare else [each.close]
            words += ["⟦" + text + "⟧" for text in INNER.get(each.body, ())]
            words += list(each.tags[:5]) if each.tags else []
    spellings = set()
    for word in words:
        parts = word.replace("⟧", "⟦").split("⟦")
        if len(parts) > 1:
            spellings.update(parts[1::2])
        elif len(word) > 2 and word[0] in "<[":
            spellings.add(word)
    return spellings


MOST_OF_TOKEN = 64  # characters of a token within a tag
LIMITS = ("<|start|>", "<|channel|>", "<|end|>", "<|return|>", "<|call|>")


class Form:
    """The format `name`. `is_token` says whether a spelling is one token; if it is None, the table
    says so.

    >>> form = Form("qwen3_hermes")
    >>> form.spelled(form.symbols("a⟦<think>⟧"))
    'a<think>'
    """

    def __init__(
        self,
        name: str,
        is_token: Callable[[str], bool] | None = None,
        spec: Format | None = None,
    ) -> None:
        self.name = name
        spec = FORMATS[name] if spec is None else spec
        self.spec: Format = spec
        self.is_token = is_token
        self.spellings: list[str] = []
        self.texts: dict[str, str] = {}  # the symbols of markers that are text, by their spellings
        marker = self.marker
        self.calls: list[Call] = [
            Call(
                each.opener if each.bare and "⟦" not in each.opener else marker(each.opener),
                each.body,
                marker(each.close),
                each.item,
                each.least,
                self._tags(each.tags),
                each.bare,
                each.where,
            )
            for each in spec.calls
        ]
        self.thinks: list[tuple[str, str]] = [(marker(a), marker(b)) for a, b in spec.thinks]
        self.wraps: list[tuple[str, str]] = [(marker(a), marker(b)) for a, b in spec.wraps]
        self.blocks: list[tuple[str, str]] = [(marker(a), marker(b)) for a, b in spec.blocks]
        self.silent: list[str] = [marker(each) for each in spec.silent]
        self.inner: dict[str, str] = {}
        for each in spec.calls:
            for spelling in INNER.get(each.body, ()):
                self.inner[spelling] = self.mark(spelling)
        # The words that are searched for, split at markers that are tokens.
        self.words: tuple[str, ...] = self._words()
        # What markers that are text begin with.
        self.begins: str = "".join(sorted({spelling[0] for spelling in self.texts}))
        # Symbols that end a value wherever they stand in it: those that end a message.
        marks = LIMITS if spec.tree == "harmony" else ()
        self.limits: str = "".join([self.mark(each) for each in marks])
        self._markers: dict[Any, Markers] = {}

    def _tags(self, tags: Tags | None) -> Tags | None:
        if tags is None:
            return None
        texts = [self.symbols(each) for each in tags[:5]]
        again = tuple([self.symbols(each) for each in tags.again])
        return Tags(
            texts[0], texts[1], texts[2], texts[3], texts[4], again, tags.newline, tags.python
        )

    def symbols(self, notation: str) -> str:
        """Return text as symbols, in which `⟦x⟧` is the marker x."""
        out = ""
        for n, part in enumerate(notation.replace("⟧", "⟦").split("⟦")):
            out += part if n % 2 == 0 else self.mark(part)
        return out

    def marker(self, notation: str) -> str:
        """Return a marker as symbols; one that the table has as text may be a token here. A format
        that the table does not have may have several tokens in one tag.
        """
        if "⟦" in notation or self.is_token is None:
            return self.symbols(notation)
        if notation[:1] in ("<", "[") and len(notation) > 2 and self.is_token(notation):
            return self.mark(notation)
        if self.spec is FORMATS.get(self.name):
            return self.symbols(notation)
        out, at = "", 0
        while at < len(notation):
            end = min(len(notation), at + MOST_OF_TOKEN) if notation[at] in "<[" else at
            while end > at + 2 and not self.is_token(notation[at:end]):
                end -= 1
            is_token = end > at + 2
            out += self.mark(notation[at:end]) if is_token else notation[at]
            at = end if is_token else at + 1
        return out

    def mark(self, spelling: str) -> str:
        """Return the symbol of a marker."""
        if spelling not in self.spellings:
            self.spellings.append(spelling)
            if self.is_token is not None and not self.is_token(spelling):
                self.texts[spelling] = chr(FIRST_MARK + len(self.spellings) - 1)
        return chr(FIRST_MARK + self.spellings.index(spelling))

    def spelled(self, text: str) -> str:
        """Return symbols as text."""
        # A long call that waits is spelled at each token, so no loop over its characters.
        for n, spelling in enumerate(self.spellings):
            text = text.replace(chr(FIRST_MARK + n), spelling)
        return text

    def _words(self) -> tuple[str, ...]:
        words = [word for pair in self.thinks + self.wraps + self.blocks for word in pair]
        for each in self.calls:
            words += [each.opener, each.close]
            words += list(each.tags[:5]) if each.tags else []
        spelled = [self._spelled_texts(word) for word in words + list(self.texts)]
        between = chr(FIRST_MARK)
        parts = "".join([between if is_mark(c) else c for c in between.join(spelled)])
        return tuple(sorted(set(parts.split(between))))

    def has_token(self, text: str) -> bool:
        """Say whether symbols have a marker that is one token."""
        return has_mark(text) and any(is_mark(c) for c in self._spelled_texts(text))

    def without_tokens(self, text: str) -> str:
        """Return text without the tokens that mean nothing where they stand, and with the spellings
        of markers that are text.
        """
        if not has_mark(text):
            return text
        return "".join([c for c in self._spelled_texts(text) if not is_mark(c)])

    def _spelled_texts(self, text: str) -> str:
        for spelling, symbol in self.texts.items():
            text = text.replace(symbol, spelling)
        return text

    def markers(self, reader: Any) -> Markers:
        """Return the markers that are markup in the state that a reader is in.

        A marker that is spelled as text opens a section only at the beginning, and closes one only
        if that is open.
        """
        text = reader.text
        in_reasoning = text.section == REASONING
        blank = text.run < 2
        nothing = not (text.content or text.reasoning or reader.calls)
        at_start = blank and nothing
        wraps = not in_reasoning and blank and text.content < 2
        again = in_reasoning and blank and text.reasoning < 2
        reasoned = text.after_reasoning and blank
        key = (in_reasoning, at_start, wraps, again, reasoned, text.wrapped)
        if key not in self._markers:
            found: dict[str, tuple[str, int]] = {}

            def add(allowed: bool, marker: str, does: str, at: int = 0) -> None:
                if marker and (allowed or (does in SECTIONS and self.has_token(marker))):
                    found.setdefault(marker, (does, at))

            for opener, close in self.thinks:
                add(at_start or again, opener, "think")
                add(in_reasoning, close, "thought")
            for opener, close in self.wraps:
                add(wraps, opener, "wrap")
                add(text.wrapped, close, "unwrap")
            for opener, close in self.blocks:
                add(True, opener, "block")
                add(True, close, "unblock")
            for each in self.silent:
                add(True, each, "silent")
            for at, call in enumerate(self.calls):
                here = {
                    "anywhere": True,
                    "start": at_start and not in_reasoning,
                    "reasoned": reasoned,
                }
                add(here[call.where], call.opener, "call", at)
            begun = [
                "\n" * n + word[:end]
                for word in found
                for n in (0, 1, 2)
                for end in range(len(word))
            ]
            first = frozenset([word[0] for word in found] + ["\n"])
            self._markers[key] = Markers(found, frozenset(begun), first)
        return self._markers[key]


SECTIONS = ("think", "thought", "wrap", "unwrap")
