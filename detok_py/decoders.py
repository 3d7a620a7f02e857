"""The decoder rules of each tokenizer family, as a chain of small stages: tokens in, text out.

In: one entry a token (its bytes; or its piece, ready for the rules). Out: text that no continuation can change. Held: 3 bytes of UTF-8,
a byte-fallback run in "hf" mode, the few characters that a replacement or a strip may still want.

The rules are the "decoder" of a Hugging Face tokenizer.json (`tokenizers/src/decoders/*.rs` says what each does). A chain has
three parts, in the order of the rules:

    maps        look at one piece alone: folded into the entry when it is first used, free afterwards
    item stages turn pieces into pieces and depend on what came before (the first token, the previous token)
    join        pieces become one text (Fuse; or UTF-8, for bytes and byte runs)
    text stages see characters, wherever tokens begin: strip, replace, clean-up

Every part is a sequential transducer with a few ints of state. `Chain.exact` says whether the law holds for the whole: it does for all
rules but a replacement by regular expression behind a Fuse and a few orders of rules that no tokenizer ships; those are held
until the end, so that the text is right and late, never wrong.
"""

from typing import Any, Callable

from .errors import TokenizerFormatError, VocabularyError
from .stage import Pipeline
from .utf8 import decode_end, decode_utf8
from .vocabulary import BYTES, Vocabulary, byte_level

# A piece on its way: text, one byte of a byte-fallback run, or text that the rules leave alone (a literal).
Item = Any
# What a token is in the table: bytes for the Bytes join, else an item; None for a skipped special token.
Entry = Any

REPLACEMENT = "\ufffd"

# transformers `PreTrainedTokenizerBase.clean_up_tokenization`, in its order.
TRANSFORMERS_CLEAN_UP = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)
# tokenizers `decoders/wordpiece.rs`, `cleanup`: the same and one more, in its order.
WORDPIECE_CLEAN_UP = TRANSFORMERS_CLEAN_UP[:7] + ((" do not", " don't"),) + TRANSFORMERS_CLEAN_UP[7:]


# ---------------------------------------------------------------------------------------------------------------------------------------
# Reading the rules


def _flatten(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the rules in order, sequences unfolded."""
    if decoder is None:
        return [{"type": "Spaces"}]
    out: list[dict[str, Any]] = []
    todo: list[tuple[Any, int]] = [(decoder, 0)]
    while todo:
        rule, depth = todo.pop()
        if not isinstance(rule, dict) or not isinstance(rule.get("type"), str):
            raise TokenizerFormatError("decoder: expected an object with a type, found " + repr(rule)[:60])
        if rule["type"] != "Sequence":
            out.append(rule)
            continue
        parts = rule.get("decoders")
        if not isinstance(parts, list) or depth > 16:
            raise TokenizerFormatError("decoder Sequence: expected a list of decoders, at most 16 deep")
        for part in reversed(parts):
            todo.append((part, depth + 1))
    return out


def _field(rule: dict[str, Any], name: str, kind: type, default: Any = None) -> Any:
    value: Any = rule.get(name, default)
    is_count = value.__class__ is int and value >= 0
    if not (is_count if kind is int else isinstance(value, kind)):
        raise TokenizerFormatError("decoder " + rule["type"] + ": " + name + " should be " + kind.__name__ + ", and is " + repr(value)[:60])
    return value


def _pattern(rule: dict[str, Any]) -> tuple[str, bool]:
    """Return the pattern of a Replace, and whether it is a regular expression."""
    pattern = rule.get("pattern")
    if isinstance(pattern, dict) and len(pattern) == 1:
        for kind in ("String", "Regex"):
            if isinstance(pattern.get(kind), str):
                return pattern[kind], kind == "Regex"
    raise TokenizerFormatError('decoder Replace: pattern should be {"String": …} or {"Regex": …}, and is ' + repr(pattern)[:60])


def _sub(pattern: str, content: str) -> Callable[[str], str]:
    """Return the function that replaces every match of a regular expression."""
    try:
        from .tokenizers.patterns import compile_pattern  # the one place that knows classes by property, and refuses what could run away
    except ImportError:  # MicroPython has no unicodedata
        raise TokenizerFormatError("decoder Replace: a regular expression needs Pyodide, and this is MicroPython") from None

    compiled = compile_pattern(pattern)

    def replaced(piece: str) -> str:
        out, at = [], 0
        for first, last in compiled.spans(piece):
            out += [piece[at:first], content]
            at = last
        return "".join(out) + piece[at:]

    return replaced


def _piece_map(rule: dict[str, Any]) -> Callable[[str], str] | None:
    """Return the rule as a function of one piece, or None if it is not one."""
    kind = rule["type"]
    if kind == "Replace":
        pattern, is_regex = _pattern(rule)
        content = _field(rule, "content", str)
        if is_regex:
            return _sub(pattern, content)
        return lambda piece: piece.replace(pattern, content)
    if kind == "Strip":
        content, start, stop = _strip(rule)
        return lambda piece: strip_piece(piece, content, start, stop)
    return None


def _strip(rule: dict[str, Any]) -> tuple[str, int, int]:
    content = _field(rule, "content", str)
    if len(content) != 1:
        raise TokenizerFormatError("decoder Strip: content should be one character, and is " + repr(content)[:60])
    return content, _field(rule, "start", int, 0), _field(rule, "stop", int, 0)


def strip_piece(piece: str, content: str, start: int, stop: int) -> str:
    """Return `piece` without at most `start` leading and `stop` trailing `content` (tokenizers `decoders/strip.rs`, which panics on "")."""
    first = 0
    while first < min(start, len(piece)) and piece[first] == content:
        first += 1
    last = len(piece)
    while last > first and len(piece) - last < stop and piece[last - 1] == content:
        last -= 1
    return piece[first:last]


KNOWN = ("Bytes", "BPEDecoder", "ByteFallback", "ByteLevel", "CTC", "Fuse", "Metaspace", "Replace", "Spaces", "Strip", "WordPiece")


def check_rules(decoder: dict[str, Any] | None) -> None:
    """Raise TokenizerFormatError if a rule is not known, or not shaped as it should be."""
    Chain(decoder)


def byte_level_first(decoder: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the rules with a leading ByteLevel replaced by Bytes, None if ByteLevel does not come first."""
    if decoder is None:
        return None
    rules = _flatten(decoder)
    if not rules or rules[0]["type"] != "ByteLevel":
        return None
    rest = [rule for rule in rules[1:] if rule["type"] != "Fuse"]
    return {"type": "Sequence", "decoders": [BYTES] + rest} if rest else BYTES


def byte_of(piece: str) -> int:
    """Return the byte that `<0xE4>` stands for, -1 for any other piece (tokenizers `byte_fallback.rs`: six bytes, `u8::from_str_radix`).

    >>> byte_of("<0xE4>"), byte_of("<0xZZ>")
    (228, -1)
    """
    if len(piece) != 6 or piece[:3] != "<0x" or piece[5] != ">":
        return -1
    digits = piece[4:5] if piece[3] == "+" else piece[3:5]  # Rust's from_str_radix takes a plus sign
    for c in digits:
        if c not in "0123456789abcdefABCDEF":
            return -1
    return int(digits, 16)


# ---------------------------------------------------------------------------------------------------------------------------------------
# Item stages: items in, items out


class _ByPosition:
    """Metaspace, WordPiece and joining by spaces: what a piece becomes depends on whether it is the first."""

    def __init__(self, first: Callable[[str], str], later: Callable[[str], str]) -> None:
        self.first = first
        self.later = later
        self.begun = 0

    def feed(self, item: Item) -> list[Item]:
        if item.__class__ is tuple:
            self.begun = 1
            return [item]
        out = self.later(item) if self.begun else self.first(item)
        self.begun = 1
        return [out]

    def flush(self) -> list[Item]:
        return []

    def save(self) -> Any:
        return self.begun

    def load(self, state: Any) -> None:
        self.begun = state


class _Suffix:
    """BPEDecoder: the suffix is a space, but in the last token it is nothing."""

    def __init__(self, suffix: str) -> None:
        self.suffix = suffix
        self.last = self.more = ""  # what is still to come of the previous token: if it was the last, if it was not

    def feed(self, item: Item) -> list[Item]:
        owed = self.more
        if item.__class__ is tuple:
            last = more = item[0]
        else:
            last, more = item.replace(self.suffix, ""), item.replace(self.suffix, " ")
        same = common(last, more)
        self.last, self.more = last[same:], more[same:]
        return [owed + last[:same]]

    def flush(self) -> list[Item]:
        owed, self.last, self.more = self.last, "", ""
        return [owed]

    def save(self) -> Any:
        return self.last, self.more

    def load(self, state: Any) -> None:
        self.last, self.more = state


class _Ctc:
    """CTC: a token that repeats the one before it is nothing; pads are nothing; word delimiters are spaces."""

    def __init__(self, piece: Callable[[str], str]) -> None:
        self.piece = piece
        self.previous: str | None = None

    def feed(self, item: Item) -> list[Item]:
        text = item[0] if item.__class__ is tuple else item
        if text == self.previous:
            return []
        self.previous = text
        out = text if item.__class__ is tuple else self.piece(text)
        return [out] if out else []

    def flush(self) -> list[Item]:
        return []

    def save(self) -> Any:
        return self.previous

    def load(self, state: Any) -> None:
        self.previous = state


class _ItemMap:
    """A map of one piece behind an item stage."""

    def __init__(self, function: Callable[[str], Item]) -> None:
        self.function = function

    def feed(self, item: Item) -> list[Item]:
        return [item if item.__class__ is tuple else self.function(item)]

    def flush(self) -> list[Item]:
        return []

    def save(self) -> Any:
        return None

    def load(self, state: Any) -> None:
        pass


class _RunItems:
    """ByteFallback in front of other item stages, an order no tokenizer ships: a run is held until it ends."""

    def __init__(self, byte_fallback: str, errors: str) -> None:
        self.byte_fallback = byte_fallback
        self.errors = errors
        self.run: list[int] = []

    def feed(self, item: Item) -> list[Item]:
        byte = -1 if item.__class__ is tuple else byte_of(item)
        if byte < 0:
            return self.flush() + [item]
        self.run.append(byte)
        return []

    def flush(self) -> list[Item]:
        run, self.run = bytes(self.run), []
        if not run:
            return []
        if self.byte_fallback == "utf8":
            return [decode_end(run, self.errors)]
        try:
            return [decode_end(run, "strict")]
        except UnicodeError:
            return [bad_byte(b, self.errors) for b in run]

    def save(self) -> Any:
        return tuple(self.run)

    def load(self, state: Any) -> None:
        self.run = list(state)


# ---------------------------------------------------------------------------------------------------------------------------------------
# Text stages: text in, text out


class ReplaceText:
    """Replace a literal in a stream. Held: the longest end that could still become the literal.

    >>> r = ReplaceText("<n>", "\\n")
    >>> r.feed("a<"), r.feed("n"), r.feed("><")
    ('a', '', '\\n')
    """

    def __init__(self, pattern: str, content: str) -> None:
        self.pattern = pattern
        self.content = content
        self.held = ""

    def feed(self, text: str) -> str:
        if not self.held and self.pattern[0] not in text:
            return text
        parts = (self.held + text).split(self.pattern)
        tail = parts[-1]
        self.held = ""
        for n in range(min(len(self.pattern) - 1, len(tail)), 0, -1):
            if tail.endswith(self.pattern[:n]):
                self.held = self.pattern[:n]
                parts[-1] = tail[:-n]
                break
        return self.content.join(parts)

    def flush(self) -> str:
        held, self.held = self.held, ""
        return held

    def save(self) -> Any:
        return self.held

    def load(self, state: Any) -> None:
        self.held = state


class StripText:
    """Strip at most `start` leading and `stop` trailing `content` of the whole text. Held: at most `stop` characters."""

    def __init__(self, content: str, start: int, stop: int) -> None:
        self.content = content
        self.stop = stop
        self.strippable = start
        self.held = 0

    def feed(self, text: str) -> str:
        if not text:
            return ""
        at = 0
        while self.strippable and at < len(text):
            if text[at] == self.content:
                at += 1
                self.strippable -= 1
            else:
                self.strippable = 0
        if at:
            text = text[at:]
        if not self.stop:
            return text
        end = len(text)
        while end and text[end - 1] == self.content:
            end -= 1
        trailing = len(text) - end + (self.held if end == 0 else 0)
        shown = (self.content * self.held if end else "") + text[:end]
        keep = min(trailing, self.stop)
        self.held = keep
        return shown + self.content * (trailing - keep)

    def flush(self) -> str:
        self.held = 0
        return ""

    def save(self) -> Any:
        return self.strippable, self.held

    def load(self, state: Any) -> None:
        self.strippable, self.held = state


class WholeText:
    """A function of the whole text: held to the end."""

    def __init__(self, function: Callable[[str], str]) -> None:
        self.function = function
        self.held = ""

    def feed(self, text: str) -> str:
        self.held += text
        return ""

    def flush(self) -> str:
        held, self.held = self.held, ""
        return self.function(held) if held else ""

    def save(self) -> Any:
        return self.held

    def load(self, state: Any) -> None:
        self.held = state


class OnlyByteToken:
    """ByteFallback behind a Fuse: it acts only when the whole text is one byte token. Held: while it still could be."""

    def __init__(self, byte_fallback: str, errors: str) -> None:
        self.byte_fallback = byte_fallback
        self.errors = errors
        self.held: str | None = ""  # None once the text can't be one byte token any more

    def feed(self, text: str) -> str:
        if self.held is None or not text:
            return text
        self.held += text
        sample = self.held + "<0x00>"[len(self.held) :]
        if byte_of(sample) >= 0 or (self.held == "<0x+"):
            return ""
        out, self.held = self.held, None
        return out

    def flush(self) -> str:
        held, self.held = self.held, ""
        if not held or byte_of(held) < 0:
            return held or ""
        byte = byte_of(held)
        return chr(byte) if byte < 0x80 else bad_byte(byte, self.errors)

    def save(self) -> Any:
        return self.held

    def load(self, state: Any) -> None:
        self.held = state


class Exact:
    """Text stages in a row that obey the law together.

    Each stage alone is as early as it can be, yet the row need not be: two futures that the first stage keeps apart may look the same
    behind the second, and a literal whose replacement begins as it does is certain before it is complete. So after each chunk
    the row is asked what would come out if the stream ended here, and how much of that every continuation shares: the states are
    few and the answer is remembered for each. A continuation is any text; of all characters only those that the stages
    name make a difference, and one other stands for the rest.
    """

    def __init__(self, make: Callable[[], list[Any]], alphabet: str) -> None:
        self.row = Pipeline(*make())
        self.probe = Pipeline(*make())
        other = 0x21
        while chr(other) in alphabet:
            other += 1
        self.alphabet = "".join(sorted(set(alphabet))) + chr(other)
        self.start = self.row.save()
        self.ahead = ""  # shown already, and still to come out of the row
        self.certain: dict[Any, str] = {self.start: ""}

    def feed(self, text: str) -> str:
        out: str = self.row.feed(text)
        if self.ahead:
            n = min(len(out), len(self.ahead))
            out, self.ahead = out[n:], self.ahead[n:]
        state = self.row.save()
        sure = self.certain.get(state)
        if sure is None:
            sure = self._certain(state)
        if len(sure) > len(self.ahead):
            out += sure[len(self.ahead) :]
            self.ahead = sure
        return out

    def _certain(self, state: Any) -> str:
        self.probe.load(state)
        end = self.probe.flush()
        n = 0
        while n < len(end) and self._always(state, end[: n + 1], set()):
            n += 1
        if len(self.certain) > 4096:
            self.certain.clear()
        self.certain[state] = end[:n]
        return str(end[:n])

    def _always(self, state: Any, text: str, seen: set[Any]) -> bool:
        """Return whether the output from `state` begins with `text` whatever comes. A cycle without output adds nothing new."""
        if (state, text) in seen:
            return True
        seen.add((state, text))
        self.probe.load(state)
        if not self.probe.flush().startswith(text):
            return False
        for c in self.alphabet:
            self.probe.load(state)
            out = self.probe.feed(c)
            if out.startswith(text):
                continue
            if not text.startswith(out) or not self._always(self.probe.save(), text[len(out) :], seen):
                return False
        return True

    def flush(self) -> str:
        out: str = self.row.flush()
        out, self.ahead = out[len(self.ahead) :], ""
        return out

    def save(self) -> Any:
        return self.row.save(), self.ahead

    def load(self, state: Any) -> None:
        self.row.load(state[0])
        self.ahead = state[1]


def tuples(state: Any) -> Any:
    """Return a state as `save` gave it, from what JSON made of it."""
    return tuple([tuples(part) for part in state]) if isinstance(state, (list, tuple)) else state


# ---------------------------------------------------------------------------------------------------------------------------------------
# Joins: entries in, text out


def common(a: str, b: str) -> int:
    """Return the length of the longest common prefix."""
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    low = 0
    while a[low] == b[low]:
        low += 1
    return low


def bad_byte(byte: int, errors: str) -> str:
    """Return what one invalid byte becomes under an error policy."""
    if errors == "replace":
        return REPLACEMENT
    if errors == "ignore":
        return ""
    if errors == "backslashreplace":
        return f"\\x{byte:02x}"
    return decode_end(bytes([byte]), errors)  # "strict" raises


class _BytesJoin:
    """Bytes → text. Entries are bytes."""

    def __init__(self, errors: str) -> None:
        self.errors = errors
        self.held = b""

    def feed(self, entry: bytes) -> str:
        text, self.held = decode_utf8(self.held + entry if self.held else entry, self.errors)
        return text

    def flush(self) -> str:
        held, self.held = self.held, b""
        return decode_end(held, self.errors)

    def save(self) -> Any:
        return self.held.hex() if self.held else ""

    def load(self, state: Any) -> None:
        self.held = bytes.fromhex(state)


class _ItemsJoin:
    """Items → text: Fuse, and the end of rules that don't fuse."""

    held = b""

    def feed(self, item: Item) -> str:
        return str(item[0] if item.__class__ is tuple else item)

    def flush(self) -> str:
        return ""

    def save(self) -> Any:
        return ""

    def load(self, state: Any) -> None:
        pass


class _Utf8Runs:
    """Items → text, where a run of byte tokens is a UTF-8 stream that ends with the run."""

    def __init__(self, errors: str) -> None:
        self.errors = errors
        self.held = b""

    def feed(self, item: Item) -> str:
        if item.__class__ is int:
            text, self.held = decode_utf8(self.held + bytes([item]), self.errors)
            return text
        text = str(item[0] if item.__class__ is tuple else item)
        if self.held:
            text = decode_end(self.held, self.errors) + text
            self.held = b""
        return text

    def flush(self) -> str:
        held, self.held = self.held, b""
        return decode_end(held, self.errors)

    def save(self) -> Any:
        return self.held.hex() if self.held else ""

    def load(self, state: Any) -> None:
        self.held = bytes.fromhex(state)


class _HuggingFaceRuns:
    """Items → text as Hugging Face decodes byte tokens, text stages included: a run that isn't UTF-8 as a whole is U+FFFD, byte by byte.

    While a run is good so far there are two futures: it ends well, or it turns out bad. Both go through text stages of their own; what the
    two have in common is certain. Once they differ nothing is until the run ends or is bad. So a run is held; it costs O(1) a token.
    (Under "strict" a bad run has no text, so that there is one future: `_Utf8Runs`.)
    """

    def __init__(self, errors: str, make: Callable[[], Any]) -> None:
        self.errors = errors
        self.good = make()
        self.bad = make()
        self.reset_run()

    def reset_run(self) -> None:
        self.run = bytearray()  # the bytes of a run that is good so far
        self.tail = b""  # its last bytes, an unfinished character
        self.is_bad = 0  # 1 in a run that is known to be bad, of which nothing is held
        self.differ = 0  # 1 once the two futures differ in the first character that was not shown
        self.good_out: list[str] = []  # what the run has put out in each future, less what was shown
        self.bad_out: list[str] = []

    def feed(self, item: Item) -> str:
        if item.__class__ is not int:
            return self._end_run() + str(self.good.feed(item[0] if item.__class__ is tuple else item))
        byte: int = item
        spelled = bad_byte(byte, self.errors)
        if self.is_bad:
            return str(self.good.feed(spelled))
        if not self.run:
            self.bad.load(self.good.save())
        try:
            text, self.tail = decode_utf8(self.tail + bytes([byte]), "strict")
        except UnicodeError:
            # The run can't end well any more: what comes is U+FFFD, byte by byte.
            out = "".join(self.bad_out) + str(self.bad.feed(spelled))
            self.good.load(self.bad.save())
            self.reset_run()
            self.is_bad = 1
            return out
        self.run.append(byte)
        if text:
            self.good_out.append(self.good.feed(text))
        self.bad_out.append(self.bad.feed(spelled))
        if self.differ:
            return ""
        good, bad = "".join(self.good_out), "".join(self.bad_out)
        n = common(good, bad)
        self.good_out, self.bad_out = [good[n:]], [bad[n:]]
        self.differ = 1 if n < len(good) and n < len(bad) else 0
        return good[:n]

    def _end_run(self) -> str:
        out = ""
        if self.tail:
            self.good.load(self.bad.save())
            out = "".join(self.bad_out)
        elif self.run:
            out = "".join(self.good_out)
        self.reset_run()
        return out

    def flush(self) -> str:
        return self._end_run() + str(self.good.flush())

    @property
    def held(self) -> bytes:
        return bytes(self.run)

    def save(self) -> Any:
        bad = self.bad.save() if self.run else ""
        outs = "".join(self.good_out), "".join(self.bad_out)
        run, tail = bytes(self.run).hex() if self.run else "", self.tail.hex() if self.tail else ""  # b"" has no hex in MicroPython
        return run, tail, self.is_bad, self.differ, outs, self.good.save(), bad

    def load(self, state: Any) -> None:
        self.run, self.tail = bytearray(bytes.fromhex(state[0])), bytes.fromhex(state[1])
        self.is_bad, self.differ = state[2], state[3]
        self.good_out, self.bad_out = [state[4][0]], [state[4][1]]
        self.good.load(state[5])
        if self.run:
            self.bad.load(state[6])


# ---------------------------------------------------------------------------------------------------------------------------------------
# The chain

NEUTRAL = "\U000f0000"  # a private-use character that no rule names: what it leaves behind is the state of a text that has begun


class Chain:
    """Decoder rules, compiled. `entry` makes the table; `push` and `flush` run it.

    `decoder` is the JSON of tokenizer.json, None for the rule of files without one (tokens joined by spaces), or `BYTES`.
    `byte_fallback` is "utf8" or "hf", `errors` a policy of utf8.py, `clean_up` asks for transformers' clean-up of spaces.

    >>> chain = Chain({"type": "Sequence", "decoders": [
    ...     {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    ...     {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})
    >>> [chain.push(chain.entry(piece.encode())) for piece in ("▁Hello", "<0xE4>", "<0xBD>", "<0xA0>", "▁world")], chain.exact
    (['Hello', '', '', '你', ' world'], True)
    """

    def __init__(
        self, decoder: dict[str, Any] | None, *, byte_fallback: str = "utf8", errors: str = "replace", clean_up: bool = False
    ) -> None:
        if byte_fallback not in ("utf8", "hf"):
            raise ValueError('byte_fallback is "utf8" or "hf", not ' + repr(byte_fallback))
        self.late_because = ""  # why the law does not hold, if it doesn't
        self.maps: list[Callable[[str], str]] = []
        self.items: list[Any] = []
        self.takes = "items"  # entries: "bytes", "byte-level" (bytes of mapped pieces), "runs" (items, some bytes) or "items"
        join: Any = None
        runs = False
        recipes: list[Callable[[], Any]] = []  # how to make each text stage
        alphabet = ""
        rules = _flatten(decoder)
        for at, rule in enumerate(rules):
            kind = rule["type"]
            if kind not in KNOWN or (kind == "Bytes" and at):
                known = ", ".join(KNOWN)
                raise TokenizerFormatError("decoder " + repr(kind)[:60] + " is not supported; known are " + known + " and Sequence")
            if join is None and kind == "Bytes":
                self.takes, join = "bytes", _BytesJoin(errors)
            elif join is None and kind == "ByteLevel":
                self.takes = "byte-level"
                join = _BytesJoin(errors)
                if self.items:
                    self.items.append(_ItemMap(byte_level))
            elif join is None and kind == "Fuse":
                join = _ItemsJoin()
            elif join is None and kind == "ByteFallback":
                following = [r["type"] for r in rules[at + 1 :]]
                fused_next = not following or following[0] in ("Fuse", "ByteFallback")
                if fused_next:
                    runs = True
                    if self.items:
                        self.items.append(_ItemMap(_item))
                    join = _ItemsJoin()
                else:
                    self.late_because = "ByteFallback comes before " + following[0]
                    self.items.append(_RunItems(byte_fallback, errors))
            elif join is None:
                function = _piece_map(rule)
                if function is None:
                    self.items.append(_item_stage(rule))
                elif self.items:
                    self.items.append(_ItemMap(function))
                else:
                    self.maps.append(function)
            else:
                alphabet += self._text_rule(rule, recipes, byte_fallback, errors)
        if clean_up:
            alphabet += _replacements(TRANSFORMERS_CLEAN_UP, recipes)
        make = self._text_stage(recipes, alphabet)
        self.text: Any = make() if make else None
        if runs:
            self.takes = "runs"
            if byte_fallback == "utf8" or errors == "strict":
                # Under "strict" a bad run has no text, so only the good future counts: both modes are the same.
                join = _Utf8Runs(errors)
            else:
                join = _HuggingFaceRuns(errors, make or _Through)
                self.text = None
        self.join: Any = join or _ItemsJoin()
        self.recipes = recipes
        self._remake: Callable[[], list[Any]] = lambda: Chain(decoder, byte_fallback=byte_fallback, errors=errors).items
        self.neutral: Entry = (NEUTRAL,) if self.takes in ("items", "runs") or self.items else NEUTRAL.encode()
        start = self.save()
        self.push(self.neutral)
        self.rest = self.save()
        self.load(start)

    def fresh_items(self) -> list[Any]:
        """Return the item stages as they are at the beginning of a text, for `spans.Trace`."""
        return list(self._remake())

    @property
    def exact(self) -> bool:
        """Whether the law holds: output after every push is the longest common prefix of all that could follow."""
        return not self.late_because

    def _text_rule(self, rule: dict[str, Any], recipes: list[Callable[[], Any]], byte_fallback: str, errors: str) -> str:
        """Add the stages of a rule behind the join, where all tokens are one; return the characters they look at."""
        kind = rule["type"]
        if kind == "Replace":
            pattern, is_regex = _pattern(rule)
            content = _field(rule, "content", str)
            if is_regex or not pattern:
                self.late_because = "a Replace by regular expression sees the whole text"
                function = _piece_map(rule)
                assert function is not None
                recipes.append(lambda: WholeText(function))
                return ""
            return _replacements(((pattern, content),), recipes)
        if kind == "Strip":
            content, start, stop = _strip(rule)
            recipes.append(lambda: StripText(content, start, stop))
            return content
        if kind == "Metaspace":
            mark, never = _metaspace(rule)
            return _replacements(((mark, " " if never else ""),), recipes)
        if kind == "WordPiece":
            return _replacements(WORDPIECE_CLEAN_UP, recipes) if _field(rule, "cleanup", bool, True) else ""
        if kind == "BPEDecoder":
            suffix = _field(rule, "suffix", str, "</w>")
            return _replacements(((suffix, ""),), recipes) if suffix else ""
        if kind == "CTC":
            pad, delimiter, cleanup = _ctc(rule)
            out = _replacements(((pad, ""),), recipes) if pad else ""
            if cleanup:
                out += _replacements(WORDPIECE_CLEAN_UP, recipes) + (_replacements(((delimiter, " "),), recipes) if delimiter else "")
            return out
        if kind == "ByteFallback":
            recipes.append(lambda: OnlyByteToken(byte_fallback, errors))
            return "<0x>+123456789abcdefABCDEF"
        if kind == "ByteLevel":
            self.late_because = "a ByteLevel behind a Fuse looks at the whole text"
            recipes.append(lambda: WholeText(lambda text: decode_end(byte_level(text), errors)))
        return ""

    def _text_stage(self, recipes: list[Callable[[], Any]], alphabet: str) -> Callable[[], Any] | None:
        """Return how to make the text stages as one, None if there are none."""
        if not recipes:
            return None
        stages = [recipe() for recipe in recipes]
        if len(stages) == 1 and stages[0].__class__ is StripText:
            return recipes[0]
        if self.late_because and [stage for stage in stages if stage.__class__ is WholeText]:
            return lambda: Pipeline(*[recipe() for recipe in recipes])
        return lambda: Exact(lambda: [recipe() for recipe in recipes], alphabet)

    def entry(self, stored: bytes, literal: bool = False) -> Entry:
        """Return the table entry of a token from what the vocabulary stores for it."""
        if self.takes == "bytes" and not self.maps:
            return stored
        try:
            piece = decode_end(stored, "strict")
        except UnicodeError:
            raise VocabularyError(f"damaged vocabulary: the piece {stored[:40]!r} is not UTF-8; pack it again") from None
        if literal:
            return stored if self.takes == "byte-level" and not self.items else (piece,)
        for function in self.maps:
            piece = function(piece)
        if not self.items:
            if self.takes == "byte-level":
                return byte_level(piece)
            if self.takes == "runs":
                return _item(piece)
        return piece

    def push(self, entry: Entry) -> str:
        """Take one entry; return the text that it makes certain."""
        if self.items:
            text = self._through(0, [entry])
        else:
            text = self.join.feed(entry)
        return str(self.text.feed(text)) if self.text is not None else str(text)

    def _through(self, stage: int, items: list[Any]) -> str:
        for each in self.items[stage:]:
            items = [out for item in items for out in each.feed(item)]
        if self.takes == "byte-level":
            return "".join([self.join.feed(item[0].encode() if item.__class__ is tuple else item) for item in items])
        return "".join([self.join.feed(item) for item in items])

    def flush(self) -> str:
        """End the stream; return what was held."""
        text = ""
        for at, stage in enumerate(self.items):
            text += self._through(at + 1, stage.flush())
        text += self.join.flush()
        if self.text is not None:
            text = self.text.feed(text) + self.text.flush()
        return str(text)

    @property
    def held(self) -> bytes:
        """What waits: text as UTF-8, then the bytes of an unfinished character or run."""
        text = _held_text(self.text) if self.text is not None else ""
        owed = "".join([stage.last for stage in self.items if stage.__class__ is _Suffix])
        return text.encode() + bytes(self.join.held) + owed.encode()

    @property
    def is_small(self) -> bool:
        """Whether the state is a few characters, as it always is but for a byte run in "hf" mode and rules that need the whole text."""
        held = self.join.run if self.join.__class__ is _HuggingFaceRuns else self.join.held  # a run may be long: it is not copied here
        return len(held) < 4 and (self.exact or self.text is None)

    def save(self) -> tuple[Any, ...]:
        """Return the state: strings, ints, None and tuples of them."""
        return tuple([stage.save() for stage in self.items]), self.join.save(), self.text.save() if self.text is not None else ""

    def load(self, state: Any) -> None:
        """Take a state that `save` returned (`tuples` makes one of what JSON made of it)."""
        for stage, part in zip(self.items, state[0]):
            stage.load(part)
        self.join.load(state[1])
        if self.text is not None:
            self.text.load(state[2])


class Apart:
    """A chain whose runs of ordinary tokens are decoded each by itself, special tokens between them as they are, all joined by spaces.

    That is `spaces_between_special_tokens` of slow tokenizers, as vLLM streams it: a run counts though its text be empty, so a space is
    certain as soon as it is known what stands on both sides. transformers' clean-up of spaces comes last, over the joined text. Used as
    `Chain` is; the entry of a special token is a pair `(its text, "apart")`.

    >>> apart = Apart(Chain({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}))
    >>> entries = [apart.entry(b"<s>", True), apart.entry("▁Hello".encode()), apart.entry(b"</s>", True)]
    >>> [apart.push(entry) for entry in entries]
    ['<s>', ' Hello', ' </s>']
    """

    takes = "apart"
    text = None

    def __init__(self, chain: Chain, clean_up: bool = False) -> None:
        self.chain = chain
        self.recipes: list[Callable[[], Any]] = []  # the stages behind the joining
        self.clean: Any = None
        if clean_up:
            make = chain._text_stage(self.recipes, _replacements(TRANSFORMERS_CLEAN_UP, self.recipes))
            self.clean = make() if make else None
        self.begin = chain.save()
        self.place = 0  # 0 at the beginning, 1 in a run of ordinary tokens, 2 behind a special token
        start = self.save()
        self.push(chain.neutral)
        self.rest = self.save()
        self.load(start)

    @property
    def late_because(self) -> str:
        chain = self.chain
        if self.clean is not None and (chain.text is not None or chain.join.__class__ is _HuggingFaceRuns):
            return chain.late_because or "the clean-up of spaces comes behind rules that hold text back themselves"
        return chain.late_because

    @property
    def exact(self) -> bool:
        return not self.late_because

    def entry(self, stored: bytes, apart: bool = False) -> Entry:
        """Return the table entry of a token; `apart` says that it is one of those that stand by themselves."""
        if not apart:
            return self.chain.entry(stored)
        entry = self.chain.entry(stored, True)
        return (decode_end(entry, "replace") if entry.__class__ is bytes else entry[0]), "apart"

    def push(self, entry: Entry) -> str:
        """Take one entry; return the text that it makes certain."""
        if entry.__class__ is tuple and len(entry) == 2:
            text = self.end_run() + (" " if self.place else "") + entry[0]
            self.place = 2
        else:
            text = " " if self.place == 2 else ""
            self.place = 1
            text += self.chain.push(entry)
        return str(self.clean.feed(text)) if self.clean is not None else text

    def end_run(self) -> str:
        """Begin the chain anew; return what it held."""
        text = self.chain.flush() if self.place == 1 else ""
        self.chain.load(self.begin)
        return text

    def flush(self) -> str:
        """End the stream; return what was held."""
        text = self.end_run()
        self.place = 0
        return str(self.clean.feed(text) + self.clean.flush()) if self.clean is not None else text

    @property
    def held(self) -> bytes:
        """What waits: text as UTF-8, then the bytes of an unfinished character or run."""
        return (_held_text(self.clean).encode() if self.clean is not None else b"") + self.chain.held

    @property
    def is_small(self) -> bool:
        return self.chain.is_small

    def save(self) -> tuple[Any, ...]:
        """Return the state: strings, ints, None and tuples of them."""
        return self.place, self.chain.save(), self.clean.save() if self.clean is not None else ""

    def load(self, state: Any) -> None:
        """Take a state that `save` returned."""
        self.place = state[0]
        self.chain.load(state[1])
        if self.clean is not None:
            self.clean.load(state[2])


class _Through:
    """A text stage that does nothing."""

    def feed(self, text: str) -> str:
        return text

    def flush(self) -> str:
        return ""

    def save(self) -> Any:
        return ""

    def load(self, state: Any) -> None:
        pass


def _item(piece: str) -> Item:
    byte = byte_of(piece)
    return piece if byte < 0 else byte


def _held_text(stage: Any) -> str:
    """Return the text that a text stage waits with."""
    if stage.__class__ is Exact:
        text = _held_text(stage.row)
        return text[len(stage.ahead) :] if text.startswith(stage.ahead) else text
    if stage.__class__ is Pipeline:
        return "".join([_held_text(each) for each in reversed(stage.stages)])
    if stage.__class__ is StripText:
        return str(stage.content * stage.held)
    return stage.held or ""


def _replacements(pairs: tuple[tuple[str, str], ...], recipes: list[Callable[[], Any]]) -> str:
    for pattern, content in pairs:
        recipes.append(_replacement(pattern, content))
    return "".join([pattern for pattern, _ in pairs])


def _replacement(pattern: str, content: str) -> Callable[[], Any]:
    return lambda: ReplaceText(pattern, content)


def _metaspace(rule: dict[str, Any]) -> tuple[str, bool]:
    """Return the mark, and whether leading marks stay (tokenizers `pre_tokenizers/metaspace.rs`, the defaults of its reader)."""
    mark = _field(rule, "replacement", str, "▁")
    scheme = _field(rule, "prepend_scheme", str, "always")
    if len(mark) != 1 or scheme not in ("first", "never", "always"):
        raise TokenizerFormatError("decoder Metaspace: expected a character and first, never or always, found " + repr((mark, scheme))[:60])
    return mark, scheme == "never" or rule.get("add_prefix_space") is False


def _ctc(rule: dict[str, Any]) -> tuple[str, str, bool]:
    return _field(rule, "pad_token", str, "<pad>"), _field(rule, "word_delimiter_token", str, "|"), _field(rule, "cleanup", bool, True)


def clean_up(text: str, pairs: tuple[tuple[str, str], ...]) -> str:
    """Return `text` with each literal replaced, in order."""
    for pattern, content in pairs:
        text = text.replace(pattern, content)
    return text


def _item_stage(rule: dict[str, Any]) -> Any:
    """Return the stage of a rule that looks at more than one piece."""
    kind = rule["type"]
    if kind == "Spaces":
        return _ByPosition(lambda piece: piece, lambda piece: " " + piece)
    if kind == "Metaspace":
        mark, never = _metaspace(rule)
        return _ByPosition(lambda piece: piece.replace(mark, " " if never else ""), lambda piece: piece.replace(mark, " "))
    if kind == "WordPiece":
        prefix = _field(rule, "prefix", str, "##")
        pairs = WORDPIECE_CLEAN_UP if _field(rule, "cleanup", bool, True) else ()

        def later(piece: str) -> str:
            return clean_up(piece[len(prefix) :] if piece.startswith(prefix) else " " + piece, pairs)

        return _ByPosition(lambda piece: clean_up(piece, pairs), later)
    if kind == "BPEDecoder":
        return _Suffix(_field(rule, "suffix", str, "</w>"))
    pad, delimiter, cleanup = _ctc(rule)

    def spell(piece: str) -> str:
        piece = piece.replace(pad, "")
        return clean_up(piece, WORDPIECE_CLEAN_UP).replace(delimiter, " ") if cleanup else piece

    return _Ctc(spell)


def contribution(vocabulary: Vocabulary, token_id: int) -> bytes:
    """Return the bytes that a token adds to a text that has begun. See `Vocabulary.token_bytes`."""
    chain: Chain | None = vocabulary._memo.get("contribution")
    if chain is None:
        chain = vocabulary._memo["contribution"] = Chain(vocabulary.rules)
    entry = chain.entry(vocabulary.stored_bytes(token_id), token_id in vocabulary.literal_ids)
    if entry.__class__ is int:
        return bytes([entry])
    if entry.__class__ is bytes:
        return bytes(entry)
    chain.load(chain.rest)
    text = chain.push(entry)
    return (text + chain.flush()).encode()
