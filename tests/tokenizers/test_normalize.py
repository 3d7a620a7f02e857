"""Normalizers: examples, every code point and random texts against the peer, long runs of marks."""

import base64
import json
import random
import struct
import unicodedata

import pytest
from small_tokenizers import character_map
from test_pretokenize import random_text

from detok_py.errors import TokenizerFormatError
from detok_py.tokenizers.normalize import compile_normalizer, lower, precompiled, unicode_form


def replace(pattern: str, content: str, kind: str = "Regex") -> dict:
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def bert(
    clean: bool = True, chinese: bool = True, accents: bool | None = None, lowercase: bool = True
) -> dict:
    return {
        "type": "BertNormalizer",
        "clean_text": clean,
        "handle_chinese_chars": chinese,
        "strip_accents": accents,
        "lowercase": lowercase,
    }


CONFIGS = [
    *[{"type": kind} for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel")],
    bert(), bert(lowercase=False), bert(False, False, True, False), bert(True, False, False, True),
    replace(" ", "▁", "String"), replace("aa", "a", "String"), replace("", "-", "String"), replace(r"\s+", " "), replace(r"a*", "x"),
    replace(r"(?:^\s+|\s+$)", ""), replace(r"\p{L}|\d+", "<>"), replace("^", "^"), replace(r"\b", "|"),
    {"type": "Prepend", "prepend": "▁"}, {"type": "Strip", "strip_left": True, "strip_right": False},
    {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, replace(" {2,}", "▁")]},
    {"type": "Sequence", "normalizers": []},
]  # fmt: skip


def peer(config):
    tokenizers = pytest.importorskip("tokenizers")
    document = json.loads(tokenizers.Tokenizer(tokenizers.models.BPE()).to_str())
    return tokenizers.Tokenizer.from_str(json.dumps({**document, "normalizer": config})).normalizer


@pytest.mark.slow
@pytest.mark.sampled(6)
@pytest.mark.native
@pytest.mark.parametrize(
    "config", CONFIGS[:12], ids=lambda config: json.dumps(config, ensure_ascii=False)[:100]
)
def test_every_assigned_character_is_normalized_as_the_peer_does(config):
    theirs, ours = peer(config), compile_normalizer(config)
    for begin in [*range(0, 0x20000, 4096), 0xE0000]:
        characters = [chr(one) for one in range(begin, begin + 4096) if not 0xD800 <= one < 0xE000]
        # The marks next to it sort before and after nearly all others, which tests its combining
        # class.
        text = "\n".join(f"a{one}\u0334b\u0345{one}" for one in characters)
        assert ours(text) == theirs.normalize_str(text)


@pytest.mark.native
@pytest.mark.parametrize(
    "config", CONFIGS, ids=lambda config: json.dumps(config, ensure_ascii=False)[:70]
)
def test_random_texts_are_normalized_as_the_peer_does(config):
    theirs, ours = peer(config), compile_normalizer(config)
    rnd = random.Random(json.dumps(config))
    for text in [random_text(rnd) for _ in range(60)]:
        assert ours(text) == theirs.normalize_str(text), text


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.native
@pytest.mark.parametrize("name", ["t5_small", "xlmr"])
def test_a_real_precompiled_map_normalizes_as_the_peer_does(name, data):
    import lzma

    config = json.loads(
        lzma.decompress((data / "tokenizers" / name / "tokenizer.json.xz").read_bytes())
    )["normalizer"]
    theirs, ours = peer(config), compile_normalizer(config)
    rnd = random.Random(name)
    for text in [random_text(rnd) for _ in range(300)]:
        assert ours(text) == theirs.normalize_str(text), text
    for begin in range(0, 0x20000, 4096):
        text = "".join(
            f"a{chr(one)}\u0301{chr(one)}"
            for one in range(begin, begin + 4096)
            if not 0xD800 <= one < 0xE000
        )
        assert ours(text) == theirs.normalize_str(text)


def test_a_precompiled_map_replaces_its_keys():
    normalize = precompiled(character_map({"A": "a", "&": "and", "!": ""}))
    assert normalize("A&B!é") == "aandBé"


def test_a_short_cluster_is_replaced_whole_if_a_prefix_is_in_the_map():
    assert (
        precompiled(character_map({"A": "a"}))("A\u0301A\u0301\u0301\u0301B\u0301")
        == "a" + "a\u0301\u0301\u0301" + "B\u0301"
    )


@pytest.mark.parametrize(
    ("charsmap", "size"),
    [
        (b"", 0),
        (b"\0", 0),
        (b"\x04\0\0\0", 4),
        (b"\x05\0\0\0abcde", 5),
        (b"\xff\xff\xff\xff" + bytes(64), 2**32 - 1),
    ],
)
def test_a_truncated_map_is_refused(charsmap, size):
    says = f"precompiled_charsmap declares a trie of {size} bytes"
    with pytest.raises(TokenizerFormatError, match=says):
        compile_normalizer(
            {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
        )


def test_a_map_with_an_offset_out_of_range_is_refused():
    normalize = precompiled(struct.pack("<I4I", 16, 0x7FFFFFFF, 0, 0, 0) + b"a\0")
    with pytest.raises(TokenizerFormatError, match="damaged"):
        normalize("abc")


def test_lower_case_does_not_depend_on_neighbours():
    assert lower("ΟΔΟΣ ΣΑΣ") == "οδοσ σασ"
    assert lower("İI") == "i̇i"
    assert lower("\u1c89\U00010d50x") == "\u1c8a\U00010d70x"


def test_characters_that_the_old_tables_lack_are_unchanged():
    assert unicode_form("NFKC", "㋿ ﬁ") == "㋿ fi"


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_long_runs_of_marks_are_sorted_in_time(form):
    for length in (10, 40, 100):
        text = "é" + "\u0301\u0327\u0345\u0f73" * length + "x"
        assert unicode_form(form, text) == unicodedata.normalize(form, text)
    long = unicode_form(form, "a" + "\u0301\u0327" * 200_000)  # CPython alone takes quadratic time
    assert len(long) > 399_000


def test_strip_removes_white_space_of_all_kinds_only():
    strip = compile_normalizer({"type": "Strip", "strip_left": True, "strip_right": True})
    assert strip("\u3000\x85 a\x1c ") == "a\x1c"


@pytest.mark.parametrize(
    ("sides", "left"),
    [({}, "a"), ({"strip_left": False}, " a"), ({"strip_right": False}, "a ")],
)
def test_strip_removes_white_space_on_both_sides_unless_told_not_to(sides, left):
    assert compile_normalizer({"type": "Strip", **sides})(" a ") == left


def test_an_empty_text_stays_empty():
    for config in CONFIGS:
        assert compile_normalizer(config)("") == ""


@pytest.mark.parametrize(
    "config",
    [
        {"type": "Stem"}, {}, {"type": "Sequence"}, {"type": "Sequence", "normalizers": [{"type": "Stem"}]}, {"type": "Prepend"},
        {"type": "Replace", "pattern": "a", "content": ""}, {"type": "Replace", "pattern": {"Regex": "(a"}, "content": ""},
        {"type": "Replace", "pattern": {"Regex": "a"}}, {"type": "Precompiled", "precompiled_charsmap": "?"}, {"type": "Precompiled"},
        {"type": "BertNormalizer", "strip_accents": "yes"}, {"type": "Strip", "strip_left": 1}, ["NFC"], {"type": ["NFC"]},
    ],
)  # fmt: skip
def test_an_unsupported_normalizer_is_refused(config):
    with pytest.raises(TokenizerFormatError):
        compile_normalizer(config)


def test_deep_nesting_is_refused():
    config: dict = {"type": "NFC"}
    for _ in range(40):
        config = {"type": "Sequence", "normalizers": [config]}
    with pytest.raises(TokenizerFormatError, match="deep"):
        compile_normalizer(config)


@pytest.mark.parametrize(
    ("capital", "small"),
    [
        *(("\u1c89", "\u1c8a"), ("\ua7cb", "\u0264"), ("\ua7cc", "\ua7cd"), ("\ua7ce", "\ua7cf")),
        *(("\ua7d2", "\ua7d3"), ("\ua7da", "\ua7db"), ("\ua7dc", "\u019b")),
        ("\ua7d4", "\ua7d5"),
        ("\U00016ea0", "\U00016ebb"),
        ("\U00016eb8", "\U00016ed3"),
    ],
)
def test_capitals_of_unicode_17_have_small_letters_on_every_python(capital, small):
    lower = compile_normalizer({"type": "Lowercase"})
    assert lower(capital + small) == small * 2
    assert lower("\U00016eb9") == "\U00016eb9"  # not assigned
