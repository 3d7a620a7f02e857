"""Read the bytes that a server sent from the output of tracing tools.

In: the output of `curl --trace` or `--trace-ascii`, or a hex dump as Wireshark, `hexdump -C` and
`xxd` write it. Out: the body of the response, and the time when each of its lines was complete. An
HTTP/1 response loses its head and its chunks (RFC 9112, 7.1).
"""

from typing import Any

from .parse import chars_of, is_utf8
from .times import seconds_in

HEX = b"0123456789abcdefABCDEF"
RECEIVED = b"<= Recv data"
MOST_OF_ERROR = 1000  # bytes
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
                stamp = seconds_in(chars_of(line[:mark]))
                blocks.append([stamp, line[mark + len(RECEIVED) :], b""])
        elif taking and line[4:6] == b": " and is_hex(line[:4]):
            block = blocks[-1]
            row = _hex_row(line[6:])
            if not row or len(line) != 54 + len(row):
                lossy = True
                # curl begins a new line of output for each CRLF, and does not print the CRLF.
                row = (b"\r\n" if int(line[:4], 16) == len(block[2]) + 2 else b"") + line[6:]
            block[2] += row
    pieces = _without_sizes([part for _, _, part in blocks])
    body = b"".join(pieces)
    if lossy:
        body = _with_line_ends(b"".join([_with_line_ends(piece) for piece in pieces]))
    out: list[Any] = []
    begin = 0
    for n, piece in enumerate(pieces):
        end = begin + len(piece)
        out += [blocks[n][0]] * body[begin:end].count(b"\n")
        begin = end
    # A character beyond ASCII is two dots or more.
    return body, out + [stamp for stamp, _, _ in blocks[-1:]], lossy and b".." in body


def _without_sizes(parts: list[bytes]) -> list[bytes]:
    """Return the parts of a body without the sizes of its chunks; a chunk may be in several parts.

    >>> _without_sizes([b"4\\r\\nda", b"ta\\r\\n2\\r\\n: ", b"\\r\\n"])
    [b'da', b'ta: ', b'']
    """
    spans = _chunks_in(b"".join(parts))
    if not spans:
        return parts
    out = []
    begin = n = 0
    for part in parts:
        end = begin + len(part)
        piece = b""
        while n < len(spans) and spans[n][0] < end:
            piece += part[max(spans[n][0] - begin, 0) : spans[n][1] - begin]
            if spans[n][1] > end:
                break
            n += 1
        out.append(piece)
        begin = end
    return out


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
        row = _hex_row(rest.strip()) if len(offset) >= 4 and is_hex(offset) else b""
        if row:
            rows.append((line, offset, row))
    return rows if len(rows) >= 0.7 * len(lines) else []


def http_body(data: bytes) -> "tuple[bytes, str] | None":
    """Return (body, its encoding) of an HTTP/1 response, or of its chunks alone, as `curl --raw`
    writes them; None for other data.

    >>> http_body(b"4\\r\\ndata\\r\\n0\\r\\n\\r\\n"), http_body(b"data: {}")
    ((b'data', ''), None)
    """
    if not data.startswith(b"HTTP/1"):
        body = dechunked(data) if b"\r" in data[:9] else data
        return None if body is data else (body, "")
    head, mark, body = data.partition(b"\r\n\r\n")
    if not mark:
        return None
    fields = {}
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        fields[chars_of(name.strip().lower())] = value.strip().lower()
    if b"chunked" in fields.get("transfer-encoding", b""):
        body = dechunked(body)
    return body, chars_of(fields.get("content-encoding", b""))


def note_of_flow(data: bytes) -> str:
    """Return a sentence on the error of a flow that mitmproxy has saved; "" if it has none.

    >>> note_of_flow(b"91:7:version;2:21#5:error;32:3:msg;20:Client disconnected.;}")
    'mitmproxy says of it: “Client disconnected.”.'
    """
    flow = data if b":version;" in data[:40] else b""
    error = flow.partition(b"5:error;")[2][:MOST_OF_ERROR]
    size, mark, said = error.partition(b"3:msg;")[2].partition(b":")
    if not mark or not size.isdigit() or not is_utf8(said[: int(size)]):
        return ""
    return f"mitmproxy says of it: “{said[: int(size)].decode()}”."


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


def without_fetch(data: bytes) -> bytes:
    """Return what was pasted behind a call of `fetch`, of which the line ends stay; `data` itself
    if it does not begin with one. Developer tools copy a request so.

    >>> without_fetch(b'fetch("https://a", {\\n  "body": null\\n});\\ndata: {}')
    b'\\n\\n\\ndata: {}'
    """
    if not data.lstrip().startswith((b'fetch("', b'await fetch("')):
        return data
    lines = data.split(b"\n")
    for n, line in enumerate(lines):
        ends = line.rstrip().endswith((b");", b'")')) and line[:1] not in (b" ", b"\t")
        if ends or line[:2] == b"})":
            rest = b"\n".join(lines[n + 1 :])
            return b"\n" * (n + 1) + rest if rest.strip() else data
    return data


def dechunked(data: bytes) -> bytes:
    """Return the data of a chunked body; `data` itself if it is not chunked.

    >>> dechunked(b"4\\r\\ndata\\r\\n2\\r\\n: \\r\\n0\\r\\n\\r\\n"), dechunked(b"data: {}")
    (b'data: ', b'data: {}')
    """
    spans = _chunks_in(data)
    return b"".join([data[begin:end] for begin, end in spans]) if spans else data


def _chunks_in(data: bytes) -> list[tuple[int, int]]:
    """Return where the data of the chunks begins and ends; [] for a body that is not chunked."""
    out: list[tuple[int, int]] = []
    at = 0
    while at < len(data):
        end = data.find(b"\r\n", at)
        digits = data[at:end].split(b";")[0].strip() if end >= 0 else b""
        if not digits or len(digits) > 8 or not is_hex(digits):
            break
        size = min(int(digits, 16), len(data))  # MicroPython has no larger index
        if not size:
            break
        out.append((end + 2, end + 2 + size))
        at = end + 2 + size + 2
    return out


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
        if spaces > 2 or not word or len(word) % 2 or len(word) > 8 or not is_hex(word):
            break
        for n in range(0, len(word), 2):
            out.append(int(word[n : n + 2], 16))
        at += len(word)
    return bytes(out)


def is_hex(word: bytes) -> bool:
    """Return whether all bytes are hexadecimal digits."""
    return all(c in HEX for c in word)
