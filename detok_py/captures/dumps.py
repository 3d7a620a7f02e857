"""Read the bytes that a server sent from the output of tracing tools.

In: the output of `curl --trace` or `--trace-ascii`, or a hex dump as Wireshark, `hexdump -C` and
`xxd` write it. Out: the body of the response, and the time when each of its lines was complete. An
HTTP/1 response loses its head and its chunks (RFC 9112, 7.1).
"""

from typing import Any

from .times import seconds_in

HEX = b"0123456789abcdefABCDEF"
RECEIVED = b"<= Recv data"
MOST_LOOKED_AT = 1 << 16  # bytes of a file that say whether it is a hex dump


def curl_trace(data: bytes) -> "tuple[bytes, list[Any], bool] | None":
    """Return (body, stamps of its lines, whether bytes beyond ASCII are lost) of a trace of curl;
    None for other data.

    >>> curl_trace(b"12:00:01.5 <= Recv data, 2 bytes (0x2)\\n0000: 61 0a" + b" " * 43 + b"a.\\n")
    (b'a\\n', [43201.5, 43201.5], False)
    """
    if RECEIVED not in data:
        return None
    blocks: list[Any] = []
    lossy = taking = False
    for line in data.replace(b"\r\n", b"\n").split(b"\n") + [b"== "]:
        mark = max(line.find(b"<= "), line.find(b"=> "), line.find(b"== "))
        if 0 <= mark <= 40 and (line[mark + 3 : mark + 4].isalpha() or line == b"== "):
            if taking and _size_of(blocks[-1][1]) == len(blocks[-1][2]) + 2:
                blocks[-1][2] += b"\r\n"
            taking = line[mark:].startswith(RECEIVED)
            if taking:
                stamp = seconds_in("".join([chr(c) for c in line[:mark]]))
                blocks.append([stamp, line[mark + len(RECEIVED) :], b""])
        elif taking and line[4:6] == b": " and _is_hex(line[:4]):
            block = blocks[-1]
            row = _hex_row(line[6:])
            if len(line) != 54 + len(row):
                lossy = True
                # curl begins a new line of output for each CRLF, and does not print the CRLF.
                row = (b"\r\n" if int(line[:4], 16) == len(block[2]) + 2 else b"") + line[6:]
            block[2] += row
    pieces = [dechunked(part) for _, _, part in blocks]
    body = dechunked(b"".join([part for _, _, part in blocks]))
    stamps = [stamp for stamp, _, _ in blocks]
    if body != b"".join(pieces):  # a chunk came in several blocks
        pieces, stamps = [body], [None]
    if lossy:
        pieces = [_with_line_ends(piece) for piece in pieces]
    out: list[Any] = []
    for n, piece in enumerate(pieces):
        out += [stamps[n]] * piece.count(b"\n")
    return b"".join(pieces), out + stamps[-1:], lossy


def hex_dump(data: bytes) -> "bytes | None":
    """Return the bytes of a hex dump; None for other data. In Wireshark's "Follow" view, the
    server's bytes are indented; then only these are returned.

    >>> hex_dump(b"00000000  47 45 54\\n    00000000  64 61 74 61  3a 20 31 0a        data: 1.\\n")
    b'data: 1\\n'
    """
    sides: dict[bool, list[bytes]] = {False: [], True: []}
    rows = _rows(data)
    for line, _, row in rows:
        sides[line[:1] in (b" ", b"\t")].append(row)
    if not rows:
        return None
    client, server = b"".join(sides[False]), b"".join(sides[True])
    # Without an indent, or if all lines have it, there is one side only.
    return server if server and not client.startswith(b"HTTP/") else client or server


def blocks_of(data: bytes) -> list[bytes]:
    """Return the blocks of a hex dump: each begins at the offset 0."""
    out: list[bytes] = []
    for _, offset, row in _rows(data):
        if not offset.strip(b"0"):
            out.append(b"")
        if out:
            out[-1] += row
    return out


def _rows(data: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """Return (line, offset, bytes) of each row of a hex dump; [] for other data."""
    if len(data) > MOST_LOOKED_AT and not _rows(data[:MOST_LOOKED_AT]):
        return []
    lines = [line for line in data.replace(b"\r\n", b"\n").split(b"\n") if line.strip()]
    rows = []
    for line in lines:
        offset, _, rest = line.strip().partition(b" ")
        offset = offset.rstrip(b":|")
        offset = offset[2:] if offset[:2] == b"0x" else offset
        row = _hex_row(rest.strip()) if len(offset) >= 4 and _is_hex(offset) else b""
        if row:
            rows.append((line, offset, row))
    return rows if len(rows) >= 0.7 * len(lines) else []


def http_body(data: bytes) -> "tuple[bytes, str] | None":
    """Return (body, its encoding) of an HTTP/1 response; None for other data."""
    if not data.startswith(b"HTTP/1"):
        return None
    head, mark, body = data.partition(b"\r\n\r\n")
    if not mark:
        return None
    fields = {}
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        fields["".join([chr(c) for c in name.strip().lower()])] = value.strip().lower()
    if b"chunked" in fields.get("transfer-encoding", b""):
        body = dechunked(body)
    encoding = fields.get("content-encoding", b"")
    return body, "".join([chr(c) for c in encoding])


def without_request(data: bytes) -> bytes:
    """Return an HTTP/1 response without the request before it, of which the line ends stay; `data`
    itself if no request is before it. Wireshark follows a connection so.

    >>> without_request(b"POST / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n{}HTTP/1.1 200 OK\\r\\n")
    b'\\n\\n\\nHTTP/1.1 200 OK\\r\\n'
    """
    head, mark, _ = data.partition(b"\r\n\r\n")
    if not mark or head.split(b"\r\n")[0][-9:-1] != b" HTTP/1.":
        return data
    at = data.find(b"HTTP/1.", len(head))
    return b"\n" * data[:at].count(b"\n") + data[at:] if at > 0 else data


def dechunked(data: bytes) -> bytes:
    """Return the data of a chunked body; `data` itself if it is not chunked.

    >>> dechunked(b"4\\r\\ndata\\r\\n2\\r\\n: \\r\\n0\\r\\n\\r\\n"), dechunked(b"data: {}")
    (b'data: ', b'data: {}')
    """
    out: list[bytes] = []
    at = 0
    while at < len(data):
        end = data.find(b"\r\n", at)
        digits = data[at:end].split(b";")[0].strip() if end >= 0 else b""
        if not digits or len(digits) > 8 or not _is_hex(digits):
            return data if not out else b"".join(out)
        size = int(digits, 16)
        if not size:
            break
        out.append(data[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
    return b"".join(out) if out else data


def _size_of(words: bytes) -> int:
    """Return the number in `, 59 bytes (0x3b)`."""
    digits = words.replace(b",", b" ").split()[:1]
    return int(digits[0]) if digits and digits[0].isdigit() else 0


def _with_line_ends(part: bytes) -> bytes:
    """Return a block of `--trace-ascii` with its LFs, for which curl writes dots."""
    for name in (b"data:", b"event:", b"id:", b": "):
        part = part.replace(b".." + name, b"\n\n" + name)
        part = part.replace(b"}." + name, b"}\n" + name)
    part = part.replace(b".data: ", b"\ndata: ").replace(b"}.{", b"}\n{")
    for end in (b"..", b"."):
        if part.endswith((b"}" + end, b"]" + end)):
            return part[: -len(end)] + b"\n" * len(end)
    return part


def _hex_row(row: bytes) -> bytes:
    """Return the bytes of one row of a dump, without its column of text."""
    out = bytearray()
    at = 0
    while at < len(row) and len(out) < 16:
        spaces = 0
        while row[at : at + 1] == b" ":
            at += 1
            spaces += 1
        end = row.find(b" ", at)
        word = row[at:] if end < 0 else row[at:end]
        # A row that is not full has a wider gap before its text.
        if spaces > 2 or not word or len(word) % 2 or len(word) > 8 or not _is_hex(word):
            break
        for n in range(0, len(word), 2):
            out.append(int(word[n : n + 2], 16))
        at += len(word)
    return bytes(out)


def _is_hex(word: bytes) -> bool:
    return all(c in HEX for c in word)
