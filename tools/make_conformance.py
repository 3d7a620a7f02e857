"""Compute what the cases of conformance/cases.json give: `python tools/make_conformance.py`.

In: the file itself. Of a case a person writes what goes in and why; `in`, `prompt`, `eos` and
`stop_ids` may name pieces of the vocabulary for their ids. Out: the same file with what a stream
must give at every step. It is computed by brute force, not by detok: what is certain after an input
is the longest common prefix of the final texts of all its continuations. The final texts come from
the references in tests/laws/, which decode whole lists of pieces.

A case that was published never changes: `PUBLISHED` has the digest of the cases of each version. If
one was wrong or unclear, a case with a new id takes its place, and the old one names it in
`superseded_by`. `--check` computes published cases too, writes nothing, and says whether the file
is what comes out. `--show ID` prints the cases whose id begins with ID, with pieces for ids.
"""

import argparse
import hashlib
import itertools
import json
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from laws.oracle import common, final_deltas, final_text  # noqa: E402
from laws.reference import BYTE_OF, decode, decode_apart  # noqa: E402

FILE = ROOT / "conformance" / "cases.json"
PUBLISHED = {
    "1.0.0": "385ceaa0cf61e2d813673d31c63d1af1ea101af427b9655de5caea9c45d3e8b7",
    "1.1.0": "673616d8b175f2c84d87ac9345e563973510ee0068df42bed574198a4b2ba1fb",
    "1.2.0": "a95b0b80a302fc2bc89303b0d7d824a3869903c13ccdf8ee6052f0ef3de8f815",
}
LATER = ("superseded_by", "links")  # members that a published case may get later
MEMBERS = (
    *("id", "since", "title", "why", "input", "superseded_by", "vocabulary", "prompt", "options"),
    *("steps", "reason", "spans", "links", "found_in", "may_refuse"),
)
LETTER = {byte: letter for letter, byte in BYTE_OF.items()}
# Bytes that stand for all others: each place in UTF-8 where the next byte makes a difference.
OCTETS = [bytes([byte]) for byte in (0x41, 0x80, 0x9F, 0x8F, 0xBF, 0xA0, 0xC3, 0xE6, 0xED, 0xF0)]
# Pieces that stand for everything that could come next; without a row all do.
BYTE_LEVEL = [LETTER[byte] for byte in (0x41, 0x20, 0x80, 0x9F, 0xA9, 0xBF, 0xC3, 0xE6, 0xF0)]
SENTENCEPIECE = [f"<0x{byte:02X}>" for byte in (0x0A, 0x20, 0x80, 0x9F, 0xA9, 0xC3, 0xE6, 0xF0)]
ALPHABETS = {
    "byte-level": [*BYTE_LEVEL, "Ġred", "<|end|>", "<naïve>"],
    "byte-level pieces, SentencePiece decoder": ["Ġred", "fox", "Ġ", "A", "Ã"],
    "sentencepiece": [*SENTENCEPIECE, "▁", "▁red", "A", "</s>"],
}
CHANNELS = ("reasoning", "tools")
FILTERS = ("stop", "trim", *CHANNELS)
ENDS = ("eos", "stop_ids", "max_tokens")
DEPTH = 3


class Vocabulary:
    """The tokenizer.json of a case, for the brute force."""

    def __init__(self, name: str, found: dict[str, Any]) -> None:
        self.ids: dict[str, int] = dict(found["model"]["vocab"])
        self.ids |= {token["content"]: token["id"] for token in found["added_tokens"]}
        self.pieces = sorted(self.ids, key=self.ids.__getitem__)
        self.special = {token["id"] for token in found["added_tokens"] if token["special"]}
        self.rule = found["decoder"]
        kind = name.partition(", ")[0]
        kept = self.pieces[2:] if kind == "wordpiece" else self.pieces
        self.alphabet = [
            self.ids[piece] for piece in ALPHABETS.get(name, ALPHABETS.get(kind, kept))
        ]

    def ids_of(self, given: Any) -> list[int]:
        """Return the ids of a piece, of a list of pieces, or ids as they are."""
        out: list[int] = []
        for piece in [given] if isinstance(given, str) else given:
            if isinstance(piece, int):
                out.append(piece)
            elif piece in self.ids:
                out.append(self.ids[piece])
            else:  # no token of its own: letter by letter
                out += [self.ids[letter] for letter in piece]
        return out


class Oracle:
    """What is final and what is certain, for the input of one case."""

    def __init__(self, case: dict[str, Any], vocabulary: Vocabulary | None) -> None:
        self.input: str = case["input"]
        self.options = options = dict(case.get("options", {}))
        if "stop" in options:
            options["stop"] = [word for word in options["stop"] if word]
        self.plain = not any(name in options for name in FILTERS)
        if vocabulary is not None:
            self.vocabulary = vocabulary
            self.prompt = tuple(case.get("prompt", ()))
            self.stop_ids = [tuple(each) for each in options.get("stop_ids", [])]
            self.tags = {tag for name in CHANNELS for pair in options.get(name, []) for tag in pair}
            self.known = self.decoded(self.prompt)
        self.nothing: Any = {"bytes": b"", "ids": (), "text": ""}[self.input]
        self._finals: dict[Any, Any] = {}
        self._continuations = self.continuations()

    def decoded(self, ids: tuple[int, ...]) -> str:
        skip, known = self.options.get("skip_special_tokens", True), self.vocabulary
        spelled = [
            known.pieces[i]
            for i in ids
            if 0 <= i < len(known.pieces)
            and not (skip and i in known.special and known.pieces[i] not in self.tags)
        ]
        how = (
            self.options.get("byte_fallback", "utf8"),
            self.options.get("clean_up_tokenization_spaces", False),
        )
        if self.options.get("spaces_between_special_tokens"):
            apart = {known.pieces[i] for i in known.special}
            return decode_apart(known.rule, spelled, apart, *how)
        return decode(known.rule, spelled, *how)

    def cut(self, given: tuple[int, ...]) -> tuple[tuple[int, ...], str | None]:
        """Return the ids of the answer, and the reason if it has ended by ids or their number."""
        most = self.options.get("max_tokens")
        for count in range(1, len(given) + 1):
            if count - 1 == most:
                break
            if count <= self.options.get("min_tokens", 0):
                continue
            if given[count - 1] in self.options.get("eos", ()):
                return given[: count - 1], "eos"
            for sequence in sorted(self.stop_ids, key=len, reverse=True):
                begin = count - len(sequence)
                if given[max(begin, 0) : count] == sequence and self.may_stop(given[:begin]):
                    shown = count if self.options.get("include_stop") else begin
                    return given[:shown], "stop"
            if self.stop_ids and "stop" in self.options and self.stopped(given[:count]):
                return given[:count], "stop"  # before a sequence that has begun is complete
        return given[:most], "length" if most is not None and len(given) >= most else None

    def stopped(self, given: tuple[int, ...]) -> bool:
        """Return whether a stop string is complete in the text of these ids."""
        whole = self.decoded(self.prompt + given)
        text = whole[len(common(self.known, whole)) :]
        return bool(self.filtered(text) == self.filtered(text + "~~"))

    def may_stop(self, given: tuple[int, ...]) -> bool:
        """Return whether stops count after these ids."""
        if not any(name in self.options for name in CHANNELS):
            return True
        channel = self.filtered(self.decoded(given) + "~")[-1][0]
        return channel == "content" or self.options.get("stop_scope") == "everywhere"

    def text(self, given: Any) -> str:
        """Return the whole text of an input that ends here."""
        if self.input == "bytes":
            errors = self.options.get("errors", "replace")
            return given.decode("utf-8", "ignore" if errors == "ignore" else "replace")
        if self.input == "text":
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
        if self.input == "text":
            halves = ["\ud83e", "\udd8a"] if self.plain else []
            if halves:
                return ["", "~", *halves, "".join(halves)]
            few = tails if len(tails) < 60 else tails[:60]
            return ["", "~", *tails, *(a + b for a in few for b in ("~", *few))]
        if self.input == "bytes":
            units: list[Any] = OCTETS if self.plain else OCTETS[:6:2]
            rest = [tail.encode() + b for tail in tails for b in (b"", b"~")]
            join: Any = b"".join
        else:
            known = self.vocabulary
            units = [(i,) for i in known.alphabet]
            if options.get("clean_up_tokenization_spaces") and "'s" in known.ids:
                units = [(known.ids[letter],) for letter in "ĠA.,?!'ntsmver"]
            rest = [
                tuple(known.ids[LETTER[b]] for b in (tail + end).encode())
                for tail in tails
                for end in ("", "~")
            ]
            rest += [each[at:] for each in self.stop_ids for at in range(1, len(each))]
            # Tokens without text count: a stop can end behind the least number of them.
            silent = tuple(sorted(known.special)[:1]) * options.get("min_tokens", 0)
            rest += [silent[at:] + tail for tail in rest for at in range(len(silent))]
            join = lambda parts: sum(parts, ())  # noqa: E731
        depth = DEPTH if self.plain or self.input == "bytes" else 2
        return [
            *(
                join(parts)
                for size in range(depth + 1)
                for parts in itertools.product(units, repeat=size)
            ),
            *rest,
        ]

    def certain(self, given: Any) -> Any:
        """Return the longest common prefix of the final outputs of all continuations."""
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
        return self.cut(given)[1] if self.input == "ids" else None

    def refused(self, given: Any, at_end: bool) -> bool:
        """Return whether the policy `strict` refuses these bytes."""
        if self.options.get("errors") != "strict":
            return False
        shown = self.final(given) if at_end else self.certain(given)
        return "\ufffd" in shown

    def spans(self, given: tuple[int, ...]) -> list[list[int]]:
        """Return for each id the characters that one of its bytes is in."""
        data, owner, known = b"", [], self.vocabulary
        for at, i in enumerate(given):
            piece = known.pieces[i]
            if i in known.special and self.options.get("skip_special_tokens", True):
                own = b""
            elif known.rule["type"] == "ByteLevel":
                own = bytes(BYTE_OF[letter] for letter in piece)
            elif piece.startswith("<0x") and i not in known.special:
                own = bytes([int(piece[3:5], 16)])
            else:
                own = piece.replace("▁", " ").encode()
            data += own
            owner += [at] * len(own)
        # Each character takes as many bytes as make the decoded text longer.
        spans = [[-1, -1] for _ in given]
        text, begin = data.decode("utf-8", "replace"), 0
        stripped = int(known.rule["type"] == "Sequence" and text.startswith(" "))
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


def made(case: dict[str, Any], vocabularies: dict[str, Any]) -> dict[str, Any]:
    """Return a case as it is published: with ids, and with what comes out."""
    vocabulary = None
    case, options = dict(case), dict(case.get("options", {}))
    if case["input"] == "ids":
        vocabulary = Vocabulary(case["vocabulary"], vocabularies[case["vocabulary"]])
        case |= {"prompt": vocabulary.ids_of(case["prompt"])} if "prompt" in case else {}
        if "eos" in options:
            options["eos"] = vocabulary.ids_of(options["eos"])
        if "stop_ids" in options:
            options["stop_ids"] = [vocabulary.ids_of(each) for each in options["stop_ids"]]
    case |= {"options": options} if options else {}
    oracle = Oracle(case, vocabulary)
    given, case["steps"] = played(oracle, case["steps"])
    if "stop" in options or any(name in options for name in ENDS):
        case["reason"] = oracle.reason(given)
    if "spans" in case:
        case["spans"] = oracle.spans(given)
    return {name: case[name] for name in MEMBERS if name in case}


def played(oracle: Oracle, steps: list[dict[str, Any]]) -> tuple[Any, list[dict[str, Any]]]:
    """Return the input of the last text, and the steps with what they give."""
    given = marked = oracle.nothing
    shown: Any = oracle.certain(given)
    empty, ended = shown[:0], False
    out: list[dict[str, Any]] = []
    for step in steps:
        do, more = step["do"], {name: step[name] for name in ("may_refuse",) if name in step}
        if do == "reset":
            out.append({"do": do})
            given, shown, ended = oracle.nothing, empty, False
        elif do == "mark":
            out.append({"do": do})
            marked = given
        elif do == "rollback":
            before = oracle.certain(marked)
            out.append({"do": do, "back": len(shown) - len(before)})
            given, shown = marked, before
        else:
            now: dict[str, Any] = {"do": do}
            if do == "push":
                now["in"], chunk = chunk_of(oracle, step["in"])
                # A push behind the end begins a new text, if it is not refused.
                given, shown = (oracle.nothing, empty) if ended else (given, shown)
                given, ended = given + chunk, False
            if oracle.refused(given, do == "flush"):
                out.append({**now, "refused": True})
                break
            known = (
                oracle.certain(given) if do == "push" else shown if ended else oracle.final(given)
            )
            assert known[: len(shown)] == shown, f"{shown!r} is taken back for {known!r}"
            out.append({**now, "out": flat(known[len(shown) :]), **more})
            shown, ended = known, do == "flush"
    return given, out


def chunk_of(oracle: Oracle, written: Any) -> tuple[Any, Any]:
    """Return a push as it is published, and as the oracle takes it."""
    if oracle.input == "ids":
        ids = oracle.vocabulary.ids_of(written)
        return ids, tuple(ids)
    return written, bytes.fromhex(written) if oracle.input == "bytes" else written


def computed(suite: dict[str, Any], known: Collection[str] = ()) -> dict[str, Any]:
    """Return the suite with what its cases give; those of `known` versions stay as they are."""
    cases = [
        case if case["since"] in known else made(case, suite["vocabularies"])
        for case in suite["cases"]
    ]
    return {**suite, "cases": cases}


def written(suite: dict[str, Any]) -> str:
    """Return the suite as JSON: a case to a line, so that a change is readable."""
    out = json.dumps({**suite, "vocabularies": 0, "cases": 0}, indent=2)
    tables = ",\n".join(
        f"    {json.dumps(name)}: {json.dumps(table, ensure_ascii=False)}"
        for name, table in suite["vocabularies"].items()
    )
    cases = ",\n".join("    " + json.dumps(case, ensure_ascii=False) for case in suite["cases"])
    # Half of a surrogate pair can be written in JSON, and not in UTF-8.
    cases = re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", cases)
    out = out.replace('"vocabularies": 0', '"vocabularies": {\n' + tables + "\n  }")
    return out.replace('"cases": 0', '"cases": [\n' + cases + "\n  ]") + "\n"


def digest(suite: dict[str, Any], version: str) -> str:
    """Return the SHA-256 of the cases of a version with their vocabularies, without what may come
    to them later.
    """
    cases = [case for case in suite["cases"] if case["since"] == version]
    kept = [{k: v for k, v in case.items() if k not in LATER} for case in cases]
    names = sorted({case["vocabulary"] for case in cases if "vocabulary" in case})
    known = [suite["vocabularies"][name] for name in names]
    return hashlib.sha256(json.dumps([kept, known], sort_keys=True).encode()).hexdigest()


def faults(suite: dict[str, Any]) -> list[str]:
    """Return what a suite must not have, as sentences."""
    ids = [case["id"] for case in suite["cases"]]
    versions = {*PUBLISHED, suite["version"]}
    return [
        *(f"The id {i} is there twice." for i in sorted({i for i in ids if ids.count(i) > 1})),
        *(
            f"{case['id']} is since {case['since']}; a new case is since {suite['version']}."
            for case in suite["cases"]
            if case["since"] not in versions
        ),
        *(
            f"The cases of {version} are not those that were published. Give a case that changes "
            "a new id, and name it in `superseded_by` of the old one."
            for version, known in PUBLISHED.items()
            if digest(suite, version) != known
        ),
    ]


def told(case: dict[str, Any], vocabularies: dict[str, Any]) -> str:
    """Return a case for people: a line for each step, with pieces for ids.

    >>> print(
    ...     told(
    ...         {
    ...             "id": "x",
    ...             "title": "A letter",
    ...             "why": "It is text.",
    ...             "input": "text",
    ...             "steps": [{"do": "push", "in": "a", "out": "a"}, {"do": "flush", "out": ""}],
    ...         },
    ...         {},
    ...     )
    ... )
    x: A letter. It is text.
      push "a" → "a"
      flush → ""
    """
    lines = [f"{case['id']}: {case['title']}. {case['why']}"]
    pieces: list[str] = []
    if case["input"] == "ids":
        pieces = Vocabulary(case["vocabulary"], vocabularies[case["vocabulary"]]).pieces
        lines.append(f"  vocabulary: {case['vocabulary']}")

    def spelled(given: Any) -> str:
        if isinstance(given, list):
            given = [pieces[i] if 0 <= i < len(pieces) else i for i in given]
        return json.dumps(given, ensure_ascii=False)

    lines += [f"  prompt: {spelled(case['prompt'])}"] if "prompt" in case else []
    lines += [f"  options: {json.dumps(case['options'])}"] if "options" in case else []
    for step in case["steps"]:
        out = [
            json.dumps(step[name], ensure_ascii=False) for name in ("out", "back") if name in step
        ]
        put = f" {spelled(step['in'])}" if "in" in step else ""
        lines.append(f"  {step['do']}{put}" + (f" → {out[0]}" if out else ""))
    return "\n".join(lines)


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
            parser.error(f"no case has an id that begins with {' or '.join(given.show)}")
        print("\n\n".join(told(case, suite["vocabularies"]) for case in chosen))
        return 0
    found = computed(suite, () if given.check else PUBLISHED)
    if wrong := faults(found):
        print("\n".join(wrong), file=sys.stderr)
        return 1
    if given.check:
        same = text == written(found)
        print("the same" if same else f"{FILE} is not what comes out; run {Path(__file__).name}.")
        return int(not same)
    FILE.write_text(written(found), "utf-8")
    print(f"{len(found['cases'])} cases in {FILE.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
