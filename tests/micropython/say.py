"""What the scripts in this folder share: one JSON value a line, bytes decoded one by one, and
numbers that are random and everywhere the same.
"""

from detok_py import StreamingDetokenizer

SAID = []


def say(*values):
    """Say the values, as one line; bytes as hex, tuples as lists."""
    SAID.append([plain(value) for value in values])


def plain(value):
    if isinstance(value, (bytes, bytearray)):
        return "".join([f"{byte:02x}" for byte in value])
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def pieces_of(data):
    """Return what each byte puts out, and the end."""
    stream = StreamingDetokenizer()
    return [stream.feed(bytes([byte])) for byte in data] + [stream.flush()]


class Numbers:
    """A linear congruential generator (the constants of Knuth's MMIX), because `random` differs
    between Pythons.
    """

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        """Return a number in 0..n-1."""
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        return (self.state >> 33) % n

    def choose(self, items):
        return items[self.below(len(items))]
