"""Write conformance/cases.json: `python tools/make_conformance.py [--check]`.

In: the cases (conformance_cases.py) and the vocabularies. Out: for every push what a stream must
show. It is computed by brute force, not by detok: what is certain after an input is what the final
texts of all its continuations begin with in common. The final texts come from the references in
tests/laws/, which decode whole lists of pieces.

A case that was published never changes. If this script would change one, it refuses: the case gets
a new id, and the old one names it in `SUPERSEDED`. A new case says `since` which version of the suite
it is there.
"""

import functools
import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from conformance_cases import CASES, Case  # noqa: E402
from conformance_vocabularies import (  # noqa: E402
    LETTER,
    VOCABULARIES,
    alphabet,
    pieces_of,
    special_ids,
)
from laws.oracle import common, final_deltas, final_text  # noqa: E402
from laws.reference import decode, decode_apart  # noqa: E402

FILE = ROOT / "conformance" / "cases.json"
VERSION = "1.1.0"
SUPERSEDED: dict[str, str] = {}  # the id of an old case: the id of the case in its place
# Bytes that stand for all others: each place in UTF-8 where the next byte makes a difference.
OCTETS = [bytes([byte]) for byte in (0x41, 0x80, 0x9F, 0x8F, 0xBF, 0xA0, 0xC3, 0xE6, 0xED, 0xF0)]
CHANNELS = ("reasoning", "tools")
FILTERS = ("stop", "trim", *CHANNELS)
ENDS = ("eos", "stop_ids", "max_tokens")
DEPTH = 3


def link(name: str) -> str:
    """Return the address of an issue (`owner/name#1`) or of a pull request (`owner/name!1`)."""
    kind = "issues" if "#" in name else "pull"
    repository, _, number = name.replace("!", "#").partition("#")
    return f"https://github.com/{repository}/{kind}/{number}"


def ids_of(case: Case, pieces: Any) -> list[int]:
    """Return the ids of a push: a piece, a list of pieces, or ids as they are."""
    table = _table(case.vocabulary)
    given = [pieces] if isinstance(pieces, str) else pieces
    out: list[int] = []
    for piece in given:
        if isinstance(piece, int):
            out.append(piece)
        elif piece in table:
            out.append(table[piece])
        else:  # no token of its own: letter by letter
            out += [table[letter] for letter in piece]
    return out


@functools.cache
def _table(vocabulary: str) -> dict[str, int]:
    return {piece: at for at, piece in enumerate(pieces_of(vocabulary))}


class Oracle:
    """What is final and what is certain, for the input of one case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.options = options = dict(case.options)
        if "stop" in options:
            options["stop"] = [word for word in options["stop"] if word]
        self.plain = not any(name in options for name in FILTERS)
        if case.input == "ids":
            self.pieces = pieces_of(case.vocabulary)
            self.special = special_ids(case.vocabulary)
            self.rule = VOCABULARIES[case.vocabulary]["decoder"]
            self.prompt = tuple(ids_of(case, case.prompt))
            self.eos = set(ids_of(case, options.get("eos", [])))
            self.stop_ids = [tuple(ids_of(case, each)) for each in options.get("stop_ids", [])]
            self.tags = {tag for name in CHANNELS for pair in options.get(name, []) for tag in pair}
            self.known = self.decoded(self.prompt)
        self.nothing: Any = {"bytes": b"", "ids": (), "text": ""}[case.input]
        self._finals: dict[Any, Any] = {}
        self._continuations = self.continuations()

    def decoded(self, ids: tuple[int, ...]) -> str:
        skip = self.options.get("skip_special_tokens", True)
        spelled = [
            self.pieces[i]
            for i in ids
            if 0 <= i < len(self.pieces)
            and not (skip and i in self.special and self.pieces[i] not in self.tags)
        ]
        how = (
            self.options.get("byte_fallback", "utf8"),
            self.options.get("clean_up_tokenization_spaces", False),
        )
        if self.options.get("spaces_between_special_tokens"):
            apart = {self.pieces[i] for i in self.special}
            return decode_apart(self.rule, spelled, apart, *how)
        return decode(self.rule, spelled, *how)

    def cut(self, given: tuple[int, ...]) -> tuple[tuple[int, ...], str | None]:
        """Return the ids of the answer, and the reason if it has ended by ids or their number."""
        most = self.options.get("max_tokens")
        for count in range(1, len(given) + 1):
            if count - 1 == most:
                break
            if count <= self.options.get("min_tokens", 0):
                continue
            if given[count - 1] in self.eos:
                return given[: count - 1], "eos"
            for sequence in sorted(self.stop_ids, key=len, reverse=True):
                begin = count - len(sequence)
                if given[max(begin, 0) : count] == sequence and self.may_stop(given[:begin]):
                    shown = count if self.options.get("include_stop") else begin
                    return given[:shown], "stop"
        return given[:most], "length" if most is not None and len(given) >= most else None

    def may_stop(self, given: tuple[int, ...]) -> bool:
        """Return whether stops count behind these ids."""
        if not any(name in self.options for name in CHANNELS):
            return True
        channel = self.filtered(self.decoded(given) + "~")[-1][0]
        return channel == "content" or self.options.get("stop_scope") == "everywhere"

    def text(self, given: Any) -> str:
        """Return the whole text of an input that ends here."""
        if self.case.input == "bytes":
            errors = self.options.get("errors", "replace")
            return given.decode("utf-8", "ignore" if errors == "ignore" else "replace")
        if self.case.input == "text":
            return given.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        whole = self.decoded(self.prompt + self.cut(given)[0])
        return whole[len(common(self.known, whole)) :]

    def final(self, given: Any) -> Any:
        """Return what is shown of an input that ends here: text, or (channel, character) pairs."""
        if given not in self._finals:
            text = self.text(given)
            if "min_tokens" in self.options:
                least = len(self.decoded(given[: self.options["min_tokens"]]))
                stops, include = self.options.get("stop", ()), "include_stop" in self.options
                self._finals[given] = final_text(text, stops, include, least)
            else:
                self._finals[given] = text if self.plain else self.filtered(text)
        return self._finals[given]

    def filtered(self, text: str) -> Any:
        options = self.options
        # A segment's search for words is quadratic: a stop list is cut to what occurs.
        deltas = final_deltas(
            text,
            stops=[word for word in options.get("stop", ()) if word in text],
            include=options.get("include_stop", False),
            everywhere=options.get("stop_scope") == "everywhere",
            reasoning=options.get("reasoning"),
            tools=options.get("tools"),
            start=options.get("start", "content"),
            edges=options.get("trim", ()),
        )
        if any(name in options for name in CHANNELS):
            return deltas
        return "".join([character for _, character in deltas])

    def continuations(self) -> list[Any]:
        """Return what may follow: any few units, and the rest of every word that is looked for."""
        options = self.options
        words = [*options.get("stop", ()), *options.get("trim", ())]
        for name in CHANNELS:
            words += [tag for pair in options.get(name, ()) for tag in pair[:2] if tag]
        tails = sorted({word[at:] for word in words for at in range(len(word))})
        if self.case.input == "text":
            halves = ["\ud83e", "\udd8a"] if self.plain else []
            if halves:
                return ["", "~", *halves, "".join(halves)]
            few = tails if len(tails) < 60 else tails[:60]
            return ["", "~", *tails, *(a + b for a in few for b in ("~", *few))]
        if self.case.input == "bytes":
            units: list[Any] = OCTETS if self.plain else OCTETS[:6:2]
            rest = [tail.encode() + b for tail in tails for b in (b"", b"~")]
            join: Any = b"".join
        else:
            units = [(i,) for i in alphabet(self.case.vocabulary)]
            if options.get("clean_up_tokenization_spaces") and "'s" in self.pieces:
                table = _table(self.case.vocabulary)
                units = [(table[letter],) for letter in "ĠA.,?!'ntsmver"]
            letters = {letter: at for at, letter in enumerate(self.pieces)}
            rest = [
                tuple(letters[LETTER[b]] for b in (tail + end).encode())
                for tail in tails
                for end in ("", "~")
            ]
            rest += [each[at:] for each in self.stop_ids for at in range(1, len(each))]
            # Tokens without text count: a stop can end behind the least number of them.
            silent = tuple(sorted(self.special)[:1]) * options.get("min_tokens", 0)
            rest += [silent[at:] + tail for tail in rest for at in range(len(silent))]
            join = lambda parts: sum(parts, ())  # noqa: E731
        depth = DEPTH if self.plain or self.case.input == "bytes" else 2
        return [
            *(
                join(parts)
                for size in range(depth + 1)
                for parts in itertools.product(units, repeat=size)
            ),
            *rest,
        ]

    def certain(self, given: Any) -> Any:
        """Return what the final outputs of all continuations begin with in common."""
        known = self.final(given)
        for more in self._continuations:
            if not known:
                break
            known = common(known, self.final(given + more))
        return known

    def reason(self, given: Any) -> str | None:
        """Return why the text has ended before its input: "stop", "eos", "length" or None."""
        if self.options.get("stop") and "min_tokens" not in self.options:
            text = self.text(given)
            if self.filtered(text) == self.filtered(text + "~~"):
                return "stop"
        if "min_tokens" in self.options and self.final(given) != self.text(given):
            return "stop"
        return self.cut(given)[1] if self.case.input == "ids" else None

    def refused(self, given: Any, at_end: bool) -> bool:
        """Return whether the policy `strict` refuses these bytes."""
        if self.options.get("errors") != "strict":
            return False
        shown = self.final(given) if at_end else self.certain(given)
        return "\ufffd" in shown

    def spans(self, given: tuple[int, ...]) -> list[list[int]]:
        """Return for each id the characters that one of its bytes is in."""
        data, owner = b"", []
        for at, i in enumerate(given):
            piece = self.pieces[i]
            if i in self.special and self.options.get("skip_special_tokens", True):
                own = b""
            elif self.rule["type"] == "ByteLevel":
                own = bytes({letter: byte for byte, letter in LETTER.items()}[x] for x in piece)
            elif piece.startswith("<0x") and i not in self.special:
                own = bytes([int(piece[3:5], 16)])
            else:
                own = piece.replace("▁", " ").encode()
            data += own
            owner += [at] * len(own)
        # Each character takes as many bytes as make the decoded text longer.
        spans = [[-1, -1] for _ in given]
        text, begin = data.decode("utf-8", "replace"), 0
        stripped = int(self.rule["type"] == "Sequence" and text.startswith(" "))
        for at, character in enumerate(text):
            end = begin + len(character.encode())
            if data[begin:end] != character.encode():  # the maximal subpart of U+FFFD
                end = begin + 1
                while (
                    end < len(data) and data[begin : end + 1].decode("utf-8", "replace") == "\ufffd"
                ):
                    end += 1
            for token in set(owner[begin:end]) if at >= stripped else ():
                first = spans[token][0]
                spans[token] = [at - stripped if first < 0 else first, at - stripped + 1]
            begin = end
        for at, span in enumerate(spans):  # a token without characters is where the last one ends
            if span == [-1, -1]:
                spans[at] = [spans[at - 1][1] if at else 0] * 2
        return spans


def flat(out: Any) -> Any:
    """Return (channel, character) pairs as deltas; text stays as it is."""
    if isinstance(out, str):
        return out
    return [
        [channel, "".join(character for _, character in run)]
        for channel, run in itertools.groupby(out, key=lambda pair: pair[0])
    ]


def made(case: Case) -> dict[str, Any]:
    """Return a case as it is published."""
    oracle = Oracle(case)
    given = oracle.nothing
    shown: Any = oracle.certain(given)
    empty = shown[:0]
    steps: list[dict[str, Any]] = []
    marked: Any = None
    ended = False
    for step in case.steps:
        more: dict[str, Any] = {}
        if isinstance(step, dict):
            more, step = {"may_refuse": True}, step["push"]
        if step == "flush":
            if oracle.refused(given, True):
                steps.append({"do": "flush", "refused": True})
                break
            whole = shown if ended else oracle.final(given)
            steps.append({"do": "flush", "out": flat(whole[len(shown) :])})
            shown, ended = whole, True
        elif step == "reset":
            steps.append({"do": "reset"})
            given, shown, ended = oracle.nothing, empty, False
        elif step == "mark":
            steps.append({"do": "mark"})
            marked = given
        elif step == "rollback":
            before = oracle.certain(marked)
            steps.append({"do": "rollback", "back": len(shown) - len(before)})
            given, shown = marked, before
        else:
            if case.input == "bytes":
                push: Any = step.strip("'")
                chunk: Any = bytes.fromhex(push)
            elif case.input == "ids":
                push = ids_of(case, step)
                chunk = tuple(push)
            else:
                push = chunk = step
            if ended:  # a new text, if it is not refused
                given, shown, ended = oracle.nothing, empty, False
            given = given + chunk
            if oracle.refused(given, False):
                steps.append({"do": "push", "in": push, "refused": True})
                break
            now = oracle.certain(given)
            assert now[: len(shown)] == shown, f"{case.id}: {shown!r} is taken back for {now!r}"
            steps.append({"do": "push", "in": push, "out": flat(now[len(shown) :]), **more})
            shown = now
    body: dict[str, Any] = {
        "id": case.id,
        "since": case.since,
        "title": case.title,
        "why": case.why,
        "input": case.input,
    }
    if case.id in SUPERSEDED:
        body["superseded_by"] = SUPERSEDED[case.id]
    if case.input == "ids":
        body["vocabulary"] = case.vocabulary
        if case.prompt:
            body["prompt"] = list(oracle.prompt)
    options = dict(case.options)
    if "eos" in options:
        options["eos"] = ids_of(case, options["eos"])
    if "stop_ids" in options:
        options["stop_ids"] = [ids_of(case, each) for each in options["stop_ids"]]
    if options:
        body["options"] = options
    body["steps"] = steps
    if options.get("stop") is not None or any(name in options for name in ENDS):
        body["reason"] = oracle.reason(given)
    if case.spans:
        body["spans"] = oracle.spans(given)
    if case.links:
        body["links"] = [link(name) for name in case.links]
    if case.project:
        body["found_in"] = "detok"
    if case.may_refuse:
        body["may_refuse"] = True
    return body


def suite() -> dict[str, Any]:
    """Return the whole suite."""
    cases = [made(case) for case in CASES]
    repeated = {case["id"] for case in cases if sum(c["id"] == case["id"] for c in cases) > 1}
    assert not repeated, repeated
    return {
        "$schema": "./schema.json",
        "name": "streaming detokenization",
        "version": VERSION,
        "license": "Apache-2.0",
        "vocabularies": VOCABULARIES,
        "cases": cases,
    }


def written(found: dict[str, Any]) -> str:
    """Return the suite as JSON: a case to a few lines, so that a change is readable."""
    out = json.dumps({**found, "vocabularies": 0, "cases": 0}, indent=2)
    tables = ",\n".join(
        f"    {json.dumps(name)}: {json.dumps(table, ensure_ascii=False)}"
        for name, table in found["vocabularies"].items()
    )
    cases = ",\n".join("    " + json.dumps(case, ensure_ascii=False) for case in found["cases"])
    # Half of a surrogate pair can be written in JSON, and not in UTF-8.
    cases = re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", cases)
    out = out.replace('"vocabularies": 0', '"vocabularies": {\n' + tables + "\n  }")
    return out.replace('"cases": 0', '"cases": [\n' + cases + "\n  ]") + "\n"


def changed(found: dict[str, Any], published: dict[str, Any]) -> list[str]:
    """Return the ids of published cases that would change or go."""
    now = {case["id"]: case for case in found["cases"]}
    kept = ("superseded_by", "links")
    return [
        case["id"]
        for case in published["cases"]
        if {k: v for k, v in now.get(case["id"], {}).items() if k not in kept}
        != {k: v for k, v in case.items() if k not in kept}
    ]


def main(words: list[str]) -> int:
    published = json.loads(FILE.read_text("utf-8")) if FILE.exists() else None
    if "--check" in words:
        same = FILE.read_text("utf-8") == written(suite())
        print("the same" if same else f"{FILE} is not what this script makes; run it.")
        return int(not same)
    found = suite()
    if published and "--new" not in words:
        differ = changed(found, published)
        if differ:
            print(
                f"These published cases would change: {', '.join(differ)}. Give each a new id, and name it in SUPERSEDED.",
                file=sys.stderr,
            )
            return 1
        known = {case["id"] for case in published["cases"]}
        old = [c["id"] for c in found["cases"] if c["id"] not in known and c["since"] != VERSION]
        if old:
            print(f"New cases are since {VERSION}: {', '.join(old)}.", file=sys.stderr)
            return 1
    FILE.write_text(written(found), "utf-8")
    print(f"{len(found['cases'])} cases in {FILE.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
