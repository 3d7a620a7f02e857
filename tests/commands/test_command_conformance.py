"""`detok conformance` and `npx detok-web conformance`: verdicts, the table, JSON, JUnit, errors."""

import json
import re
import shutil
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest
from programs import ran, refusal_of

from detok_py import cli
from detok_py.commands import conformance

pytestmark = [pytest.mark.native, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
OURS = f"{ROOT / 'conformance' / 'adapters' / 'detok.py'}:adapter"


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node is not here")


def node(*words, **options):
    return ran("node", ROOT / "web" / "bin" / "detok-web.mjs", *words, **options)


def judged(folder, adapter, *words):
    """Run the suite in JavaScript; return the exit code, and what is written as JSON."""
    file = folder / "out.json"
    done = node("conformance", adapter, "--json", file, *words)
    assert done.stderr == ""
    return done.returncode, json.loads(file.read_text("utf-8"))


A, B = {"do": "push", "in": "a", "out": "a"}, {"do": "push", "in": "b", "out": "b"}
END, MARK, RESET = {"do": "flush", "out": ""}, {"do": "mark"}, {"do": "reset"}
PUSHES = [A, B, END]
FOX = [
    {"do": "push", "in": "a", "out": "a"},
    {"do": "push", "in": "", "out": "🦊b"},
    END,
]
PAIRS = [{"do": "push", "in": "", "out": [["reasoning", "ab"]]}, {"do": "flush", "out": []}]
BACK = [A, MARK, B, {"do": "rollback", "back": 1}, END]
REFUSED = [A, {"do": "flush", "refused": True}]
ALLOWED = [A, {"do": "push", "in": "?", "out": "", "may_refuse": True}, B, END]
NO, CLAIMED = {"raises": "ValueError"}, {"raises": "NotImplementedError"}
LONG = [{"do": "push", "in": "", "out": "x" * 80 + "y" + "z" * 80}, END]
# What a stream gives at each step of PUSHES; the verdict and what it says.
PUSHED_VERDICTS = [
    (["a", "b", ""], "right", ""),
    (["a", None, "b"], "late", 'step 2, push: "b" is certain already'),
    (["", "ab", ""], "late", 'step 1, push: "a" is certain already'),
    (["ab", "", ""], "early", 'step 1, push: "b" is not certain yet'),
    (["", "abc", {"shown": "ab"}], "early", 'step 2, push: "c" is not certain yet'),
    ([{"shown": "x"}, {"shown": "ab"}, ""], "early", 'step 1, push: "x" is shown, "a" is certain'),
    ([{"shown": "a"}, {"shown": "ab"}, ""], "right", ""),
    (["a", "c", ""], "wrong", 'the text is "ac", not "ab"'),
    (["a", "b", "b"], "wrong", 'the text is "abb", not "ab"'),
    (["a", NO, ""], "error", "ValueError: no"),
    (["a", CLAIMED, ""], "not claimed", "no"),
]
# What a stream says of itself where its text is right: more of the case; the verdict and why.
SPANS = {"spans": [[0, 1], [1, 2]]}
SAID_VERDICTS = [
    ({"reason": "stop"}, "right", ""),
    ({"reason": "stop", "says": {"reason": None}}, "wrong", 'reason: null, not "stop"'),
    ({**SPANS, "says": SPANS}, "right", ""),
    (
        {**SPANS, "says": {"spans": [[0, 1], [0, 2]]}},
        "wrong",
        "spans: [[0,1],[0,2]], not [[0,1],[1,2]]",
    ),
    # Reason and spans are methods.
    (SPANS, "not claimed", "there is no spans"),
    (
        {"reason": "stop", "has": {"reason": "stop"}},
        "error",
        'reason must be a method, not "stop"',
    ),
    ({**SPANS, "has": SPANS}, "error", "spans must be a method, not [[0,1],[1,2]]"),
    ({**SPANS, "has": {"spans": None}}, "not claimed", "there is no spans"),
]
# What a stream gives at each step, the steps, more of the case; the verdict and what it says.
VERDICTS = [
    *((outs, PUSHES, {}, *said) for outs, *said in PUSHED_VERDICTS),
    *((["a", "b", ""], PUSHES, *said) for said in SAID_VERDICTS),
    # Two halves of a surrogate pair that come apart are a character in the end.
    (["a\ud83e", "\udd8ab", ""], FOX, {}, "early", r'step 1, push: "\ud83e" is not certain yet'),
    (["a", "\udd8ab", ""], FOX, {}, "wrong", r'the text is "a\udd8ab", not "a\ud83e\udd8ab"'),
    # What looks the same is told apart, and a long text is shown where it differs.
    (["a", "\u202eb", ""], PUSHES, {}, "wrong", r'the text is "a\u202eb", not "ab"'),
    (
        ["x" * 80 + "y" + "z" * 79, ""],
        LONG,
        {},
        "wrong",
        f'the text is "{"z" * 10}", not "{"z" * 11}" from character 150 on',
    ),
    (
        ["x" * 160, ""],
        LONG,
        {},
        "wrong",
        f'the text is "{"x" * 60}"..., not "{"x" * 10}y{"z" * 49}"... from character 70 on',
    ),
    # Channels are compared character by character.
    ([[["reasoning", "a"], ["reasoning", "b"]], []], PAIRS, {}, "right", ""),
    (
        [[["content", "ab"]], []],
        PAIRS,
        {},
        "wrong",
        'the text is [["content","ab"]], not [["reasoning","ab"]]',
    ),
    (
        [[["reasoning", "a"]], [["reasoning", "b"]]],
        PAIRS,
        {},
        "late",
        'step 1, push: [["reasoning","b"]] is certain already',
    ),
    # What is taken back counts.
    (["a", 0, "b", 1, ""], BACK, {}, "right", ""),
    (["a", 0, "b", None, ""], BACK, {}, "right", ""),
    (
        ["a", 0, "b", 2, ""],
        BACK,
        {},
        "wrong",
        "step 4, rollback: 2 characters are taken back, not 1",
    ),
    # Errors that are expected, and errors that are allowed.
    (["a", NO], REFUSED, {}, "right", ""),
    (["a", ""], REFUSED, {}, "wrong", 'step 2, flush: "" came where an error is expected'),
    (["a", NO, "b", ""], ALLOWED, {}, "right", ""),
    (["a", "", "b", ""], ALLOWED, {}, "right", ""),
    (["a", "?", "b", ""], ALLOWED, {}, "wrong", 'the text is "a?b", not "ab"'),
    ([], PUSHES, {"adapter": NO}, "error", "ValueError: no"),
    ([], PUSHES, {"adapter": NO, "may_refuse": True}, "right", ""),
    # A text before a reset is compared as a whole.
    (["a", None, "a", "b", ""], [A, RESET, *PUSHES], {}, "right", ""),
    (["", None, "a", "b", ""], [A, RESET, *PUSHES], {}, "wrong", 'the text is "", not "a"'),
]
# A stream that gives what its case says, in both languages.
PYTHON = """
    class Stream:
        def __init__(self, case):
            self.left = list(case["gives"])
            for name in ("push", "flush", "reset", "mark", "rollback"):
                setattr(self, name, self.give)
            for name, value in case.get("says", {}).items():
                setattr(self, name, lambda value=value: value)
            for name, value in case.get("has", {}).items():
                setattr(self, name, value)

        def give(self, *given):
            return out(self.left.pop(0))


    def out(value):
        if isinstance(value, dict) and "raises" in value:
            raise {"ValueError": ValueError, "NotImplementedError": NotImplementedError}[value["raises"]]("no")
        return value


    def adapter(case):
        out(case.get("adapter"))
        return Stream(case)
"""
JAVASCRIPT = """
    function out(value) {
      if (value?.raises) throw Object.assign(new Error("no"), { name: value.raises });
      return value;
    }
    export default function adapter(item) {
      out(item.adapter);
      const left = [...item.gives];
      const give = () => out(left.shift());
      const stream = { push: give, flush: give, reset: give, mark: give, rollback: give };
      for (const [name, value] of Object.entries(item.says ?? {})) stream[name] = () => value;
      return Object.assign(stream, item.has);
    }
"""


def judged_in_both(folder, suite):
    """Judge streams that give what their cases say; return what is written as JSON by Python, and
    by JavaScript.
    """
    cases, adapter, out = folder / "cases.json", folder / "stream.py", folder / "python.json"
    cases.write_text(json.dumps(suite))
    adapter.write_text(textwrap.dedent(PYTHON))
    (folder / "stream.mjs").write_text(JAVASCRIPT)
    words = ["--cases", str(cases)]
    command = ["conformance", "--adapter", f"{adapter}:adapter", *words, "--json", str(out)]
    assert cli.main(command) == 1
    code, javascript = judged(folder, folder / "stream.mjs", *words)
    assert code == 1
    return [json.loads(out.read_text("utf-8")), javascript]


@needs_node
def test_each_verdict_and_what_it_says_in_both_languages(tmp_path):
    head = {"since": "1.0.0", "input": "text"}
    cases = [
        {**head, "id": f"x/{at}", "gives": gives, "steps": steps, **more}
        for at, (gives, steps, more, *_) in enumerate(VERDICTS)
    ]
    suite = {"version": "1.0.0", "vocabularies": {}, "cases": cases}
    told = judged_in_both(tmp_path, suite)
    for document in told:
        for row, outcome in zip(VERDICTS, document["cases"], strict=True):
            assert (outcome["verdict"], outcome["why"]) == row[-2:], row
    assert told[0]["totals"] == told[1]["totals"]
    outs = [[case["outs"] for case in document["cases"]] for document in told]
    assert outs[0] == outs[1]


CALL = [
    {"content": "Hi"},
    {"call": "f", "arguments": '{"a": "\\u00e9"}', "id": "1", "complete": False},
]
# After the ids 0, 1, 2, 3: "Hi", then the name, then `{"a`, then all.
CERTAIN = [2, 3, 6, 18]
HI, NAME = ["content", "Hi"], {"call": 0, "name": "f"}
BEGUN, REST = {"call": 0, "arguments": '{"a'}, {"calls": [{"call": 0, "arguments": '": "é" }'}]}
# What a stream gives at each push and at the flush; the verdict and what it says.
FORMAT_VERDICTS = [
    ([HI, NAME, BEGUN, REST, None], "right", ""),
    ([[HI], [NAME], [BEGUN], [REST], []], "right", ""),
    ([HI, NAME, {"shown": [HI, NAME, BEGUN]}, REST, None], "right", ""),
    ([{"content": "Hi\n\n"}, NAME, BEGUN, REST, None], "right", ""),
    (
        [HI, None, {**NAME, **BEGUN}, REST, None],
        "late",
        'step 2, push: the name of call 0: "f" is certain already',
    ),
    (
        [None] * 4 + [[HI, {**NAME, "arguments": {"a": "é"}}]],
        "late",
        'step 1, push: content: "Hi" is certain already',
    ),
    (
        [{"content": "Ho"}, {"shown": [HI, NAME]}, BEGUN, REST, None],
        "early",
        'step 1, push: content: "Ho" is shown, "Hi" is certain',
    ),
    (
        [[HI, NAME], None, BEGUN, REST, None],
        "early",
        'step 1, push: the name of call 0: "f" is not certain yet',
    ),
    ([HI, NAME, BEGUN, None, None], "wrong", "the arguments of call 0: "),
    ([HI, NAME, BEGUN, REST, {"content": "!"}], "wrong", 'content: "Hi!", not "Hi"'),
    ([HI, None, None, None, None], "wrong", "the name of call 0 is missing"),
    (
        [HI, NAME, BEGUN, REST, {"call": 1, "name": "g"}],
        "wrong",
        'there is the name of call 1: "g"',
    ),
]
# What a stream says of its call, where it says it; the verdict and what it says.
CALL_VERDICTS = [
    ({"id": "1", "complete": False}, "right", ""),
    ({}, "right", ""),
    ({"id": "2"}, "wrong", 'call 0 has id "2", not "1"'),
    ({"complete": True}, "wrong", "call 0 has complete true, not false"),
]


def suite_of_formats():
    case = {"id": "formats/x/y", "since": "1.0.0", "options": {"format": "x"}, "answer": "…"}
    case |= {"ids": [0, 1, 2, 3], "out": CALL, "certain": CERTAIN}
    suite = {
        "version": "1.0.0",
        "cases": [case],
        "formats": {"x": {"tokens": ["t"], "ends": ["t"]}},
    }
    suite["vocabularies"] = {"formats": {"model": {"vocab": {"a": 0}}}}
    return suite


def format_case(chunk=1):
    (found,) = conformance.cases_of(suite_of_formats(), chunk=chunk)
    return found


@needs_node
def test_verdicts_on_cases_of_formats_in_both_languages(tmp_path):
    rows = [({"gives": gives}, *said) for gives, *said in FORMAT_VERDICTS]
    right = FORMAT_VERDICTS[0][0]
    rows += [({"gives": right, "says": {"calls": [call]}}, *said) for call, *said in CALL_VERDICTS]
    suite = suite_of_formats()
    (case,) = suite["cases"]
    suite["cases"] = [{**case, "id": f"formats/x/{at}", **row[0]} for at, row in enumerate(rows)]
    for document in judged_in_both(tmp_path, suite):
        for (_, verdict, why), outcome in zip(rows, document["cases"], strict=True):
            assert outcome["verdict"] == verdict, outcome
            assert outcome["why"].startswith(why)
            assert bool(outcome["why"]) == bool(why)


@needs_node
def test_javascript_has_every_case_of_a_format_in_chunks(tmp_path):
    """Each case is right for a stream that gives what is expected."""
    (tmp_path / "expected.mjs").write_text(
        "export default ({ steps }) => {\n"
        "  const outs = steps.map(({ out }) => out);\n"
        "  return { push: () => outs.shift(), flush: () => outs.shift() };\n"
        "};\n"
    )
    words = ["--cases", ROOT / "conformance" / "formats.json", "--chunk", "4"]
    code, found = judged(tmp_path, tmp_path / "expected.mjs", *words)
    totals = found["totals"]
    assert code == 0, totals
    assert totals["all"]["right"] == sum(totals["all"].values()) > 800
    assert len(totals) == 37
    assert node("conformance", tmp_path / "expected.mjs", "--chunk", "0").returncode == 2


def test_a_case_of_a_format_comes_in_chunks_with_its_tokens():
    case = format_case(chunk=3)
    assert case["ends"] == [1]
    assert [(t["id"], t["content"]) for t in case["tokenizer"]["added_tokens"]] == [(1, "t")]
    assert [step["do"] for step in case["steps"]] == ["push", "push", "flush"]
    assert case["steps"][0]["out"] == [
        {"content": "Hi"},
        {"call": 0, "name": "f", "arguments": '{"a'},
    ]
    assert [step.get("in") for step in format_case(chunk=0)["steps"]] == [[0, 1, 2, 3], None]


@pytest.mark.full
def test_the_test_that_engines_copy_runs_their_adapter(tmp_path):
    shutil.copy(ROOT / "conformance" / "test_conformance.py", tmp_path)
    (tmp_path / "my_adapter.py").write_text(
        "import sys\n"
        f"sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'conformance')!r}]\n"
        "from adapters.detok import adapter as ours\n\n\n"
        "def adapter(case):\n"
        "    return ours(case) if 'two-calls' in case['id'] else None\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    done = ran(*command, "-k", "formats/kimi_k2", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert re.search(r"\n3 passed, \d+ skipped, \d+ deselected", done.stdout), done.stdout


def test_a_panic_of_a_library_is_an_error():
    """It is no Exception in Python, and not what a step may refuse."""

    class PanicException(BaseException):
        pass

    def panics(case):
        raise PanicException("index out of bounds")

    case = {"id": "x/y", "input": "text", "steps": ALLOWED, "may_refuse": True}
    outcome = conformance.judge(case, panics)
    assert (outcome.verdict, outcome.why) == ("error", "PanicException: index out of bounds")


def test_the_junit_is_xml_whatever_an_adapter_says():
    said = conformance.Outcome("x/y", "error", "\x1b[31mno\0 \x0c\ud800 é", [], 0.0)
    suites = ElementTree.fromstring(conformance.junit([said], "it"))
    assert r"\x1b[31mno\x00 \x0c\ud800" in next(suites.iter("error")).get("message")


@pytest.mark.full  # tests/decode/test_conformance.py has the cases
def test_detok_itself_is_right_everywhere(capsys, tmp_path):
    files = ["--json", str(tmp_path / "out.json"), "--junit", str(tmp_path / "out.xml")]
    assert cli.main(["conformance", "--adapter", OURS, *files]) == 0
    told = capsys.readouterr().out.splitlines()
    document = json.loads((tmp_path / "out.json").read_text("utf-8"))
    count = len(document["cases"])
    assert count > 330
    assert told[-1].split()[:2] == ["all", str(count)]
    assert document["totals"]["all"]["right"] == count
    assert document["system"].startswith("detok_py ")
    suites = ElementTree.parse(tmp_path / "out.xml").getroot()
    assert sum(int(suite.get("tests")) for suite in suites) == count
    assert not list(suites.iter("failure")) and not list(suites.iter("skipped"))


CODEC = textwrap.dedent("""
    import codecs
    SYSTEM, PURPOSE = "a codec", "bytes to text"
    def adapter(case):
        if case["input"] != "bytes" or case.get("options"):
            return None
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.push, decoder.flush = decoder.decode, lambda: decoder.decode(b"", True)
        return decoder
    not_callable = 1
""")


def test_a_module_on_the_path_and_what_is_not_right(capsys, tmp_path, monkeypatch):
    (tmp_path / "codec_adapter.py").write_text(CODEC)
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "out.xml"
    words = ["--only", "bytes/", "--only", "life-cycle", "--junit", str(out)]
    assert cli.main(["conformance", "--adapter", "codec_adapter:adapter", *words]) == 1
    told = capsys.readouterr().out
    # The one form where CPython's codec is a byte late.
    assert "late    bytes/surrogate: step 2, push:" in told
    failures = [each.get("message") for each in ElementTree.parse(out).getroot().iter("failure")]
    assert failures and all(message.startswith("late: ") for message in failures)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--adapter", "codec_adapter"], "MODULE:FUNCTION"),
        (["--adapter", "no_such_module:adapter"], "cannot be imported"),
        (["--adapter", "no_such_file.py:adapter"], "is not there"),
        (["--adapter", "codec_adapter.py:not_callable"], "has no function not_callable"),
        (["--adapter", "codec_adapter.py:adapter", "--only", "x"], "no case has an id"),
        (["--adapter", "codec_adapter.py:adapter", "--as-of", "9.0.0"], "no 9.0.0 yet"),
        (["--adapter", "codec_adapter.py:adapter", "--as-of", "new"], "three numbers"),
        (["--adapter", "codec_adapter.py:adapter", "--cases", "codec_adapter.py"], "not a conform"),
    ],
)
def test_mistakes_are_told_in_one_sentence(words, sentence, capsys, tmp_path, monkeypatch):
    (tmp_path / "codec_adapter.py").write_text(CODEC)
    monkeypatch.chdir(tmp_path)
    told = refusal_of(capsys, "conformance", *words)
    assert sentence in told and told.count("\n") == 1


@needs_node
def test_text_decoder_in_javascript(tmp_path):
    adapter = ROOT / "conformance" / "adapters" / "text-decoder.mjs"
    code, document = judged(tmp_path, adapter, "--junit", tmp_path / "out.xml")
    assert code == 1
    wrong = [case["case"] for case in document["cases"] if case["verdict"] == "wrong"]
    assert wrong == ["bytes/byte-order-mark-first"]  # it takes U+FEFF for a mark
    assert document["totals"]["bytes"]["right"] == 47
    suites = ElementTree.parse(tmp_path / "out.xml").getroot()
    assert len(list(suites.iter("failure"))) == 1
    code, document = judged(tmp_path, adapter, "--as-of", "1.0.0")
    assert code == 1
    assert (document["suite"], document["totals"]["bytes"]["right"]) == ("1.0.0", 45)


@needs_node
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "usage: detok-web"),
        (["conformance", "nowhere.mjs"], "There is no adapter nowhere.mjs"),
        (["conformance", "empty.mjs"], "no default export"),
        (["conformance", "empty.mjs", "--cases", "empty.mjs"], "cannot be read as a suite"),
        (["conformance", "empty.mjs", "--bad"], "--bad"),
        (["conformance", "all.mjs", "--as-of", "9.0.0"], "no 9.0.0 yet"),
    ],
)
def test_mistakes_in_javascript(words, sentence, tmp_path):
    (tmp_path / "empty.mjs").write_text("export const nothing = 1;")
    (tmp_path / "all.mjs").write_text("export default () => null;")
    done = node(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr and done.stderr.count("\n") == 1
