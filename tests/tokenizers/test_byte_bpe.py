"""Byte-pair encoding: against the definition and the peers, and on pieces too long to scan."""

import itertools
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detok_py.errors import TokenizerFormatError, VocabularyError
from detok_py.tokenizers.byte_bpe import (
    MAX_SCANNED,
    MAX_WORDS,
    NEVER,
    BytePairEncoder,
    RankEncoder,
    Seams,
    Words,
    merge,
)


def merge_by_definition(parts: list, rank, skip: int = 0) -> list:
    """Merge the leftmost pair of the lowest rank until there is none."""
    while len(parts) > 1:
        lowest, at = min(
            (rank((left, right), NEVER), at)
            for at, (left, right) in enumerate(itertools.pairwise(parts))
        )
        if lowest == NEVER:
            break
        parts[at : at + 2] = [parts[at] + parts[at + 1][skip:]]
    return parts


def random_rules(
    rnd: random.Random, letters: str, count: int, prefix: str = ""
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return a vocabulary and merges for its tokens, for some tokens in several ways."""
    tokens = [*letters, *[prefix + letter for letter in letters if prefix]]
    rules: list[tuple[str, str]] = []
    for _ in range(count):
        left, right = (
            rnd.choice(tokens),
            rnd.choice([token for token in tokens if token.startswith(prefix)]),
        )
        if (left, right) not in rules and len(left + right) < 12:
            rules.append((left, right))
            tokens.append(left + right[len(prefix) :])
    return {token: at for at, token in enumerate(dict.fromkeys(tokens))}, rules


@given(st.text("abc", max_size=300), st.integers(0, 2**32))
def test_short_and_long_pieces_merge_by_the_definition(text, seed):
    _, rules = random_rules(random.Random(seed), "abc", 30)
    rank = {rule: at for at, rule in enumerate(rules)}.get
    assert merge(list(text), rank) == merge_by_definition(list(text), rank)


OPTIONS = [
    {}, {"ignore_merges": True}, {"unk_token": "?"}, {"unk_token": "?", "fuse_unk": True}, {"byte_fallback": True, "unk_token": "?"},
    {"byte_fallback": True, "unk_token": "?", "fuse_unk": True}, {"continuing_subword_prefix": "##"},
    {"end_of_word_suffix": "</w>", "unk_token": "?"},
]  # fmt: skip


@pytest.mark.native
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_random_merges_encode_random_pieces_as_the_peer_does(options):
    tokenizers = pytest.importorskip("tokenizers")
    rnd = random.Random(str(options))
    for _ in range(20):
        vocab, rules = random_rules(rnd, "abc▁", 25, options.get("continuing_subword_prefix", ""))
        for extra in (
            "?",
            "a</w>",
            "b</w>",
            "ab</w>",
            *[f"<0x{byte:02X}>" for byte in (0x78, 0xC3, 0xA9)],
        ):
            vocab.setdefault(extra, len(vocab))
        if "end_of_word_suffix" in options:
            rules.append(("a", "b</w>"))
        theirs = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=rules, **options))
        ours = BytePairEncoder(vocab, rules, **options)
        for _ in range(60):
            text = "".join(rnd.choices("aabbcc▁▁xyéz", k=rnd.choice([1, 2, 5, 12, 150])))
            assert ours.encode(text) == theirs.encode(text).ids, (text, rules)


@given(st.lists(st.tuples(st.binary(min_size=2, max_size=3)), max_size=40), st.binary(max_size=200))
def test_the_ids_of_ranks_decode_to_the_same_bytes(tokens, data):
    ranks = {bytes([one]): one for one in range(256)}
    for (token,) in tokens:
        ranks.setdefault(token, len(ranks))
    encoder = RankEncoder(ranks)
    text_of = {rank: token for token, rank in ranks.items()}
    assert b"".join(text_of[one] for one in encoder.encode_bytes(data)) == data


@pytest.mark.native
def test_ranks_encode_as_tiktoken_does():
    tiktoken = pytest.importorskip("tiktoken")
    rnd = random.Random(3)
    for _ in range(30):
        ranks = {bytes([one]): one for one in range(256)}
        tokens = [b"a", b"b", b"c", b"\xc3", b"\xa9"]
        for _ in range(30):
            tokens.append(rnd.choice(tokens) + rnd.choice(tokens))
            ranks.setdefault(tokens[-1], len(ranks))
        theirs = tiktoken.Encoding(
            "one", pat_str=r"[\s\S]+", mergeable_ranks=ranks, special_tokens={}
        )
        ours = RankEncoder(ranks)
        for _ in range(40):
            text = "".join(rnd.choices("aabbccé", k=rnd.choice([1, 3, 10, 150])))
            assert ours.encode(text) == theirs.encode_ordinary(text)


@given(st.text("ab▁,", max_size=60), st.integers(0, 2**32))
def test_cutting_at_seams_does_not_change_the_ids(text, seed):
    vocab, rules = random_rules(random.Random(seed), "ab▁,", 25)
    rank = {rule: at for at, rule in enumerate(rules)}.get
    assert BytePairEncoder(vocab, rules).encode(text) == [
        vocab[part] for part in merge_by_definition(list(text), rank)
    ]


def test_seams_are_before_spaces_that_no_merge_joins_to_the_left():
    assert Seams("▁", {"▁"}).split("▁▁a▁b") == ["▁▁a", "▁b"]
    assert Seams("▁", ()).split("a▁▁b") == ["a", "▁", "▁b"]
    assert Seams("▁", {"-", "]", "^"}).split("a-▁b]▁c▁d") == ["a-▁b]▁c", "▁d"]


def test_ignore_merges_encodes_a_token_as_itself():
    vocab = {"a": 0, "b": 1, "ab": 2, "c": 3, "abc": 4}
    assert BytePairEncoder(vocab, [("a", "b")], ignore_merges=True).encode("abc") == [4]
    assert BytePairEncoder(vocab, [("a", "b")]).encode("abc") == [2, 3]


@pytest.mark.slow
def test_a_long_piece_without_a_seam_takes_nearly_linear_time():
    # In quadratic time, half a million symbols would take days.
    vocab, rules = {"a": 0, "aa": 1, "aaaa": 2}, ["a a", "aa aa"]
    assert BytePairEncoder(vocab, rules).encode("a" * 500_001) == [2] * 125_000 + [0]
    assert MAX_SCANNED < 1000


def test_the_cache_of_words_is_bounded():
    words = Words(lambda word: (len(word),))
    for at in range(MAX_WORDS + 10):
        assert words[str(at)] == (len(str(at)),)
    assert len(words) <= MAX_WORDS
    assert words["x" * 1000] == (1000,)
    assert "x" * 1000 not in words


def test_changing_a_result_does_not_change_the_cache():
    encoder = BytePairEncoder({"a": 0}, [])
    encoder.encode("a").append(9)
    assert encoder.encode("a") == [0]


@pytest.mark.parametrize(
    "merges",
    [
        ["a"],
        ["a b c"],
        [["a"]],
        [["a", "b", "c"]],
        [["a", "x"]],
        ["a x"],
        [["a", ""]],
        [[1, 2]],
        [1],
        [["a", "b"]],
    ],
)
def test_invalid_merges_are_refused(merges):
    with pytest.raises(TokenizerFormatError):
        BytePairEncoder({"a": 0, "b": 1}, merges)


def test_ranks_must_include_all_bytes():
    with pytest.raises(TokenizerFormatError, match="0x00"):
        RankEncoder({b"a": 0})


def test_a_missing_unknown_token_is_named_when_it_is_needed():
    encoder = BytePairEncoder({"a": 0}, [], unk_token="<unk>")
    assert encoder.encode("a") == [0]
    with pytest.raises(VocabularyError, match="<unk>"):
        encoder.encode("b")


@pytest.mark.slow
@pytest.mark.native
@pytest.mark.parametrize("name", ["gpt2", "qwen3", "llama2"])
def test_real_merges_encode_as_the_peer_does(name, data):
    import lzma

    tokenizers = pytest.importorskip("tokenizers")
    source = lzma.decompress(
        (data / "tokenizers" / name / "tokenizer.json.xz").read_bytes()
    ).decode()
    model = json.loads(source)["model"]
    ours = BytePairEncoder(
        model["vocab"],
        model["merges"],
        unk_token=model["unk_token"],
        byte_fallback=model["byte_fallback"],
        fuse_unk=model["fuse_unk"],
    )
    theirs = tokenizers.Tokenizer.from_str(source).model
    rnd = random.Random(name)
    letters = [token for token in model["vocab"] if len(token) <= 3][:4000]
    for _ in range(200):
        piece = "".join(rnd.choices(letters, k=rnd.choice([1, 3, 8, 100])))
        assert ours.encode(piece) == [token.id for token in theirs.tokenize(piece)], piece
