"""What the decoder rules mean, said a second time: whole lists of pieces, no streaming, nothing
clever.

Each rule is written from what Hugging Face's tokenizers do with a list of token strings. The
streaming chain is held against this, and this is held against `tokenizers` itself where that is
installed.
"""

from typing import Any

PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTE_OF = {chr(b): b for b in PRINTABLE} | {
    chr(0x100 + n): b for n, b in enumerate(b for b in range(256) if b not in PRINTABLE)
}
TRANSFORMERS = [
    *[(" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'")],
    *[(" n't", "n't"), (" 'm", "'m"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re")],
]
WORDPIECE = [*TRANSFORMERS[:7], (" do not", " don't"), *TRANSFORMERS[7:]]


def clean(text: str, pairs: list[tuple[str, str]]) -> str:
    for old, new in pairs:
        text = text.replace(old, new)
    return text


def byte_token(piece: str) -> int | None:
    if len(piece.encode()) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        try:
            return int(piece[3:5], 16)
        except ValueError:
            return None
    return None


def sentence_pieces(pieces: list[str], way: str, byte_fallback: str) -> str:
    out = ""
    run = b""
    begun = False  # whether a leading ▁ was left out, if only one is
    for piece in [*pieces, ""]:
        byte = byte_token(piece)
        if byte is not None:
            run += bytes([byte])
            continue
        while run:
            try:
                out, run = out + run.decode(), b""
            except UnicodeDecodeError as error:
                size = 1 if byte_fallback == "hf" else error.end - error.start
                out += run[: error.start].decode() + "\ufffd"
                run = run[error.start + size :]
        if way != "none" and not out and not begun and piece.startswith("▁"):
            piece, begun = piece[1:], way == "one"
        out += piece.replace("▁", " ")
    return out


def strip(piece: str, content: str, start: int, stop: int) -> str:
    while start and piece.startswith(content):
        piece, start = piece[1:], start - 1
    while stop and piece.endswith(content):
        piece, stop = piece[:-1], stop - 1
    return piece


def runs(pieces: list[str], byte_fallback: str) -> list[str]:
    out: list[str] = []
    run = b""
    for piece in [*pieces, None]:
        byte = byte_token(piece) if piece is not None else None
        if byte is not None:
            run += bytes([byte])
            continue
        if run:
            if byte_fallback == "utf8":
                out.append(run.decode("utf-8", "replace"))
            else:
                try:
                    out.append(run.decode())
                except UnicodeDecodeError:
                    out += ["\ufffd"] * len(run)
            run = b""
        if piece is not None:
            out.append(piece)
    return out


def apply(rule: dict[str, Any] | None, pieces: list[str], byte_fallback: str) -> list[str]:
    if rule is None:
        return [" ".join(pieces)]
    kind = rule["type"]
    if kind == "Sequence":
        for part in rule["decoders"]:
            pieces = apply(part, pieces, byte_fallback)
        return pieces
    if kind == "ByteLevel":
        data = b"".join(
            bytes(BYTE_OF[c] for c in p) if all(c in BYTE_OF for c in p) else p.encode()
            for p in pieces
        )
        return [data.decode("utf-8", "replace")]
    if kind == "SentencePiece":
        return [sentence_pieces(pieces, rule["strip"], byte_fallback)]
    if kind == "ByteFallback":
        return runs(pieces, byte_fallback)
    if kind == "Fuse":
        return ["".join(pieces)]
    if kind == "Strip":
        return [strip(p, rule["content"], rule["start"], rule["stop"]) for p in pieces]
    if kind == "Replace":
        return [p.replace(rule["pattern"]["String"], rule["content"]) for p in pieces]
    if kind == "Metaspace":
        keep = rule["prepend_scheme"] == "never"
        return [
            p.replace(rule["replacement"], " " if n or keep else "") for n, p in enumerate(pieces)
        ]
    if kind == "WordPiece":
        out = [
            p if not n else p[len(rule["prefix"]) :] if p.startswith(rule["prefix"]) else " " + p
            for n, p in enumerate(pieces)
        ]
        return [clean(p, WORDPIECE) for p in out] if rule["cleanup"] else out
    if kind == "BPEDecoder":
        return [
            p.replace(rule["suffix"], "" if n == len(pieces) - 1 else " ")
            for n, p in enumerate(pieces)
        ]
    if kind == "CTC":
        kept = [p for n, p in enumerate(pieces) if not n or p != pieces[n - 1]]
        kept = [p.replace(rule["pad_token"], "") for p in kept]
        if rule["cleanup"]:
            kept = [clean(p, WORDPIECE).replace(rule["word_delimiter_token"], " ") for p in kept]
        return [p for p in kept if p]
    raise AssertionError(kind)


def decode(
    rule: dict[str, Any] | None,
    pieces: list[str],
    byte_fallback: str = "hf",
    clean_up: bool = False,
) -> str:
    """Return the text of a whole list of pieces."""
    text = "".join(apply(rule, pieces, byte_fallback))
    return clean(text, TRANSFORMERS) if clean_up else text


def decode_apart(
    rule: dict[str, Any] | None,
    pieces: list[str],
    apart: set[str],
    byte_fallback: str = "hf",
    clean_up: bool = False,
) -> str:
    """Return the text of a whole list of pieces where those of `apart` stand by themselves and
    single spaces join the parts.
    """
    parts: list[str] = []
    run: list[str] = []
    for piece in pieces:
        if piece not in apart:
            run.append(piece)
            continue
        parts += [decode(rule, run, byte_fallback)] if run else []
        parts, run = [*parts, piece], []
    text = " ".join(parts + ([decode(rule, run, byte_fallback)] if run else []))
    return clean(text, TRANSFORMERS) if clean_up else text
