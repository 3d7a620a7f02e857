"""vocab.json with merges.txt, vocab.txt, RWKV's vocabulary, rank files with a given pattern, and
folders with more than one tokenizer.
"""

import json
import warnings
from pathlib import Path

import pytest
from small_tokenizers import (
    MERGES,
    byte_level,
    rank_file,
    rank_tokens,
    rwkv_file,
    sentencepiece,
    tekken,
    wordpiece,
    write,
)  # fmt: skip

from detok_py.errors import TokenizerFormatError
from detok_py.tokenizers import load_tokenizer
from detok_py.tokenizers.hf_json import parse
from detok_py.tokenizers.tiktoken import ENCODINGS, read_ranks

TEXTS = ["the cat and the 12 éé", "  The\n\ncat's 😀 你", "e\u0301 123<|end|>a <think>"]
VOCAB = {**byte_level()["model"]["vocab"], "<|endoftext|>": 400}
FILES = {
    "vocab.json": json.dumps(VOCAB).encode(),
    "merges.txt": ("#version: 0.2\n" + "\n".join(f"{a} {b}" for a, b in MERGES) + "\n").encode(),
}
WORDS = "\n".join(wordpiece()["model"]["vocab"]).encode() + b"\n"


def with_config(files=FILES, **config):
    return {**files, "tokenizer_config.json": json.dumps(config).encode()}


def same(tokenizer, document, **options):
    wanted = parse(json.dumps(document, ensure_ascii=False).encode())
    for text in TEXTS:
        ids = wanted.encode(text, **options)
        assert tokenizer.encode(text, **options) == ids
        assert tokenizer.decode(ids) == wanted.decode(ids)
    assert tokenizer.vocabulary.special_ids == wanted.vocabulary.special_ids


END = {"content": "<|endoftext|>", "special": True}


def test_vocab_and_merges_are_gpt2s_byte_level_bpe():
    document = byte_level(added_tokens=[END])
    document["model"]["vocab"] = VOCAB
    tokenizer = load_tokenizer(FILES)
    same(tokenizer, document)
    assert (tokenizer.family, tokenizer.eos_ids, len(tokenizer)) == ("byte_bpe", {400}, 401)


def test_files_that_are_no_tokenizer_may_stand_beside_them():
    files = {"README.md": b"", **FILES, "weights.bin": b"", "words.txt": b""}
    assert load_tokenizer(files).family == "byte_bpe"


def test_the_class_and_the_added_tokens_of_the_folder_are_used(tmp_path: Path):
    pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    split = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    steps = [split, {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]
    added = [{"content": "<|end|>", "special": True}, {"content": "<think>"}, END]
    document = byte_level(
        normalizer={"type": "NFC"},
        pre_tokenizer={"type": "Sequence", "pretokenizers": steps},
        added_tokens=added,
    )
    size = len(byte_level()["model"]["vocab"])
    decoder = {str(size): added[0], str(size + 1): added[1]}
    files = {**FILES, "vocab.json": json.dumps(byte_level()["model"]["vocab"]).encode()}
    files = with_config(
        files,
        tokenizer_class="Qwen2TokenizerFast",
        eos_token="<|end|>",
        pad_token="<|endoftext|>",
        added_tokens_decoder=decoder,
    )
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    tokenizer = load_tokenizer(tmp_path)
    same(tokenizer, document)
    assert tokenizer.eos_ids == {size}
    # The file alone is not its folder: it has no added tokens beside those with a role.
    assert tokenizer.token_to_id("<think>") == size + 1
    assert load_tokenizer(tmp_path / "merges.txt").token_to_id("<think>") is None


def test_a_bos_token_and_robertas_template_are_added():
    vocab = {**VOCAB, "<s>": 401, "</s>": 402}
    files = {**FILES, "vocab.json": json.dumps(vocab).encode()}
    the = load_tokenizer(files).encode("the")
    asked = {"add_special_tokens": True}
    assert load_tokenizer(files).encode("the", **asked) == the
    roberta = load_tokenizer(with_config(files, tokenizer_class="RobertaTokenizer"))
    assert roberta.encode("the", **asked) == [401, *the, 402]
    opt = with_config(files, tokenizer_class="GPT2Tokenizer", add_bos_token=True, bos_token="</s>")
    assert load_tokenizer(opt).encode("the", **asked) == [402, *the]


def test_an_unknown_class_decodes_and_does_not_encode():
    tokenizer = load_tokenizer(with_config(tokenizer_class="CLIPTokenizer"))
    assert tokenizer.decode([VOCAB["the"]]) == "the"
    with pytest.raises(TokenizerFormatError, match="decoded, but not encoded: .*CLIPTokenizer"):
        tokenizer.encode("the")
    words = load_tokenizer(
        with_config({"vocab.txt": WORDS}, tokenizer_class="BertJapaneseTokenizer")
    )
    with pytest.raises(TokenizerFormatError, match="BertJapaneseTokenizer"):
        words.encode("the")


@pytest.mark.parametrize("name", FILES)
def test_half_a_tokenizer_names_the_other_half(name, tmp_path: Path):
    (other,) = set(FILES) - {name}
    (tmp_path / name).write_bytes(FILES[name])
    with pytest.raises(TokenizerFormatError, match=f"{name} is half of a tokenizer, and {other}"):
        load_tokenizer(tmp_path / name)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({**FILES, "vocab.json": b"[]"}, "vocab.json is not an object"),
        ({**FILES, "merges.txt": b"a b\na b c\n"}, "merge 1 has 3 parts"),
        ({**FILES, "merges.txt": b"\xff \xff"}, "merges.txt is not UTF-8"),
        ({"vocab.txt": b"[UNK]\n\xff"}, "vocab.txt is not UTF-8"),
        ({"rwkv_vocab.txt": b"1 'a' 2\n"}, "line 1 is \"1 'a' 2\""),
        ({"rwkv_vocab.txt": b"1 'a' 1\n2 'a' 1\n"}, "there twice"),
        ({"rwkv_vocab.txt": b"1048576 'a' 1\n"}, "the id 1048576 .* or too large"),
        ({"rwkv_vocab.txt": b"1048577 'a' 1\n"}, "the id 1048577 .* or too large"),
        ({"rwkv_vocab.txt": f"1 '{'a' * 4097}' 4097\n".encode()}, "or too large"),
        ({"rwkv_vocab.txt": b"1 '\\q' 2\n"}, "expected an id, a token in quotes"),
        ({"rwkv_vocab.txt": b"1 '\\ud800' 3\n"}, "expected an id, a token in quotes"),
    ],
)
def test_a_damaged_file_is_refused(files, why):
    with pytest.raises(TokenizerFormatError, match=why):
        load_tokenizer(files)


def test_vocab_txt_is_berts():
    tokenizer = load_tokenizer({"vocab.txt": WORDS})
    same(tokenizer, wordpiece(), add_special_tokens=True)
    assert load_tokenizer(WORDS).encode("the cats") == tokenizer.encode("the cats")
    cased = load_tokenizer(with_config({"vocab.txt": WORDS}, do_lower_case=False))
    unknown = cased.token_to_id("[UNK]")
    assert cased.encode("The the") == [unknown, *tokenizer.encode("the")]
    chinese = load_tokenizer({"vocab.txt": WORDS + "中\n文\n".encode()})
    assert chinese.encode("中文") == [len(tokenizer), len(tokenizer) + 1]


def test_rwkv_takes_the_longest_token_again_and_again():
    tokenizer = load_tokenizer(rwkv_file())
    assert (tokenizer.family, tokenizer.eos_ids) == ("rwkv", {0})
    assert tokenizer.encode(" the the\t\tthé'\"") == [258, 258, 259, 117, 105, 260, 262]
    assert tokenizer.encode("é Ã") == [260, 33, 196, 132]  # "\xa9 \xc3" begins inside a character
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode("a<|endoftext|>") == [98, 0]
    assert 0 not in tokenizer.encode("a<|endoftext|>", parse_special=False)
    stream = tokenizer.detokenizer()
    assert [stream.push(i) for i in (196, 261, 170)] == ["", "é ", "é"]
    long = load_tokenizer(f"1 'a' 1\n2 '{'a' * 4096}' 4096\n".encode())
    assert long.decode([2, 1]) == "a" * 4097
    half = load_tokenizer(b"1 'a' 1\n")
    assert half.decode([1]) == "a"
    with pytest.raises(TokenizerFormatError, match="no token for the byte 0x00"):
        half.encode("a")


def test_ranks_may_leave_some_out_but_not_most():
    def file(last):
        return b"YQ== 0\nYg== %d\n" % last

    assert read_ranks(file(4100), "x.tiktoken") == {b"a": 0, b"b": 4100}
    assert read_ranks(file(4100).rstrip(), "x.tiktoken") == {b"a": 0, b"b": 4100}
    for last, says in ((4101, "the rank 4101"), (12345678, "token 1 is b'12345678'")):
        with pytest.raises(TokenizerFormatError, match=says):
            read_ranks(file(last), "x.tiktoken")


def test_a_rank_file_takes_a_pattern_and_special_tokens():
    size = len(rank_tokens())
    tokenizer = load_tokenizer(rank_file(), pattern=r"\S+|\s+", special_tokens=["<|a|>", "<eos>"])
    assert tokenizer.encode("the<|a|>") == [*tokenizer.encode("the"), size]
    assert tokenizer.eos_ids == {size + 1}
    given = load_tokenizer(rank_file(), "r50k_base", special_tokens={"<x>": 900})
    assert given.encode("<x>") == [900]
    assert given.token_to_id("<|endoftext|>") is None
    with pytest.raises(TokenizerFormatError, match="pass pattern= and special_tokens="):
        load_tokenizer({"x.tiktoken": rank_file()})
    with pytest.raises(TokenizerFormatError, match="rank 5 is the token"):
        load_tokenizer(rank_file(), pattern=".", special_tokens={"<x>": 5})
    for wrong in (-1, 1 << 20):
        with pytest.raises(
            TokenizerFormatError, match=f"'<x>' has the id {wrong}; .* below 1048576"
        ):
            load_tokenizer(rank_file(), pattern=".", special_tokens={"<x>": wrong})
    for wrong, said in (("", "''"), (5, "5")):
        with pytest.raises(TokenizerFormatError, match=f"the special token {said} has the id 900"):
            load_tokenizer(rank_file(), pattern=".", special_tokens={wrong: 900})
    with pytest.raises(TypeError, match="not the name '<x>'"):
        load_tokenizer(rank_file(), pattern=".", special_tokens="<x>")
    with pytest.raises(TokenizerFormatError, match="'no' is not a known encoding"):
        load_tokenizer(rank_file(), "no", pattern=".")
    for given in ({"pattern": "."}, {"special_tokens": ["<x>"]}, {"encoding": "gpt2"}):
        for other in ({**byte_level()}, {"vocab.txt": b"[UNK]\n"}):
            with pytest.raises(ValueError, match=r"are for \*\.tiktoken files, not (tok|voc)"):
                load_tokenizer(other, **given)


def test_whispers_special_tokens_follow_the_ranks():
    # Its multilingual file has an empty token, spelled "=".
    size = len(rank_tokens())
    data = rank_file() + b"= %d\n" % size
    tokenizer = load_tokenizer({"multilingual.tiktoken": data})
    names = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>"]
    assert [tokenizer.token_to_id(name) for name in names] == [size + 1, size + 2, size + 3]
    assert (tokenizer.eos_ids, len(tokenizer)) == ({size + 1}, size + 1609)
    assert tokenizer.id_to_token(len(tokenizer) - 1) == "<|30.00|>"
    assert load_tokenizer(data, "whisper").token_to_id("<|su|>") == size + 101
    assert load_tokenizer(data, "whisper").token_to_id("<|translate|>") == size + 102
    assert len(load_tokenizer(data, "whisper_v3")) == len(tokenizer) + 1
    assert len(ENCODINGS["whisper_v3"].special) == 1609


def test_tekken_wins_over_a_tokenizer_json_that_decodes_otherwise(tmp_path: Path):
    # Devstral's, whose decoder leaves the byte alphabet as it is: "Hello!ĠHow".
    broken = byte_level(decoder=sentencepiece()["decoder"])
    write(tmp_path, broken)
    write(tmp_path, tekken(), "tekken.json")
    with pytest.warns(UserWarning, match="decodes otherwise than its tekken.json"):
        tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.family == "tiktoken"
    assert tokenizer.decode(tokenizer.encode("Hello! How")) == "Hello! How"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_tokenizer(tmp_path / "tokenizer.json").family == "byte_bpe"
        write(tmp_path, byte_level())
        assert load_tokenizer(tmp_path).family == "byte_bpe"


@pytest.mark.native
def test_vocab_and_merges_agree_with_tokenizers(tmp_path: Path):
    tokenizers = pytest.importorskip("tokenizers")
    for name, data in {**FILES, "vocab.txt": WORDS}.items():
        (tmp_path / name).write_bytes(data)
    bpe = tokenizers.ByteLevelBPETokenizer(
        str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt")
    )
    words = tokenizers.BertWordPieceTokenizer(str(tmp_path / "vocab.txt"))
    ours = load_tokenizer(tmp_path / "vocab.json"), load_tokenizer(tmp_path / "vocab.txt")
    for text in TEXTS:
        assert ours[0].encode(text) == bpe.encode(text).ids
        assert ours[1].encode(text, add_special_tokens=True) == words.encode(text).ids
        ids = ours[1].encode(text)
        assert ours[1].decode(ids) == words.decode(ids)
