"""The decoder rules of tokenizer.json, read and checked.

In: the JSON of "decoder" (Hugging Face, `tokenizers/src/decoders/*.rs`), or None for a file without
one: its tokens are joined by spaces. Out: `Rules`: those that see tokens, and those that see text.

The rules run in order. One of them joins the tokens into one text: Bytes (ours, for vocabularies of
bytes), SentencePiece (ours, for its own files), ByteLevel, Fuse, or a ByteFallback that a Fuse or
nothing follows. The rules before it see tokens, the rules behind it see characters, wherever tokens
begin. Orders that no tokenizer ships and that could not be streamed exactly raise
TokenizerFormatError:

    before the join  Replace, Strip, Metaspace, WordPiece, CTC, ByteFallback in any order;
                     BPEDecoder with nothing behind it but Metaspace
    behind the join  Replace, Strip, Metaspace, ByteLevel, Fuse

The bound: what a token costs depends on the length of its own text and on the rules, not on what
came before it. So rules that could make a long text of a short one, or that search for very much,
are refused too: more than MAX_RULES of them, a text or count above MAX_SIZE, replacements that make
a text more than MAX_GROWTH times as long.
"""

from typing import Any, Callable, Iterable, NamedTuple, Sequence

from ..errors import TokenizerFormatError

# Known tokenizers have at most 5 rules, texts of 10 characters, a Strip of one, and no replacement
# longer than the text that it replaces.
MAX_RULES = 32
MAX_SIZE = 64
# The longest regular expression known to be in use has about 900 characters. Checking one takes
# time quadratic in its length.
MAX_PATTERN = 2048
MAX_GROWTH = 256

# The rules of a vocabulary whose tokens are bytes.
BYTES: dict[str, Any] = {"type": "Bytes"}

# transformers, `PreTrainedTokenizerBase.clean_up_tokenization`, in its order.
TRANSFORMERS_CLEAN_UP = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"),
    (" n't", "n't"), (" 'm", "'m"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip
# tokenizers, `decoders/wordpiece.rs`, `cleanup`: one replacement more.
WORDPIECE_CLEAN_UP = (
    TRANSFORMERS_CLEAN_UP[:7] + ((" do not", " don't"),) + TRANSFORMERS_CLEAN_UP[7:]
)

# What SentencePiece strips at the beginning of a text: one leading `▁`, or all leading ones.
STRIPS = ("none", "one", "all")

# One rule. `find` is what it looks for (pattern, mark, prefix, suffix, pad token), `put` what it
# puts there; `start` and `stop` are Strip's counts; `replace` is a Replace by regular expression.
Rule = NamedTuple(
    "Rule",
    [
        ("kind", str), ("find", str), ("put", str), ("start", int), ("stop", int), ("clean_up", bool),
        ("replace", Callable[[str], str] | None),
    ],
)  # fmt: skip
# `tokens` see tokens, the rule that joins them last (but for Fuse, which is left out); `text` see
# the joined text.
Rules = NamedTuple("Rules", [("tokens", Sequence[Rule]), ("text", Sequence[Rule])])

_BEFORE = (
    "BPEDecoder",
    "ByteFallback",
    "CTC",
    "Metaspace",
    "Replace",
    "Spaces",
    "Strip",
    "WordPiece",
)
_BEHIND = ("Replace", "Strip", "Metaspace", "ByteLevel", "Fuse")
_FIRST = ("Bytes", "SentencePiece")
_KNOWN = tuple(sorted(_BEFORE + _FIRST + ("ByteLevel", "Fuse")))

# The compiler of regular expressions: from a pattern to a function that finds its matches as
# (first, one past last). decode/ has none, so the package gives it one (`detok_py/__init__.py`).
Matches = Callable[[str], Iterable[Any]]
_compile: list[Callable[[str], Matches]] = []


def use_regex_compiler(compiler: Callable[[str], Matches]) -> None:
    """Compile the pattern of a Replace by regular expression with `compiler`."""
    _compile[:] = [compiler]


def clean_up(text: str, pairs: tuple[tuple[str, str], ...]) -> str:
    """Return `text` with each literal replaced, in order.

    >>> clean_up("It is n't .", TRANSFORMERS_CLEAN_UP)
    "It isn't."
    """
    for find, put in pairs:
        text = text.replace(find, put)
    return text


def replace_all(text: str, find: str, put: str) -> str:
    """Return `text` with each `find` replaced. An empty one is found beside each character;
    `str.replace` of MicroPython finds it beside each byte. One that cannot be empty does not need
    this call.

    >>> replace_all("né", "", "-")
    '-n-é-'
    """
    return text.replace(find, put) if find else put.join([""] + list(text) + [""])


def read_rules(decoder: dict[str, Any] | None, clean_up: bool = False) -> Rules:
    """Return the rules of a decoder; `clean_up` adds transformers' clean-up of spaces at the end.

    A rule that is not known, a wrong field, or an order that is not supported raises
    TokenizerFormatError.

    >>> rules = read_rules(
    ...     {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}
    ... )
    >>> [rule.kind for rule in rules.tokens], rules.text
    (['ByteFallback'], [])
    """
    found = _flat(decoder)
    kinds = [rule["type"] for rule in found]
    tokens: list[Rule] = []
    text: list[Rule] = []
    joined = ""
    growth = 1
    for at, rule in enumerate(found):
        kind = kinds[at]
        if kind not in _KNOWN or (kind in _FIRST and at):
            raise TokenizerFormatError(
                f"decoder {kind[:60]!r} is not supported; known are {', '.join(_KNOWN)} and Sequence"
            )
        if joined and kind not in _BEHIND:
            raise TokenizerFormatError(
                f"decoder {kind} behind {joined}, which joins the tokens, is not supported; "
                f"supported there are {', '.join(_BEHIND)}"
            )
        if not joined and "BPEDecoder" in kinds[:at] and kind not in ("Metaspace", "Fuse"):
            raise TokenizerFormatError(
                f"decoder {kind} behind BPEDecoder is not supported; supported there are Metaspace and Fuse"
            )
        if kind != "Fuse":
            read = _read(rule)
            growth *= _growth(read)
            (text if joined else tokens).append(read)
        following = kinds[at + 1 : at + 2]
        if kind not in _BEFORE or (kind == "ByteFallback" and following in ([], ["Fuse"])):
            joined = joined or kind
    if len(found) > MAX_RULES or growth > MAX_GROWTH:
        raise TokenizerFormatError(
            f"decoder: {len(found)} rules that can make a text {growth} times as long are not "
            f"supported; supported are {MAX_RULES} rules and {MAX_GROWTH} times"
        )
    if clean_up:
        text.append(CLEAN_UP)
    return Rules(tokens, text)


def _growth(rule: Rule) -> int:
    """Return how many times as long a rule can make a text."""
    if rule.kind == "Replace":
        at_every_place = rule.replace or not rule.find
        return len(rule.put) + 1 if at_every_place else max(1, -(-len(rule.put) // len(rule.find)))
    # These replace a text by a space; an empty text matches everywhere.
    replaced = {"BPEDecoder": rule.find, "CTC": rule.put}.get(rule.kind)
    return 2 if replaced == "" else 1


def byte_level_first(decoder: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the decoder with its leading ByteLevel replaced by Bytes, None if it has none."""
    rules = _flat(decoder)
    if not rules or rules[0]["type"] != "ByteLevel":
        return None
    rest = [rule for rule in rules[1:] if rule["type"] != "Fuse"]
    return {"type": "Sequence", "decoders": [BYTES] + rest} if rest else BYTES


def _flat(decoder: Any) -> list[dict[str, Any]]:
    """Return the rules in order, without the Sequences around them."""
    if decoder is None:
        return [{"type": "Spaces"}]
    out: list[dict[str, Any]] = []
    todo = [(decoder, 0)]
    while todo:
        rule, depth = todo.pop()
        if not isinstance(rule, dict) or not isinstance(rule.get("type"), str):
            raise TokenizerFormatError(
                f"decoder: expected an object with a type, found {repr(rule)[:60]}"
            )
        if rule["type"] != "Sequence":
            out.append(rule)
            continue
        parts = rule.get("decoders")
        if not isinstance(parts, list) or depth > 16:
            raise TokenizerFormatError(
                "decoder Sequence: expected a list of decoders, at most 16 deep"
            )
        todo += [(part, depth + 1) for part in reversed(parts)]
    return out


def _rule(
    kind: str,
    find: str = "",
    put: str = "",
    start: int = 0,
    stop: int = 0,
    clean_up: bool = False,
    replace: Callable[[str], str] | None = None,
) -> Rule:
    return Rule(kind, find, put, start, stop, clean_up, replace)


CLEAN_UP = _rule("clean-up")


# The fields of the rules: their place in `Rule`, name, type, and default (of Hugging Face's
# reader).
_FIELDS: dict[str, tuple[tuple[str, str, type, Any], ...]] = {
    "Replace": (("put", "content", str, None),),
    "Strip": (("find", "content", str, None), ("start", "start", int, 0), ("stop", "stop", int, 0)),
    "Metaspace": (("find", "replacement", str, "▁"), ("put", "prepend_scheme", str, "always")),
    "WordPiece": (("find", "prefix", str, "##"), ("clean_up", "cleanup", bool, True)),
    "BPEDecoder": (("find", "suffix", str, "</w>"),),
    "SentencePiece": (("put", "strip", str, "one"),),
    "CTC": (
        ("find", "pad_token", str, "<pad>"),
        ("put", "word_delimiter_token", str, "|"),
        ("clean_up", "cleanup", bool, True),
    ),
}


def _read(rule: dict[str, Any]) -> Rule:
    """Return a rule with its fields checked."""
    kind = rule["type"]
    fields: dict[str, Any] = {}
    for place, name, wanted, default in _FIELDS.get(kind, ()):
        value = fields[place] = rule.get(name, default)
        is_count = value.__class__ is int and value >= 0
        if not (is_count if wanted is int else isinstance(value, wanted)):
            raise _wrong(kind, name, wanted.__name__, value)
        if (value if wanted is int else len(value) if wanted is str else 0) > MAX_SIZE:
            raise _wrong(
                kind, name, f"at most {MAX_SIZE}" + ("" if wanted is int else " characters"), value
            )
        if kind in ("Strip", "Metaspace") and place == "find" and len(value) != 1:
            raise _wrong(kind, name, "one character", value)
    if kind == "SentencePiece" and fields["put"] not in STRIPS:
        raise _wrong(kind, "strip", ", ".join(STRIPS[:2]) + " or " + STRIPS[2], fields["put"])
    if kind == "Metaspace":
        scheme = fields["put"]
        if scheme not in ("first", "never", "always"):
            raise _wrong(kind, "prepend_scheme", "first, never or always", scheme)
        keeps = scheme == "never" or rule.get("add_prefix_space") is False
        fields["put"] = " " if keeps else ""  # for the first token
    if kind == "Replace":
        fields["find"], is_regex = _pattern(rule)
        most = MAX_PATTERN if is_regex else MAX_SIZE
        if len(fields["find"]) > most:
            raise _wrong(kind, "pattern", f"at most {most} characters", fields["find"])
        if is_regex:
            fields["replace"] = _substitution(fields["find"], fields["put"])
    return _rule(kind, **fields)


def _wrong(kind: str, name: str, wanted: str, value: Any) -> TokenizerFormatError:
    return TokenizerFormatError(
        f"decoder {kind}: {name} should be {wanted}, and is {repr(value)[:60]}"
    )


def _pattern(rule: dict[str, Any]) -> tuple[str, bool]:
    """Return the pattern of a Replace, and whether it is a regular expression."""
    pattern = rule.get("pattern")
    if isinstance(pattern, dict) and len(pattern) == 1:
        for kind in ("String", "Regex"):
            if isinstance(pattern.get(kind), str):
                return pattern[kind], kind == "Regex"
    raise _wrong("Replace", "pattern", '{"String": …} or {"Regex": …}', pattern)


def _substitution(pattern: str, put: str) -> Callable[[str], str]:
    """Return the function that replaces every match of a regular expression."""
    matches = _compile[0](pattern)

    def replaced(text: str) -> str:
        out, at = [], 0
        for first, last in matches(text):
            out += [text[at:first], put]
            at = last
        return "".join(out) + text[at:]

    return replaced


def replacement(rule: Rule) -> Callable[[str], str]:
    """Return a Replace as a function of a whole text."""
    if rule.replace:
        return rule.replace
    if not rule.find:
        return lambda text: replace_all(text, "", rule.put)
    return lambda text: text.replace(rule.find, rule.put)
