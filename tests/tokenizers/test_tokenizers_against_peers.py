"""Small tokenizers of every family against the `tokenizers` library, with random inputs."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_tokenizers import FAMILIES, added, byte_level, sentencepiece, unigram, wordpiece

from detok_py.errors import TokenizerFormatError
from detok_py.tokenizers.hf_json import parse
from detok_py.tokenizers.strict_json import rust_float

tokenizers = pytest.importorskip(
    "tokenizers", reason="the library to compare with is not installed"
)
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

pytestmark = pytest.mark.native

# Words, spaces, parts of added tokens, characters of one to four bytes, grapheme clusters, and text
# that normalizers change.
BITS = [
    "the", " the", "cat", " cat", "and", "ing", "don't", "a", "b", "t", "h", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", ".", ",", "!",
    " .", "'s", "12", "3", "é", "e\u0301", "É",
    "ﬁ", "①", "你", "好", "😀", "👩\u200d👧", "\u00a0", "\u3000", "\u200b", "▁", "Ġ", "#", "##s", "<", "|", ">", "<|end|>", "<think>",
    "</s>", "<s>", "[UNK]", "<pad>", "xx", "X", "ß", "İ", "\x00",
    "\ufeff", "ａ", "한", "글", "กำ", "ͅ", "\ufffd", "_", "-", "@",
]  # fmt: skip
TEXTS = st.lists(
    st.sampled_from(BITS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
    max_size=12,
).map("".join)

NORMALIZERS = [
    None,
    {"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "StripAccents"},
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": False},
    {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]},
    {"type": "Sequence", "normalizers": []},
]  # fmt: skip
PRETOKENIZERS = [
    None,
    {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"}, {"type": "Digits", "individual_digits": True},
    {"type": "Punctuation", "behavior": "Isolated"},
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": False},
    {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithNext", "invert": False},
    {"type": "Split", "pattern": {"Regex": r"\p{N}|\s+"}, "behavior": "Isolated", "invert": False},
    {"type": "Split", "pattern": {"Regex": r"\w+|[^\w\s]+"}, "behavior": "Removed", "invert": True},
    {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁",
    "prepend_scheme": "always", "split": True}]},
    {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": False}, {"type": "ByteLevel", "add_prefix_space": False,
    "trim_offsets": True, "use_regex": True}]},
]  # fmt: skip
RULES = [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
    {"type": "WordPiece", "prefix": "##", "cleanup": True},
    {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
    {"type": "BPEDecoder", "suffix": "</w>"},
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
]
DECODERS = [
    None,
    *RULES,
    {"type": "WordPiece", "prefix": "##", "cleanup": False},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True},
    {"type": "Sequence", "decoders": RULES[:3]},
    {"type": "Sequence", "decoders": RULES[:4]},
]
ADDED = [
    *("<|end|>", "<think>", "</s>", "<pad>", "[UNK]", "the", "t", "<", "X", "e\u0301", "好", " x"),
    *("ab", "abc", "#", "ing"),
]


@st.composite
def documents(draw):
    """Return a tokenizer.json of any family, with any of the parts above and a few added tokens."""
    document = draw(st.sampled_from(list(FAMILIES.values())))()
    if draw(st.booleans()):
        document["normalizer"] = draw(st.sampled_from(NORMALIZERS))
    if draw(st.booleans()):
        document["pre_tokenizer"] = draw(st.sampled_from(PRETOKENIZERS))
    if (document["pre_tokenizer"] or {}).get("prepend_scheme") == "first":
        # If a normalizer removes the first character, the library treats the text as not at the
        # start of the input; see docs/tokenizers.md.
        document["normalizer"] = draw(
            st.sampled_from([None, {"type": "NFC"}, {"type": "Lowercase"}])
        )
    if draw(st.booleans()):
        document["decoder"] = draw(st.sampled_from(DECODERS))
    vocab = document["model"]["vocab"]
    if isinstance(vocab, dict) and draw(
        st.booleans()
    ):  # a hole, so that there are more ids than pieces
        vocab["zz"] = len(vocab) + draw(st.integers(1, 3))
    flags = st.booleans()
    for content in draw(st.lists(st.sampled_from(ADDED), max_size=5)):
        options = {name: draw(flags) for name in ("single_word", "lstrip", "rstrip", "normalized")}
        document["added_tokens"].append(
            added(content, draw(st.integers(0, 400)), draw(flags), **options)
        )
    return document


def both(document):
    text = json.dumps(document)
    return parse(text.encode()), tokenizers.Tokenizer.from_str(text)


def theirs_encode(theirs, text, special):
    """Return the ids of `tokenizers`, or None for a text that it can't encode."""
    try:
        return theirs.encode(text, add_special_tokens=special).ids
    except Exception:
        return None


@pytest.mark.slow
@given(documents(), TEXTS, st.booleans())
def test_encodes_alike(document, text, special):
    ours, theirs = both(document)
    expected = theirs_encode(theirs, text, special)
    if expected is not None:
        assert ours.encode(text, add_special_tokens=special) == expected


@pytest.mark.slow
@given(documents(), TEXTS)
def test_encodes_alike_with_parse_special_false(document, text):
    ours, theirs = both(document)
    theirs.encode_special_tokens = True
    expected = theirs_encode(theirs, text, False)
    if expected is not None:
        assert ours.encode(text, parse_special=False) == expected


@pytest.mark.slow
@given(documents(), st.data(), st.booleans())
def test_decodes_alike(document, data, skip):
    ours, theirs = both(document)
    ids = data.draw(st.lists(st.integers(0, theirs.get_vocab_size() + 3), max_size=12))
    assert ours.decode(ids, skip_special_tokens=skip, unknown="skip") == theirs.decode(
        ids, skip_special_tokens=skip
    )


@pytest.mark.slow
@given(documents())
def test_has_the_same_tokens(document):
    ours, theirs = both(document)
    for token_id in range(theirs.get_vocab_size() + 3):
        assert ours.decode([token_id], unknown="skip") == theirs.decode([token_id]), token_id


@pytest.mark.parametrize("make", [byte_level, sentencepiece, unigram, wordpiece])
def test_long_random_texts_encode_alike(make):
    ours, theirs = both(make())
    rng = random.Random(7)
    for _ in range(20):
        text = "".join(rng.choices(BITS, k=300))
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False).ids


PIECES = [
    "▁a", "a", "##b", "n't", "<pad>", "|", "do</w>", " ", "Ġx", "<0xE4>", "<0xBD>", "<0xA0>", "é",
    ".", " '", "Ã", "©", "not</w>", "</w>",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(RULES), min_size=1, max_size=4),
    st.lists(st.lists(st.integers(0, len(PIECES) - 1), max_size=5), min_size=5, max_size=5),
)
def test_every_order_of_decoders_that_loads_decodes_alike(order, texts):
    """Model and pre-tokenizer don't matter: this one is of words, and can only decode."""
    document = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": None, "post_processor": None, "decoder": {"type": "Sequence", "decoders": order},
        "model": {"type": "WordLevel", "vocab": {piece: i for i, piece in enumerate(PIECES)}, "unk_token": "a"},
    }  # fmt: skip
    data = json.dumps(document)
    try:
        ours = parse(data.encode())
    except TokenizerFormatError:
        return
    theirs = tokenizers.Tokenizer.from_str(data)
    for ids in texts:
        try:
            expected = theirs.decode(ids)
        except BaseException as error:  # it panics, which is no Exception
            if type(error).__name__ != "PanicException":
                raise
            continue
        assert ours.decode(ids) == expected


# Trained tokenizers
# --------------------------------------------------------------------------------------------------
# The library's trainers build them from a text in many languages, with the settings of well-known
# models.

ALPHABET = tokenizers.pre_tokenizers.ByteLevel.alphabet()


def corpus():
    words = " ".join(BITS)
    rng = random.Random(3)
    lines = ["".join(rng.choices(BITS, k=30)) for _ in range(200)]
    return [
        words,
        *lines,
        *[str(rng.random() * 10**6) for _ in range(100)],
        *Path(__file__).read_text(encoding="utf-8").splitlines(),
    ]


def bpe(split, special, trainer=None, **parts):
    theirs = tokenizers.Tokenizer(models.BPE(**parts.pop("model", {})))
    theirs.pre_tokenizer = split
    for name, part in parts.items():
        setattr(theirs, name, part)
    theirs.train_from_iterator(
        corpus(),
        trainers.BpeTrainer(
            vocab_size=1200, special_tokens=special, show_progress=False, **(trainer or {})
        ),
    )
    return theirs


def byte_level_like(splits, **parts):
    split = pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return bpe(
        split, ["<|end|>"], {"initial_alphabet": ALPHABET}, decoder=decoders.ByteLevel(), **parts
    )


def unigram_like(normalizer, split, special, **parts):
    theirs = tokenizers.Tokenizer(models.Unigram())
    theirs.normalizer, theirs.pre_tokenizer, theirs.decoder = (
        normalizer,
        split,
        decoders.Metaspace(),
    )
    for name, part in parts.items():
        setattr(theirs, name, part)
    theirs.train_from_iterator(
        corpus(),
        trainers.UnigramTrainer(
            vocab_size=600, unk_token="<unk>", special_tokens=special, show_progress=False
        ),
    )
    return theirs


def like_clip():
    words = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    return bpe(
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(tokenizers.Regex(words), "removed", invert=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        ),
        ["<s>", "<pad>", "</s>", "[UNK]"],
        {"initial_alphabet": ALPHABET, "end_of_word_suffix": "</w>"},
        model={"unk_token": "[UNK]", "end_of_word_suffix": "</w>"},
        normalizer=normalizers.Sequence(
            [
                normalizers.NFC(),
                normalizers.Replace(tokenizers.Regex(r"\s+"), " "),
                normalizers.Lowercase(),
            ]
        ),
        decoder=decoders.ByteLevel(),
        post_processor=processors.RobertaProcessing(("</s>", 2), ("<s>", 0)),
    )


def like_llama():
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    rules = [
        decoders.Replace("▁", " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
    return bpe(
        pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
        ["<unk>", "<s>", "</s>", *fallback],
        model={"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True},
        decoder=decoders.Sequence(rules),
    )


def like_bert():
    theirs = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    theirs.normalizer, theirs.pre_tokenizer, theirs.decoder = (
        normalizers.BertNormalizer(lowercase=False),
        pre_tokenizers.BertPreTokenizer(),
        decoders.WordPiece(),
    )
    theirs.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    theirs.train_from_iterator(
        corpus(),
        trainers.WordPieceTrainer(
            vocab_size=800, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False
        ),
    )
    return theirs


def like_albert():
    template = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    steps = [
        normalizers.Replace("``", '"'),
        normalizers.NFKD(),
        normalizers.StripAccents(),
        normalizers.Lowercase(),
    ]
    return unigram_like(
        normalizers.Sequence(steps),
        pre_tokenizers.Metaspace(),
        ["<unk>", "[CLS]", "[SEP]"],
        post_processor=template,
    )


TRAINED = {
    "plain": lambda: bpe(pre_tokenizers.Whitespace(), ["[UNK]"], model={"unk_token": "[UNK]"}),
    "clip": like_clip,
    "falcon": lambda: byte_level_like(
        [pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(False)]
    ),
    "starcoder": lambda: byte_level_like([pre_tokenizers.Digits(True)]),
    "bloom": lambda: byte_level_like(
        [pre_tokenizers.Split(tokenizers.Regex(r" ?[^(\s|[.,!?…。，、।۔،])]+"), "isolated")]
    ),
    "llama": like_llama,
    "bert": like_bert,
    "t5": lambda: unigram_like(
        normalizers.Sequence(
            [normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
        ),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
        ["<unk>", "<s>"],
    ),
    "albert": like_albert,
}


@pytest.mark.parametrize("name", TRAINED)
def test_a_trained_tokenizer_is_alike(name):
    trained = TRAINED[name]()
    trained.add_tokens(
        [
            tokenizers.AddedToken("<tool>", normalized=False, lstrip=True),
            tokenizers.AddedToken("Word", single_word=True),
            "e\u0301x",
        ]
    )
    trained.add_special_tokens([tokenizers.AddedToken("<|im_end|>", special=True, rstrip=True)])
    text = trained.to_str()
    ours, theirs = parse(text.encode()), tokenizers.Tokenizer.from_str(text)
    rng = random.Random(5)
    bits = [*BITS, "<tool>", " Word", "Words", "e\u0301x", "<|im_end|> "]
    for _ in range(150):
        sample = "".join(rng.choices(bits, k=rng.randint(1, 60)))
        for special in (False, True):
            ids = theirs.encode(sample, add_special_tokens=special).ids
            assert ours.encode(sample, add_special_tokens=special) == ids
            assert ours.decode(ids, skip_special_tokens=special) == theirs.decode(
                ids, skip_special_tokens=special
            )


def test_scores_are_parsed_bit_for_bit_as_in_the_library():
    # The last bit of one score decides between two ways to cut "abc".
    rng = random.Random(11)
    for _ in range(300):
        first, second = -rng.random() * 20, -rng.random() * 20
        vocab = [
            ["<unk>", 0.0],
            ["a", first],
            ["bc", second],
            ["ab", second],
            ["c", first],
            ["b", -30.0],
        ]
        document = {
            "model": {
                "type": "Unigram",
                "unk_id": 0,
                "vocab": [*vocab, ["abc", -100.0], ["d", rust_float(repr(first)) + second]],
            }
        }
        ours, theirs = both(document)
        for sample in ("abc", "abcabc", "abcd", "dabc"):
            assert ours.encode(sample) == theirs.encode(sample).ids
