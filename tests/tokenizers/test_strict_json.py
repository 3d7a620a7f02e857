"""JSON of an untrusted file: how large it may be."""

import io

import pytest

from detok_py import TokenizerFormatError, load_tokenizer


class Sized(io.BytesIO):
    """A file that says it has another size."""

    size: int

    def seek(self, offset, whence=0):
        at = super().seek(offset, whence)
        return self.size if whence == 2 else at


def test_a_file_has_at_most_256_mib():
    file = Sized(b'{"model": {"type": "WordLevel", "vocab": {"Hi": 0}, "unk_token": "Hi"}}')
    file.size = 256 << 20
    assert load_tokenizer(file).decode([0]) == "Hi"
    file.seek(0)
    file.size += 1
    with pytest.raises(TokenizerFormatError, match="268435457 bytes; at most 268435456 are"):
        load_tokenizer(file)
