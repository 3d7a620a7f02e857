"""GPT-2's byte alphabet."""

from detok_py.decode.byte_level import ALPHABET, BYTE_OF, byte_level


def test_each_byte_has_one_printable_character():
    assert [BYTE_OF[letter] for letter in ALPHABET] == list(range(256))
    assert all(c.isprintable() and not c.isspace() for c in BYTE_OF)


def test_byte_level_pieces_are_their_bytes_and_other_pieces_their_utf8():
    assert byte_level("Ġworld") == b" world"
    assert byte_level("<｜tool▁call｜>") == "<｜tool▁call｜>".encode()
    assert byte_level("<café>") == b"<caf\xe9>"  # as Hugging Face decodes an added token
