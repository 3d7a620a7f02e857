"""Compute what the cases of conformance/formats.json give: `python tools/make_format_cases.py`.

In: the file itself. Of a case a person writes the answer, and why: text, in which `⟦x⟧` is the
token x. Out: the same file with the ids of each answer, what it says, and how much of that is
certain after each id. Both come from the plain readers in tests/formats, which read whole texts,
and not from detok. What is certain is what all ways to go on have in common: tests/formats holds
the readers of cut texts against brute force. Where an id ends inside a character, every kind of
character that it may become is tried.

`--check` writes nothing, and says whether the file is what comes out. `--show ID` prints the cases
whose id begins with ID, a line for each token.
"""

import argparse
import codecs
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from formats.values import spelled  # noqa: E402
from formats.whole_text import (  # noqa: E402
    Answer,
    Piece,
    Token,
    markers_of,
    pieces_of,
    whole_text,
)
from laws.oracle import common  # noqa: E402
from laws.reference import BYTE_OF  # noqa: E402

FILE = ROOT / "conformance" / "formats.json"
MEMBERS = (
    *("id", "since", "title", "why", "superseded_by", "options", "answer"),
    *("ids", "out", "certain", "links", "found_in"),
)
LETTER = {byte: letter for letter, byte in BYTE_OF.items()}


class Vocabulary:
    """The tokens of a format: pieces that all formats have, and its own."""

    def __init__(self, suite: dict[str, Any], name: str) -> None:
        self.ids: dict[str, int] = suite["vocabularies"]["formats"]["model"]["vocab"]
        self.pieces = {i: bytes(BYTE_OF[c] for c in piece) for piece, i in self.ids.items()}
        tokens = suite["formats"][name]["tokens"]
        self.tokens = {token: len(self.ids) + n for n, token in enumerate(tokens)}
        self.spellings = {i: token for token, i in self.tokens.items()}
        self.longest = max(map(len, self.pieces.values()))

    def ids_of(self, answer: str) -> list[int]:
        """Return the ids of an answer: the longest piece that fits, again and again."""
        ids = []
        for piece in pieces_of(answer):
            if isinstance(piece, Token):
                ids.append(self.tokens[piece])
                continue
            text = "".join(LETTER[byte] for byte in piece.encode())
            while text:
                size = next(n for n in range(self.longest, 0, -1) if text[:n] in self.ids)
                ids.append(self.ids[text[:size]])
                text = text[size:]
        return ids


class Oracle:
    """What an answer says after some of its ids."""

    def __init__(self, options: dict[str, Any], vocabulary: Vocabulary) -> None:
        self.options = options
        marks, texts, _ = markers_of(options["format"])
        markers = {spelled(each) for each in (*marks, *texts)}
        self.texts = sorted(markers - vocabulary.tokens.keys())

    def answer(self, pieces: list[Piece], cut: bool) -> Answer:
        options = self.options
        start, schemas = options.get("start", "content"), options.get("tool_schemas")
        return whole_text(options["format"], pieces, start, schemas, cut, self.texts)

    def certain(self, pieces: list[Piece], begun: bytes) -> Answer:
        """Return what is certain after pieces, and the begun bytes of a character."""
        ways: list[list[Piece]] = [[end] for end in characters_from(begun)] if begun else [[]]
        ways += [[end] for end in self.ends_of_markers(pieces) if not begun]
        answers = [self.answer([*pieces, *way], cut=True) for way in ways]
        known = answers[0]
        for other in answers[1:]:
            known = in_common(known, other)
        return known

    def ends_of_markers(self, pieces: list[Piece]) -> list[str]:
        """Return what makes the end of a text a marker, where the vocabulary has it as text."""
        text = ""
        for piece in reversed(pieces):
            if isinstance(piece, Token):
                break
            text = piece + text
        return [
            marker[size:]
            for marker in self.texts
            for size in range(1, len(marker))
            if text.endswith(marker[:size])
        ]


def characters_from(begun: bytes) -> list[str]:
    """Return two characters that begin with these bytes, and U+FFFD.

    >>> characters_from("é".encode()[:1])
    ['À', 'ÿ', '�']
    """
    found = []
    for order in (range(0x80, 0xC0), range(0xBF, 0x7F, -1)):
        data = begun
        while len(decoded(data)) == 0:
            data += bytes([next(b for b in order if is_begun(data + bytes([b])))])
        found.append(data.decode())
    return [*found, "\ufffd"]


def decoded(data: bytes) -> str:
    """Return the whole characters of these bytes."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data)


def is_begun(data: bytes) -> bool:
    """Return whether these bytes are a character, or begin one."""
    return "\ufffd" not in decoded(data)


def in_common(one: Answer, other: Answer) -> Answer:
    """Return the longest common beginning of two answers."""
    calls = []
    for a, b in zip(one.calls, other.calls):
        if a.name != b.name:
            break
        end = common(a.arguments, b.arguments)
        calls.append(a._replace(arguments=end))
        if end != a.arguments or end != b.arguments:
            break
    return Answer(
        common(one.content, other.content), common(one.reasoning, other.reasoning), calls, None
    )


def read_on(vocabulary: Vocabulary, ids: list[int]) -> Iterator[tuple[int, list[Piece], bytes]]:
    """Yield an answer as it grows by one character or token: how many ids have begun, its pieces,
    and the bytes of a character that is not whole.
    """
    pieces: list[Piece] = []
    begun = b""
    for count, i in enumerate(ids, 1):
        if i in vocabulary.spellings:
            if begun:
                pieces.append("\ufffd")
            pieces.append(Token(vocabulary.spellings[i]))
            begun = b""
            yield count, list(pieces), begun
            continue
        for byte in vocabulary.pieces[i]:
            begun += bytes([byte])
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            for character in decoder.decode(begun):
                pieces.append(character)
            begun = decoder.getstate()[0]
            yield count, list(pieces), begun


class Said:
    """What an answer has said so far, in order, as runs of a section or a call."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.texts = {"content": "", "reasoning": ""}
        self.count = 0

    def grow(self, answer: Answer) -> None:
        """Take what an answer says now; it begins with what it said before."""
        for channel in ("reasoning", "content"):
            text = getattr(answer, channel)
            assert text.startswith(self.texts[channel]), (self.texts, answer)
            new = text[len(self.texts[channel]) :]
            self.texts[channel] = text
            if new and not (self.runs and channel in self.runs[-1]):
                self.runs.append({channel: ""})
            if new:
                self.runs[-1][channel] += new
                self.count += len(new)
        assert len(answer.calls) >= len(self.calls), (self.calls, answer)
        for n, call in enumerate(answer.calls):
            if n == len(self.calls):
                self.calls.append({"call": call.name, "arguments": ""})
                self.runs.append(self.calls[n])
                self.count += 1
            mine = self.calls[n]
            assert call.arguments.startswith(mine["arguments"]), (mine, answer)
            new = call.arguments[len(mine["arguments"]) :]
            assert not new or mine is self.runs[-1], (self.runs, answer)
            mine["arguments"] = call.arguments
            self.count += len(new)


def made(suite: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """Return a case as it is published: with ids, and with what comes out."""
    options = case["options"]
    vocabulary = Vocabulary(suite, options["format"])
    oracle = Oracle(options, vocabulary)
    ids = vocabulary.ids_of(case["answer"])
    said, certain, pieces = Said(), [0] * len(ids), []
    for count, pieces, begun in read_on(vocabulary, ids):
        said.grow(oracle.certain(pieces, begun))
        certain[count - 1] = said.count
    whole = oracle.answer(pieces, cut=False)
    said.grow(whole)
    for mine, call in zip(said.calls, whole.calls, strict=True):
        mine |= {"id": call.id} if call.id is not None else {}
        mine |= {} if call.complete else {"complete": False}
    case = {**case, "ids": ids, "out": said.runs, "certain": certain}
    return {name: case[name] for name in MEMBERS if name in case}


def computed(suite: dict[str, Any]) -> dict[str, Any]:
    """Return the suite with what its cases give."""
    return {**suite, "cases": [made(suite, case) for case in suite["cases"]]}


def written(suite: dict[str, Any]) -> str:
    """Return the suite as JSON: a format and a case to a line."""

    def line(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    head = json.dumps({**suite, "vocabularies": 0, "formats": 0, "cases": 0}, indent=2)
    for name in ("vocabularies", "formats"):
        rows = ",\n".join(f"    {line(key)}: {line(value)}" for key, value in suite[name].items())
        head = head.replace(f'"{name}": 0', f'"{name}": {{\n{rows}\n  }}')
    rows = ",\n".join("    " + line(case) for case in suite["cases"])
    return head.replace('"cases": 0', f'"cases": [\n{rows}\n  ]') + "\n"


def told(suite: dict[str, Any], case: dict[str, Any]) -> str:
    """Return a case for people: the pieces, and how much is certain after each."""
    vocabulary = Vocabulary(suite, case["options"]["format"])
    lines = [f"{case['id']}: {case['title']}. {case.get('why', '')}".rstrip()]
    lines += [f"  options: {json.dumps(case['options'])}"]
    for i, count in zip(case["ids"], case["certain"]):
        piece = vocabulary.spellings.get(i) or vocabulary.pieces[i].decode(
            errors="backslashreplace"
        )
        lines.append(f"  {json.dumps(piece, ensure_ascii=False)} → {count}")
    return "\n".join([*lines, *(f"  {json.dumps(run, ensure_ascii=False)}" for run in case["out"])])


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--show", metavar="ID", nargs="+", help="print cases whose id begins with ID"
    )
    parser.add_argument("--check", action="store_true", help="write nothing: is the file the same?")
    given = parser.parse_args(words)
    text = FILE.read_text("utf-8")
    suite = json.loads(text)
    if given.show:
        chosen = [case for case in suite["cases"] if case["id"].startswith(tuple(given.show))]
        if not chosen:
            known = ", ".join(f"formats/{name}" for name in suite["formats"])
            wanted = " or ".join(given.show)
            parser.error(f"no case has an id that begins with {wanted}; ids begin with {known}")
        print("\n\n".join(told(suite, case) for case in chosen))
        return 0
    found = written(computed(suite))
    if given.check:
        print("the same" if text == found else f"{FILE} is not what comes out.")
        return int(text != found)
    FILE.write_text(found, "utf-8")
    print(f"{len(suite['cases'])} cases in {FILE.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
