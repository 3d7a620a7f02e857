"""What storage and logs take out of lines: NUL bytes in the place of text, lines cut at a width.

In: lines. Out: the lines without NUL bytes, where these were; the width at which lines were cut.
"""

from typing import Any

NULS = " NUL bytes are in the place of text"
WIDTH = "Each line that breaks off has "


def without_nuls(lines: list[bytes]) -> tuple[list[bytes], list[tuple[int, int, bytes]]]:
    """Return lines without runs of NUL bytes; and for each line that had some its number, how many
    it had, and the beginning of an event that they broke off, or b"". An event behind them counts.

    >>> without_nuls([b'data: {"a', b'{"a": 1\\0\\0\\0{"b": 2}', b"\\0\\0"])
    ([b'data: {"a', b'{"b": 2}', b''], [(2, 3, b'{"a": 1'), (3, 2, b'')])
    """
    out = list(lines)
    found = []
    for n, line in enumerate(lines, 1):
        if b"\0\0" in line:
            parts = [part for part in line.split(b"\0") if part.strip()] or [b""]
            out[n - 1] = parts[-1]
            before = parts[0] if len(parts) > 1 and b"{" in parts[0] else b""
            found.append((n, line.count(b"\0"), before))
    return out, found


def width_of_cut(lines: list[bytes], numbers: list[int]) -> str:
    """Return a sentence if the lines with these numbers, which break off, were cut at one width:
    they have it, and no other line has more; "" if not.

    >>> width_of_cut([b"abc", b"\\xc3\\xbcbc", b"c"], [1, 2])
    'Each line that breaks off has 3 characters, and no line has more: a log cut them there.'
    """
    if len(numbers) < 2:
        return ""
    for unit, size in (("bytes", len), ("characters", _characters)):
        widths: list[Any] = [size(line) for line in lines]
        cut = {widths[n - 1] for n in numbers}
        if cut == {max(widths)}:
            return f"{WIDTH}{cut.pop()} {unit}, and no line has more: a log cut them there."
    return ""


def _characters(line: bytes) -> int:
    return len([byte for byte in line if byte & 0xC0 != 0x80])
