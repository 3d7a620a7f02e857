"""Byte-pair encoding: against the definition and the peers, and on pieces too long to scan."""

import itertools
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detok_py.decode.byte_level import ALPHABET
from detok_py.errors import TokenizerFormatError, VocabularyError
from detok_py.tokenizers.byte_bpe import (
    MAX_SCANNED,
    MAX_WORDS,
    NEVER,
    BytePairEncoder,
    RankEncoder,
    Words,
    merge,
)
from detok_py.tokenizers.hf_document import read_merges
from detok_py.tokenizers.pretokenize import byte_level
from detok_py.tokenizers.seams import MAX_PAIRS, CharacterSeams, SpaceSeams


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
    assert SpaceSeams("▁", {"▁"}).split("▁▁a▁b") == ["▁▁a", "▁b"]
    assert SpaceSeams("▁", ()).split("a▁▁b") == ["a", "▁", "▁b"]
    assert SpaceSeams("▁", {"-", "]", "^"}).split("a-▁b]▁c▁d") == ["a-▁b]▁c", "▁d"]


LETTERS = ["a", " ", "é", "ñ", "日", "本", "の", "語", "🦊", "🦋"]
BYTES = {bytes((one,)): one for one in range(256)}


def random_tokens(rnd: random.Random, count: int) -> list[bytes]:
    """Return tokens that are joined of others, many of parts of two characters."""
    tokens = [bytes((byte,)) for byte in "".join(LETTERS).encode()]
    for _ in range(count):
        tokens.append(rnd.choice(tokens) + rnd.choice(tokens))
        if rnd.random() < 0.5:  # what a text has
            text = "".join(rnd.choices(LETTERS, k=3)).encode()
            at = rnd.randrange(len(text) - 1)
            tokens.append(text[at : at + rnd.choice((2, 3))])
    return tokens


@given(st.lists(st.text(LETTERS, min_size=1, max_size=40), max_size=6), st.integers(0, 2**32))
def test_cutting_between_characters_does_not_change_the_ids(texts, seed):
    ranks = dict(BYTES)
    for token in random_tokens(random.Random(seed), 60):
        ranks.setdefault(token, len(ranks))
    encoder = RankEncoder(ranks)
    encoder.encode("日" * 40)  # enough for the seams to be known
    for text in texts:
        merged = merge_by_definition(
            [bytes((byte,)) for byte in text.encode()],
            lambda pair, never: ranks.get(pair[0] + pair[1], never),
        )
        whole = ranks.get(text.encode())
        assert encoder.encode(text) == (
            [ranks[part] for part in merged] if whole is None else [whole]
        )


@given(
    st.lists(st.text(LETTERS, min_size=1, max_size=40), max_size=6),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_cutting_spelt_characters_does_not_change_the_ids(texts, seed, ignore_merges):
    spelt = [*map(byte_level, LETTERS)]
    _, rules = random_rules(random.Random(seed), "".join(dict.fromkeys("".join(spelt))), 60)
    tokens = [*ALPHABET, *(left + right for left, right in rules)]
    vocab = {token: at for at, token in enumerate(dict.fromkeys(tokens))}
    rank = {rule: at for at, rule in enumerate(rules)}.get
    encoder = BytePairEncoder(vocab, rules, ignore_merges=ignore_merges)
    encoder.encode(byte_level("日" * 100))
    for text in map(byte_level, texts):
        merged = merge_by_definition(list(text), rank)
        known = ignore_merges and text in vocab
        assert encoder.encode(text) == (
            [vocab[text]] if known else [vocab[part] for part in merged]
        )


def test_new_sentences_of_the_same_words_are_not_merged_again():
    words = ["日本", "の", "語を", "きつね", "が", "読む", "、とても", "しずかに"]
    ranks = dict(BYTES)
    for word in words:
        for at in range(2, len(word.encode()) + 1):
            ranks.setdefault(word.encode()[:at], len(ranks))
    encoder, rnd = RankEncoder(ranks), random.Random(5)
    for _ in range(500):
        encoder.encode("".join(rnd.choices(words, k=12)))
    # At first a few sentences are merged whole; then only what is between two seams.
    assert len(encoder._words) == 500
    assert 0 < len(encoder._parts) <= 2 * len(words)


def test_pairs_of_characters_are_remembered_up_to_a_number():
    seams = CharacterSeams(lambda: "日本".encode(), 0)
    for at in range(300):
        seams.split("".join(chr(0x4E00 + (at * 331 + one) % 20000) for one in range(300)))
    assert 0 < len(seams) <= MAX_PAIRS
    assert seams.split("日本日") == ["日本", "日"]


def test_ignore_merges_encodes_a_token_as_itself():
    vocab = {"a": 0, "b": 1, "ab": 2, "c": 3, "abc": 4}
    assert BytePairEncoder(vocab, [("a", "b")], ignore_merges=True).encode("abc") == [4]
    assert BytePairEncoder(vocab, [("a", "b")]).encode("abc") == [2, 3]


def test_without_a_token_for_each_byte_a_long_word_is_not_cut():
    ids = {character: at for at, character in enumerate(dict.fromkeys(byte_level("日本")))}
    word = byte_level("日本" * 5)
    assert BytePairEncoder(ids, []).encode(word) == [ids[character] for character in word]


@pytest.mark.slow
def test_a_long_piece_without_a_seam_takes_nearly_linear_time():
    # In quadratic time, half a million symbols would take days.
    vocab, rules = {"a": 0, "aa": 1, "aaaa": 2}, [("a", "a"), ("aa", "aa")]
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


@pytest.mark.parametrize("merge", [("a", "x"), ("a", ""), ("a", "b")])
def test_a_merge_of_or_into_what_is_no_token_is_refused(merge):
    with pytest.raises(TokenizerFormatError):
        BytePairEncoder({"a": 0, "b": 1, "": 2}, [merge])


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
        read_merges(model["merges"]),
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
