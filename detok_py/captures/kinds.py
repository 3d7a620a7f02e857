"""Explain a file that has no stream, by its first bytes or its keys, and find where its text may
be.

In: the bytes of a file, or the values of its events. Out: a sentence, or a path for `find`.
"""

from typing import Any

# The first bytes of files that are not streams.
MAGIC = (
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF", "a PDF document"),
    (b"\xd4\xc3\xb2\xa1", "a packet capture (pcap)"),
    (b"\xa1\xb2\xc3\xd4", "a packet capture (pcap)"),
    (b"\x4d\x3c\xb2\xa1", "a packet capture (pcap)"),
    (b"\x0a\x0d\x0d\x0a", "a packet capture (pcapng)"),
    (b"\x1f\x8b", "gzip, which could not be unpacked here"),
    (b"PK\x03\x04", "a zip archive; one with a single file is unpacked"),
    (b"\x28\xb5\x2f\xfd", "Zstandard, which browsers do not unpack: unpack it with zstd -d"),
    (b"BZh", "bzip2, which browsers do not unpack: unpack it with bunzip2"),
    (b"\xfd7zXZ", "xz, which browsers do not unpack: unpack it with unxz"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"GGUF", "a GGUF model"),
    (b"\x7fELF", "a program (ELF)"),
    (b"MZ", "a program of Windows"),
    (b"\x00asm", "a WebAssembly module"),
    (b"SQLite format 3", "an SQLite database"),
    (b"OggS", "an Ogg recording"),
    (b"ID3", "an MP3 recording"),
    (b"version https://git-lfs.github.com/spec/", "a pointer of Git LFS instead of the file: run git lfs pull"),
)  # fmt: skip
HOW = {
    "a packet capture": ". In Wireshark choose Follow, HTTP stream, save what that shows, and open it here"
}
# The keys of JSON files that people take for streams.
KEYS = (
    ("tokenizer_class", "a tokenizer_config.json, without the tokenizer: open its tokenizer.json"),
    ("added_tokens", "a tokenizer.json"),
    ("model_type", "a config.json of a model"),
    ("weight_map", "an index of model files"),
    ("openapi", "an OpenAPI document"),
    ("paths", "an OpenAPI document"),
)
# In names of keys.
OF_TEXTS = ("text", "content", "delta", "token", "chunk")
OF_OTHERS = ("id", "time", "date", "url", "model")
ASKED = "request."  # where the path of a question begins
MOST_EVENTS = 200


def kind_of(data: bytes) -> str:
    """Return the kind of a file, "" if unknown.

    >>> kind_of(b"\\x89PNG\\r\\n"), kind_of(b"<!doctype html><title>502 Bad Gateway</title>")
    ('a PNG picture', 'an HTML page, “502 Bad Gateway”')
    """
    if not data:
        return "an empty file, 0 bytes"
    for first, name in MAGIC:
        if data.startswith(first):
            return name + "".join([how for start, how in HOW.items() if name.startswith(start)])
    head = "".join([chr(c) if c < 128 else "?" for c in data[:4096]]).strip()
    low = head.lower()
    if low.startswith(("<!doctype html", "<html")):
        begin, end = low.find("<title>"), low.find("</title>")
        title = " ".join(head[begin + 7 : end].split())[:80] if 0 <= begin < end else ""
        return "an HTML page" + (f", “{title}”" if title else "")
    if low.startswith("<?xml"):
        return "an XML document"
    zeros = data[:4096].count(b"\0")
    return "a binary file" if zeros and not low.startswith(("data:", "{")) else ""


def kind_of_value(value: Any) -> str:
    """Return the kind of a JSON file, "" if unknown."""
    for key, name in KEYS if isinstance(value, dict) else ():
        if key in value:
            return name
    return ""


def keys_of(values: list[Any]) -> list[str]:
    """Return the keys of events, those of the first events first.

    >>> keys_of([{"foo": 1}, {"bar": {}, "foo": 2}])
    ['foo', 'bar']
    """
    found: list[str] = []
    for value in values[:MOST_EVENTS]:
        for key in value if isinstance(value, dict) else ():
            if key not in found:
                found.append(key)
    return found


def text_path(values: list[Any]) -> str:
    """Return the path of the strings that look most like a text in pieces; "" if no path does.

    >>> text_path([{"id": "x", "bar": {"text": "He"}}, {"id": "x", "bar": {"text": "llo"}}])
    'bar.text'
    """
    seen: dict[str, list[str]] = {}
    for value in values[:MOST_EVENTS]:
        _collect(value, "", seen, 0)
    best, most = "", 0.0
    for path in sorted(seen):
        if path.startswith((ASKED, "[*]." + ASKED)):
            continue  # what was asked is no answer
        texts = seen[path]
        different = len(set(texts))
        # An id or a type is the same in each event, and has no spaces.
        score = different + 2.0 * any(" " in text for text in texts)
        name = path.split(".")[-1].lower()
        score *= 3 if any(word in name for word in OF_TEXTS) else 1
        score *= 0.2 if any(word in name for word in OF_OTHERS) else 1
        if score > most and (different > 1 or len(values) == 1):
            best, most = path, score
    return best


def _collect(value: Any, path: str, seen: dict[str, list[str]], depth: int) -> None:
    if isinstance(value, str):
        if value and path:
            seen.setdefault(path, []).append(value)
    elif isinstance(value, dict) and depth < 6:
        for key, inner in value.items():
            if key and not any(mark in key for mark in ".,[]|?=`"):
                _collect(inner, f"{path}.{key}" if path else key, seen, depth + 1)
    elif isinstance(value, list) and depth < 6:
        for inner in value[:20]:
            _collect(inner, path + "[*]", seen, depth + 1)
