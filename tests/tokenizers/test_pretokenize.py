"""Pre-tokenizers: published patterns, speed on long runs, and random texts against the peer."""

import itertools
import json
import random

import pytest
from work import lines_run

from detok_py.errors import TokenizerFormatError
from detok_py.patterns import unicode_classes as uc
from detok_py.patterns.compiler import MAX_RUN, compile_pattern
from detok_py.patterns.known import CL100K, O200K, QWEN
from detok_py.tokenizers.byte_bpe import RankEncoder
from detok_py.tokenizers.pretokenize import (
    GPT2_PATTERN,
    byte_level,
    compile_pretokenizer,
    compile_split,
)

DEEPSEEK = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+"""
    r"|\s+(?!\S)|\s+"
)
# tiktoken's cl100k is possessive and has another end.
POSSESSIVE = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
KIMI = (
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
PATTERNS = {
    "gpt2": GPT2_PATTERN, "cl100k": CL100K, "llama3": QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|"), "qwen": QWEN, "o200k": O200K, "deepseek": DEEPSEEK, "kimi": KIMI,
    "bloom": BLOOM, "runs of space": r" {2,}", "three digits": r"\p{N}{1,3}",
}  # fmt: skip
BEHAVIOURS = ["Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"]

KINDS = [
    "aAbBzZ'sStTrReEvVlLdDmM ", " \t\n\r\u00a0\u2028\u3000\x0b\x0c\x85\x1c", "0123456789²½Ⅷ٣१", "!?.,;:-_'\"()[]{}/\\@#$%^&*+=<>|~`",
    "éßñçÀÉǅʰªºſKİıŉ", "中文龥日本語ひらカター々", "한국어", "\u0301\u0327\u0915\u094d\u0937\u200d\u200c", "😀👩🇩🇪𝐀𝟙🀄𠮷𐐀",
    "กขอำแ", "عربي،۔؟", "‘’“”—…。、！？", "▁Ġ�\ufeff\u00ad", "ⓐⒶ€∑♥№™",
]  # fmt: skip


def random_text(rnd: random.Random) -> str:
    """Return runs of different kinds of characters, with random characters from all of Unicode."""
    out: list[str] = []
    length = rnd.choice([0, 1, 2, 5, 20, 60])
    while len(out) < length:
        stranger = chr(
            rnd.choice(
                [
                    rnd.randrange(0x3000),
                    rnd.randrange(0xE000, 0x32500),
                    rnd.randrange(0xE0000, 0x110000),
                ]
            )
        )
        out += rnd.choices(rnd.choice([*KINDS, stranger]), k=rnd.choice([1, 1, 2, 3, 7]))
    return "".join(out)


def split(
    source: str, behaviour: str = "Isolated", invert: bool = False, kind: str = "Regex"
) -> dict:
    return {"type": "Split", "pattern": {kind: source}, "behavior": behaviour, "invert": invert}


CONFIGS = [
    *[split(source) for source in PATTERNS.values()],
    split(O200K, "Removed", True),
    *[split(source, behaviour, invert, kind) for kind, source in (("Regex", r"\s+"), ("String", "a"), ("String", ""), ("Regex", r"\b"))
      for behaviour in BEHAVIOURS for invert in (False, True)],
    split(r"(?=(\d{3})+(?!\d))"),
    split(r"\w+|[^\w\s]+", "Removed", True),
    split(r"^\s+|\s+$", "Removed"),
    *[{"type": "ByteLevel", "add_prefix_space": a, "use_regex": b, "trim_offsets": True} for a in (True, False) for b in (True, False)],
    *[{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cut}
      for scheme in ("always", "first", "never") for cut in (True, False)],
    {"type": "Digits", "individual_digits": True},
    {"type": "Digits", "individual_digits": False},
    *[{"type": "Punctuation", "behavior": behaviour} for behaviour in BEHAVIOURS],
    {"type": "BertPreTokenizer"}, {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "UnicodeScripts"},
    {"type": "CharDelimiterSplit", "delimiter": "a"}, {"type": "FixedLength", "length": 3},
    {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}]},
    {"type": "Sequence", "pretokenizers": [
        {"type": "Punctuation", "behavior": "Contiguous"},
        {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True, "trim_offsets": True},
        {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]")]},
]  # fmt: skip


@pytest.mark.native
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: json.dumps(config)[:70])
def test_cuts_random_texts_where_the_peer_does(config):
    tokenizers = pytest.importorskip("tokenizers")
    document = json.loads(tokenizers.Tokenizer(tokenizers.models.BPE()).to_str())
    theirs = tokenizers.Tokenizer.from_str(
        json.dumps({**document, "pre_tokenizer": config})
    ).pre_tokenizer
    ours = compile_pretokenizer(config)
    rnd = random.Random(json.dumps(config))
    for text in [random_text(rnd) for _ in range(40)]:
        if text:
            assert ours(text) == [piece for piece, _ in theirs.pre_tokenize_str(text)], text


@pytest.mark.native
@pytest.mark.parametrize("source", [POSSESSIVE, O200K], ids=["cl100k", "o200k"])
def test_cuts_random_texts_where_tiktoken_does(source):
    tiktoken = pytest.importorskip("tiktoken")
    # Every pair of bytes is a token, so the pairs show where a piece ends.
    ranks = {bytes([one]): one for one in range(256)}
    ranks.update(
        (bytes([one, two]), 256 + one * 256 + two) for one in range(256) for two in range(256)
    )
    theirs = tiktoken.Encoding("pairs", pat_str=source, mergeable_ranks=ranks, special_tokens={})
    encoder, cut = RankEncoder(ranks), compile_split(source)
    rnd = random.Random(source)
    for text in [random_text(rnd) for _ in range(400)]:
        assert encoder.encode_all(cut(text)) == theirs.encode_ordinary(text), text


def test_the_published_patterns_cut_as_documented():
    text = "I'LL pay 12345 €\n\n  twice   now"
    assert compile_split(CL100K, "oniguruma")(text) == [
        "I", "'LL", " pay", " ", "123", "45", " €\n\n", " ", " twice", "  ", " now",
    ]  # fmt: skip
    assert compile_split(QWEN, "oniguruma")("123")[:2] == ["1", "2"]
    assert compile_split(GPT2_PATTERN, "oniguruma")("I'LL") == ["I", "'", "LL"]
    assert compile_split(O200K, "oniguruma")("camelCase's HTTPServer") == [
        "camel",
        "Case's",
        " HTTPServer",
    ]


def test_what_one_part_of_a_pattern_begins_with_is_not_taken_for_another_of_the_same_sets():
    pattern = compile_pattern(r"(?:a{2}b{2})?x|(?:a{2}|b{2})?b")
    assert pattern.findall("bb aab x") == ["b", "b", "aab", "x"]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("source", [*PATTERNS.values(), POSSESSIVE], ids=[*PATTERNS, "possessive"])
@pytest.mark.parametrize(
    "unit", ["a", "A", " ", "\n", "7", "!", "é", "中", "\u0301", "ʰ", "😀", " \n", "aA", "Aa1 !"]
)
def test_a_long_run_takes_linear_time(source, unit):
    # In quadratic time, 200,000 characters would take hours.
    pattern = compile_pattern(source)
    assert not pattern.guarded
    for tail in ("", "x", "\n", " "):
        text = unit * (200_000 // len(unit)) + tail
        assert sum(map(len, pattern.findall(text))) <= len(text)


@pytest.mark.parametrize(
    "source",
    [
        r"(a+b?)+$", r"(\w+\s?)+$", r"(x+x+)+y", r"(?:a|ab|b)*c", r"a*a*a*b", r"\s*\s*x", r"(?:a?){30}a", r"(a?){1,30}b",
        r"(?:(?:a{1,16}){1,16}){1,16}b", "a?" * 30 + "a" * 30, r"(a|aa)+$", r"(.*,){20}z", r"\s+(?=\s+x)",
    ],
)  # fmt: skip
def test_a_pattern_with_unbounded_backtracking_is_refused(source):
    with pytest.raises(TokenizerFormatError, match="the pattern .* is not supported"):
        compile_pattern(source)


@pytest.mark.parametrize("source", [r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", r"a+b|a", r"\s+$"])
def test_a_pattern_of_quadratic_time_refuses_long_runs(source):
    pattern = compile_pattern(source)
    assert pattern.guarded
    unit = "1" if "N" in source else "a" if "a" in source else " "
    assert pattern.findall("x" + unit * 4 + "x") is not None
    with pytest.raises(TokenizerFormatError, match=f"run of {MAX_RUN + 1} "):
        pattern.findall(unit * (MAX_RUN + 1))


def test_a_lookahead_cuts_groups_of_three_digits_from_the_right():
    assert compile_pretokenizer(split(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"))("x1234567y") == [
        "x",
        "1",
        "234",
        "567",
        "y",
    ]


@pytest.mark.parametrize(
    "source",
    [
        *(r"\1", "(a", "a)", "[a", r"\X", "a{5000}", r"\p{Foo}", "*a", r"(?<n>a)\k<n>"),
        *("[z-a]", "(?i:strasse)"),
    ],
)
def test_an_unsupported_pattern_is_named(source):
    with pytest.raises(TokenizerFormatError):
        compile_pattern(source)


def test_a_class_may_contain_classes_and_intersections():
    assert compile_pattern(r"[a-z&&[^aeiou]]+").findall("banana split") == [
        "b",
        "n",
        "n",
        "spl",
        "t",
    ]
    assert compile_pattern(r"[[:alpha:]_]+").findall("a_b1é") == ["a_b", "é"]
    assert compile_pattern(r"[^\P{L}a]").findall("ab1é") == ["b", "é"]


def test_case_is_ignored_as_unicode_folds_it():
    assert compile_pattern(r"(?i:'s|k)").findall("'S 'ſ \u212a K") == ["'S", "'ſ", "\u212a", "K"]


def test_case_is_ignored_in_an_empty_set():
    assert compile_pattern("(?i)[a&&b]|c").findall("abC") == ["C"]


def test_characters_above_ffff_are_classified():
    pattern = compile_pattern(r"\p{Lu}+|\p{N}|[^\p{L}\p{N}]+")
    assert pattern.findall("𐐀𝐀A𝟙😀!") == ["𐐀𝐀A", "𝟙", "😀!"]


def test_the_tables_are_those_of_unicode_16_on_every_python():
    young = {
        "Lu": 0x1C89,
        "Ll": 0x10D70,
        "Nd": 0x16D70,
        "Mn": 0x897,
        "Lo": 0x31350,
        "So": 0x1FAE9,
        "Mc": 0x1171E,
    }
    for name, code_point in young.items():
        assert uc.contains(uc.category(name), code_point), name
        assert not uc.contains(uc.category("Cn"), code_point)


def test_every_code_point_has_one_category():
    # The values of General_Category (Unicode Standard Annex 44, section 5.7.1).
    names = (
        "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn"
    )
    ranges = sorted(pair for name in names.split() for pair in uc.category(name))
    assert ranges[0][0] == 0 and ranges[-1][1] == 0x10FFFF
    assert all(left[1] + 1 == right[0] for left, right in itertools.pairwise(ranges))


def test_bytes_are_spelt_in_the_byte_alphabet():
    assert byte_level("é\n") == "Ã©Ċ"


def test_no_piece_is_empty_and_an_empty_text_has_none():
    for config in CONFIGS:
        assert compile_pretokenizer(config)("") == []
        assert "" not in compile_pretokenizer(config)("a, b  c\n\n1")


def test_metaspace_first_applies_only_at_the_start_of_the_input():
    cut = compile_pretokenizer(
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}
    )
    assert cut("a b") == ["▁a", "▁b"]
    assert cut("a b", first=False) == ["a", "▁b"]


@pytest.mark.parametrize(
    "config",
    [
        {"type": "Jieba"}, {}, {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Glued", "invert": False},
        {"type": "Split", "pattern": "a", "behavior": "Isolated"}, {"type": "Metaspace", "replacement": "", "prepend_scheme": "always"},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "sometimes"}, {"type": "Sequence"},
        {"type": "ByteLevel", "add_prefix_space": 1}, {"type": "CharDelimiterSplit", "delimiter": "ab"},
        {"type": "FixedLength", "length": 0},
        {"type": "Sequence", "pretokenizers": [{"type": "Jieba"}]}, {"type": ["Split"]}, ["Split"],
    ],
)  # fmt: skip
def test_an_unsupported_pre_tokenizer_is_refused(config):
    with pytest.raises(TokenizerFormatError):
        compile_pretokenizer(config)


def test_pieces_keep_their_characters_above_the_first_plane() -> None:
    pattern = compile_pattern(CL100K, "rust")
    text = "🦊🦊 a𝒳b 𝟙𝟚𝟛𝟜 x 🦊"
    assert pattern.findall(text) == ["🦊🦊", " a𝒳b", " ", "𝟙𝟚𝟛", "𝟜", " x", " 🦊"]


@pytest.mark.parametrize("pattern", ["(" * 30 + "a" + ")?" * 30, "(?:" * 30 + "a" + "){2}" * 30])
def test_a_repetition_in_a_repetition_does_not_double_the_work(pattern):
    few, many = [
        lines_run(lambda n=n: compile_pattern("(?:" * n + "a" + "){2}" * n)) for n in (5, 20)
    ]
    assert many < 40 * few
    compile_pattern(pattern)


def test_repetitions_that_follow_each_other_are_at_most_four():
    compile_pattern("a{2}{2}{2}{2}")
    with pytest.raises(TokenizerFormatError, match="more than 4 repetitions follow each other"):
        compile_pattern("a" + "{2}" * 30)
