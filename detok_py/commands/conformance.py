"""`detok conformance`: run a streaming detokenizer through the conformance suite.

In: an adapter, a function of a Python module; conformance/README.md says what it takes and returns.
Out: a table, and with `--json` and `--junit` the verdict on every case. Exit codes: 0 if no case
that the adapter takes part in is late, early, wrong or an error, 1 otherwise, 2 for an error of
the command.
"""

import argparse
import importlib
import importlib.util
import json
import re
import sys
import time
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from ..errors import DetokError
from . import format_cases
from .format_cases import as_json

VERDICTS = ("right", "late", "early", "wrong", "error", "not claimed")
# Beside this file in an installation, in a folder of its own in a clone.
_CLONE = Path(__file__).parents[2] / "conformance"
PLACES = (
    (Path(__file__).with_name("conformance.json"), Path(__file__).with_name("formats.json")),
    (_CLONE / "cases.json", _CLONE / "formats.json"),
)
_ADAPTER = "An adapter is named MODULE:FUNCTION or FILE.py:FUNCTION"


class Outcome(NamedTuple):
    """The verdict on a case; `outs` has the output of each step, `why` says what was wrong."""

    case: str
    verdict: str
    why: str
    outs: list[Any]
    seconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--adapter",
        required=True,
        metavar="MODULE:FUNCTION",
        help="what makes a stream for a case; a file (adapter.py:FUNCTION) is taken too",
    )
    parser.add_argument("--cases", type=Path, metavar="FILE", help="another cases.json")
    parser.add_argument(
        "--as-of", metavar="VERSION", help="the cases of an older version of the suite, as 1.0.0"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="ID",
        help="only cases whose id begins with ID",
    )
    parser.add_argument(
        "--chunk",
        type=_chunk,
        default=1,
        metavar="N",
        help="how many ids of a case of formats come at once: a number, or `whole` (default: 1)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all verdicts as JSON")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write them as JUnit XML")


def _chunk(text: str) -> int:
    """Return how many ids a chunk has; 0 for all."""
    if text != "whole" and (not text.isdecimal() or text == "0"):
        raise argparse.ArgumentTypeError(f"a number of ids or `whole`, not {text!r}")
    return 0 if text == "whole" else int(text)


def run(args: argparse.Namespace) -> int:
    """Run the cases, print the table, write the files."""
    suite = load_suite(args.cases)
    adapter, about = load_adapter(args.adapter)
    outcomes = [
        judge(case, adapter)
        for case in cases_of(suite, args.as_of, args.chunk)
        if not args.only or case["id"].startswith(tuple(args.only))
    ]
    if not outcomes:
        raise DetokError(f"no case has an id that begins with {' or '.join(args.only)}")
    print(table(outcomes))
    if args.json:
        document = {
            **about,
            "suite": args.as_of or suite["version"],
            "chunk": args.chunk or "whole",
        }
        document["totals"] = totals(outcomes)
        document["cases"] = [outcome._asdict() for outcome in outcomes]
        text = json.dumps(document, indent=1, ensure_ascii=False, default=repr)
        # Half of a surrogate pair can be written in JSON, and not in UTF-8.
        text = re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text)
        args.json.write_text(text + "\n", encoding="utf-8")
    if args.junit:
        args.junit.write_bytes(junit(outcomes, about["system"]))
    return int(any(outcome.verdict in VERDICTS[1:5] for outcome in outcomes))


def load_suite(path: Path | None = None) -> dict[str, Any]:
    """Return the suite in a file, by default the one that comes with this version of detok."""
    found = (path,) if path else next((both for both in PLACES if both[0].exists()), PLACES[0])
    suite: dict[str, Any] = {"vocabularies": {}, "formats": {}, "cases": []}
    for file in found:
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
            suite["vocabularies"] |= document["vocabularies"]
            suite["formats"] |= document.get("formats", {})
            suite["cases"] += document["cases"]
            suite["version"] = document["version"]
        except (ValueError, KeyError, TypeError):
            raise DetokError(f"{file} is not a conformance suite; name its cases.json") from None
    return suite


def cases_of(
    suite: dict[str, Any], as_of: str | None = None, chunk: int = 1
) -> Iterable[dict[str, Any]]:
    """Yield the cases that count in the suite, or in its older version `as_of`, each with the
    tokenizer.json of its vocabulary. Cases of formats push `chunk` ids at once; 0 pushes all.
    """
    limit = _numbers(as_of or suite["version"])
    if limit > _numbers(suite["version"]):
        raise DetokError(f"this suite has version {suite['version']}, and no {as_of} yet")
    known = {case["id"] for case in suite["cases"] if _numbers(case["since"]) <= limit}
    for case in suite["cases"]:
        if case["id"] in known and case.get("superseded_by") not in known:
            name = case.get("vocabulary")
            if "answer" in case:
                yield format_cases.with_steps(case, suite, chunk)
            else:
                yield {**case, "tokenizer": suite["vocabularies"][name]} if name else case


def _numbers(version: str) -> tuple[int, ...]:
    try:
        return tuple([int(part) for part in version.split(".")])
    except ValueError:
        raise DetokError(f"a version is three numbers, as 1.0.0, not {version!r}") from None


def load_adapter(name: str) -> tuple[Callable[[Any], Any], dict[str, str]]:
    """Return the function with this name, and what it or its module says of the system."""
    module_name, colon, function = name.rpartition(":")
    if not colon or not function.isidentifier():
        raise DetokError(f"{_ADAPTER}, not {name!r}")
    try:
        if module_name.endswith(".py"):
            path = Path(module_name).resolve()
            spec = importlib.util.spec_from_file_location(path.stem, path)
            if spec is None or spec.loader is None or not path.exists():
                raise DetokError(f"{module_name} is not there; {_ADAPTER}")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, "")
            module = importlib.import_module(module_name)
    except ImportError as error:
        raise DetokError(f"the adapter {module_name} cannot be imported: {error}") from None
    adapter = getattr(module, function, None)
    if not callable(adapter):
        raise DetokError(f"{module_name} has no function {function}; {_ADAPTER}")
    about = {
        word.lower(): str(getattr(adapter, word, getattr(module, word, default)))
        for word, default in (("SYSTEM", name), ("PURPOSE", ""))
    }
    return adapter, about


def judge(case: dict[str, Any], adapter: Callable[[Any], Any]) -> Outcome:
    """Run a case and return the verdict.

    >>> case = {
    ...     "id": "x",
    ...     "steps": [{"do": "push", "in": "c3", "out": ""}, {"do": "flush", "out": "?"}],
    ... }
    >>> class Stream:
    ...     def push(self, data):
    ...         return ""
    ...
    ...     def flush(self):
    ...         return "?"
    >>> judge(case | {"input": "bytes"}, lambda case: Stream()).verdict
    'right'
    """
    began = time.perf_counter()
    outs: list[Any] = []
    try:
        verdict, why = _judged(case, adapter, outs)
    except (KeyboardInterrupt, SystemExit):
        raise
    except NotImplementedError as error:
        verdict, why = "not claimed", str(error)
    except BaseException as error:  # a panic in Rust is not an Exception
        verdict, why = "error", _named(error)
    return Outcome(case["id"], verdict, why, outs, time.perf_counter() - began)


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _unclaimed(case: dict[str, Any], stream: Any) -> tuple[str, str] | None:
    """Return the verdict on a stream without a method that the case needs, or None."""
    needed = [step["do"] for step in case["steps"]] + ["spans"] * ("spans" in case)
    for name in [*needed, "reason"] + ["calls"] * ("answer" in case):
        method = getattr(stream, name, None)
        if method is None and name in needed:
            return "not claimed", f"there is no {name}"
        if method is not None and not callable(method):
            return "error", f"{name} must be a method, not {as_json(method)}"
    return None


def _judged(
    case: dict[str, Any], adapter: Callable[[Any], Any], outs: list[Any]
) -> tuple[str, str]:
    """Return the verdict; `outs` collects the output of each step."""
    try:
        stream = adapter(case)
    except Exception:
        if case.get("may_refuse"):
            return "right", ""
        raise
    if stream is None:
        return "not claimed", ""
    played = format_cases.played if "answer" in case else _played
    return _unclaimed(case, stream) or played(case, stream, outs)


def _played(case: dict[str, Any], stream: Any, outs: list[Any]) -> tuple[str, str]:
    """Return the verdict on what a stream gives, step by step."""
    shown: list[Any] = []
    wanted: list[Any] = []
    first: dict[str, str] = {}
    mark: tuple[Any, list[Any], list[Any]] = None, shown, wanted
    for number, step in enumerate(case["steps"], 1):
        what = f"step {number}, {step['do']}"
        if step["do"] == "reset" and characters(shown) != characters(wanted):
            break
        try:
            out = getattr(stream, step["do"])(*_given(case, step, mark[0]))
        except Exception as error:
            if "refused" not in step and "may_refuse" not in step:
                raise
            outs.append({"refused": _named(error)})
            continue
        if step["do"] == "mark":
            mark = out, shown, wanted
            continue
        if step["do"] == "reset":
            shown, wanted = [], []
            continue
        outs.append(out)
        if "refused" in step:
            return "wrong", f"{what}: {as_json(out)} came where an error is expected"
        if step["do"] == "rollback":
            expected = len(characters(shown)) - len(characters(mark[1]))
            if out is not None and out != expected:
                return (
                    "wrong",
                    f"{what}: {as_json(out)} characters are taken back, not {expected}",
                )
            _, shown, wanted = mark
            continue
        shown = _deltas(out["shown"]) if isinstance(out, dict) else shown + _deltas(out)
        wanted = wanted + _deltas(step["out"])
        verdict, why = _compared(characters(shown), characters(wanted))
        first.setdefault(verdict, f"{what}: {why}")
    if characters(shown) != characters(wanted):
        return "wrong", _difference(characters(shown), characters(wanted))
    for name in ("reason", "spans"):
        if name in case and getattr(stream, name, None):
            found = as_json(getattr(stream, name)())
            if found != as_json(case[name]):
                return "wrong", f"{name}: {found}, not {as_json(case[name])}"
    verdict = next((verdict for verdict in ("early", "late") if verdict in first), "right")
    return verdict, first.get(verdict, "") if verdict != "right" else ""


def _given(case: dict[str, Any], step: dict[str, Any], mark: Any) -> tuple[Any, ...]:
    """Return the arguments of a step's method."""
    if step["do"] == "rollback":
        return (mark,)
    if step["do"] != "push":
        return ()
    return (bytes.fromhex(step["in"]) if case["input"] == "bytes" else step["in"],)


def _compared(shown: list[Any], wanted: list[Any]) -> tuple[str, str]:
    """Compare what is shown so far with what is certain; return the verdict, and why."""
    if shown == wanted:
        return "right", ""
    if shown == wanted[: len(shown)]:
        return "late", f"{_shown(wanted[len(shown) :])} is certain already"
    if shown[: len(wanted)] == wanted:
        return "early", f"{_shown(shown[len(wanted) :])} is not certain yet"
    return "early", f"{_shown(shown)} is shown, {_shown(wanted)} is certain"


def _difference(shown: list[Any], wanted: list[Any]) -> str:
    """Say how two texts differ; a long common prefix is left out."""
    pairs = enumerate(zip(shown, wanted, strict=False))
    same = next((at for at, (a, b) in pairs if a != b), min(len(shown), len(wanted)))
    begin = same - 10 if same > 40 else 0
    where = f" from character {begin} on" if begin else ""
    return f"the text is {_shown(shown[begin:])}, not {_shown(wanted[begin:])}{where}"


def _deltas(out: Any) -> list[Any]:
    """Return an output as pairs of a channel and text; the channel of plain text is ""."""
    return [("", out or "")] if out is None or isinstance(out, str) else list(out)


def characters(deltas: list[Any]) -> list[Any]:
    """Return (channel, text) pairs with one character in each. Two halves of a surrogate pair that
    follow each other in a channel are one character.

    >>> characters([["content", "h\\ud83e"], ["content", "\\udd8a"]])
    [('content', 'h'), ('content', '🦊')]
    """
    out = []
    for channel, run in groupby(deltas, key=lambda pair: pair[0]):
        units = "".join(text for _, text in run).encode("utf-16-le", "surrogatepass")
        out += [(channel, each) for each in units.decode("utf-16-le", "surrogatepass")]
    return out


def _shown(pairs: list[Any]) -> str:
    """Return pairs as JSON: at most 60 characters, with their channels if they have some."""
    runs = groupby(pairs[:60], key=lambda pair: pair[0])
    deltas = [(channel, "".join(each for _, each in run)) for channel, run in runs]
    plain = "".join(text for _, text in deltas)
    return as_json(deltas if any(name for name, _ in deltas) else plain) + "..." * (len(pairs) > 60)


def group_of(case: str) -> str:
    """Return the group of a case: `formats/harmony`, or the first word of its id."""
    words = case.split("/")
    return "/".join(words[:2]) if words[0] == "formats" else words[0]


def totals(outcomes: Iterable[Outcome]) -> dict[str, dict[str, int]]:
    """Return for each group of cases, and for all, how many have each verdict."""
    counts: dict[str, dict[str, int]] = {}
    for outcome in outcomes:
        for group in (group_of(outcome.case), "all"):
            row = counts.setdefault(group, dict.fromkeys(VERDICTS, 0))
            row[outcome.verdict] += 1
    counts["all"] = counts.pop("all")
    return counts


def table(outcomes: list[Outcome]) -> str:
    """Return the verdicts by group, and a line for each case that is not right. A format of which
    no case is claimed has no line.
    """
    rows = {
        group: row
        for group, row in totals(outcomes).items()
        if not group.startswith("formats/") or any(row[verdict] for verdict in VERDICTS[:5])
    }
    width = max(map(len, rows))
    lines = [" " * width + "".join(f"{verdict:>13}" for verdict in VERDICTS)]
    for group, row in rows.items():
        cells = "".join(f"{row[verdict] or '·':>13}" for verdict in VERDICTS)
        lines.append(f"{group:{width}}{cells}")
    lines += [
        f"{outcome.verdict:6}  {outcome.case}: {outcome.why}"
        for outcome in outcomes
        if outcome.verdict in VERDICTS[1:5]
    ]
    return "\n".join(lines)


def _in_hex(control: "re.Match[str]") -> str:
    return f"\\x{ord(control[0]):02x}"


def junit(outcomes: list[Outcome], system: str) -> bytes:
    """Return the verdicts as JUnit XML."""
    suites = ElementTree.Element("testsuites", name=f"conformance of {system}")
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(group_of(outcome.case), []).append(outcome)
    for group, members in groups.items():
        count = {verdict: sum(m.verdict == verdict for m in members) for verdict in VERDICTS}
        suite = ElementTree.SubElement(
            suites,
            "testsuite",
            name=group,
            tests=str(len(members)),
            failures=str(count["late"] + count["early"] + count["wrong"]),
            errors=str(count["error"]),
            skipped=str(count["not claimed"]),
        )
        for member in members:
            case = ElementTree.SubElement(
                suite, "testcase", classname=group, name=member.case, time=f"{member.seconds:.4f}"
            )
            if member.verdict != "right":
                kinds = {"not claimed": "skipped", "error": "error"}
                kind = kinds.get(member.verdict, "failure")
                # XML 1.0 (2.2) has no control characters but tab and the ends of lines.
                message = f"{member.verdict}: {member.why}".encode("ascii", "backslashreplace")
                told = re.sub(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f]", _in_hex, message.decode())
                ElementTree.SubElement(case, kind, message=told)
    return bytes(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True))
