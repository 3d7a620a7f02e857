"""Bytes to text: all sequences of one byte and of two, byte by byte and whole."""

from say import pieces_of, say

from detok_py import StreamingDetokenizer

for first in range(256):
    row = [pieces_of([first])]
    for second in range(256):
        out = pieces_of([first, second])
        stream = StreamingDetokenizer()
        assert stream.feed(bytes([first, second])) + stream.flush() == "".join(out)
        row.append("|".join(out))
    say("two bytes", first, row)
