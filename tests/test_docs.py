"""The documents: their examples run, their links have targets, their messages are those of the
code.
"""

import argparse
import ast
import asyncio
import contextlib
import doctest
import importlib.util
import inspect
import itertools
import json
import re
import shlex
import subprocess
import tomllib
import types
from concurrent.futures import ThreadPoolExecutor

import pytest
import script_risks
import yaml
from adapters.detok import vocabulary_of
from documents import DOCUMENTS, IN_A_BROWSER, ROOT, blocks, name, prose, spans
from programs import parse
from small_tokenizers import byte_level
from starlette.testclient import TestClient

import detok_py.errors
from detok_py import ByteVocabulary, ChatStream, Detokenizer, cli
from detok_py.commands.conformance import cases_of, judge, load_suite
from detok_py.glyphs import options
from detok_py.page.answer import CLOSED

pytestmark = pytest.mark.native  # about the files of the repository
BLOCKS = blocks()
# Programs of others, which the commands of the documents may call.
PROGRAMS = {"node", "npm", "npx", "pip"}
TROUBLE = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_the_examples_give_the_shown_output(path):
    # The closing fence would read as expected output.
    text = re.sub(r"^```.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, name(path), str(path), 0)
    output = []
    failed = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=output.append).failed
    assert not failed, "".join(output)


def test_what_runs_examples_in_the_page_reads_prompts_as_doctest_does():
    spec = importlib.util.spec_from_file_location("site_run", ROOT / "tools" / "site" / "run.py")
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    assert doctest.testmod(runner) == (0, 4)
    for block in BLOCKS:
        if block.language == "python" and ">>>" in block.text:
            read = doctest.DocTestParser().get_examples(block.text)
            assert runner.statements(block.text) == [each.source for each in read], str(block)


def parser_of_harmony(tokenizer, options):
    """A parser as engines have them: a message with its calls, here all at the end."""
    vocabulary = vocabulary_of({"vocabulary": "harmony", "tokenizer": tokenizer})
    chat = ChatStream(Detokenizer(vocabulary), trim_artifacts=False, **options)

    def message(deltas, calls):
        texts = {
            channel: "".join([delta.text for delta in deltas if delta.channel == channel])
            for channel in ("content", "reasoning")
        }
        return types.SimpleNamespace(tool_calls=calls, **texts)

    def end():
        deltas = chat.flush()
        calls = [
            types.SimpleNamespace(index=at, name=call.name, arguments=call.arguments)
            for at, call in enumerate(chat.calls)
        ]
        return message(deltas, calls)

    return types.SimpleNamespace(feed=lambda ids: message(chat.feed(ids), []), end=end)


def anchors(path):
    """The anchors that GitHub makes of the headings of a document."""
    titles = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_within_the_repository_have_targets(path):
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", path.read_text("utf-8"))
    missing = []
    for link, anchor in links:
        target = path.parent / link if link else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.append(f"{link}#{anchor}")
    assert missing == []


def test_every_document_can_be_reached_from_the_index():
    seen, left = set(), [ROOT / "docs" / "README.md"]
    while left:
        path = left.pop().resolve()
        if path.suffix == ".md" and path not in seen and path.exists():
            seen.add(path)
            links = re.findall(r"\]\((?!https?:)([^)#\s]+)", path.read_text("utf-8"))
            left += [path.parent / link for link in links]
    assert {name(path) for path in (ROOT / "docs").rglob("*.md")} <= {name(path) for path in seen}


# ---------------------------------------------------------------- the code blocks


def test_every_block_is_run_or_says_why_not():
    """tests/browser/test_documents.py runs those that say what they show."""
    for block in BLOCKS:
        files = [file for file, _ in block.marked("run")]
        for file in files:
            test = ROOT / file.removeprefix("by ")
            page = block.document.rpartition("/")[2].removesuffix(".md")
            assert page in test.read_text("utf-8"), str(block)
        said = block.in_browser or files or any(reason for _, reason in block.marked("not"))
        if block.language in (*IN_A_BROWSER, "ts"):
            assert said, f"{block}: neither `shows`, `run by` nor `not run: REASON`"
        else:
            known = ("", "json", "python", "sh", "text", "yaml")
            assert block.language in known, f"{block}: {block.language}"
    left_out = [str(block) for block in BLOCKS if block.marked("not")]
    assert len(left_out) <= 4, left_out


def python_blocks():
    for block in BLOCKS:
        apart = block.in_browser or block.marked("run") or block.marked("not")
        if block.language == "python" and ">>>" not in block.text and not apart:
            yield pytest.param(block, id=str(block))


@pytest.mark.parametrize("block", list(python_blocks()))
def test_the_python_of_the_documents_runs(block, tmp_path, monkeypatch, capsys):
    (tmp_path / "tokenizer.json").write_text(json.dumps(byte_level()), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    tok = detok_py.load_tokenizer("tokenizer.json")
    sent = []

    class Engine:
        async def generate(self, prompt):
            for i in tok.encode(prompt):
                yield i

    async def send(text):
        sent.append(text)

    names = {"__name__": "example", "tok": tok, "ids": tok.encode("naïve 👩‍🚀")}
    names |= {"engine": Engine(), "prompt": "你好", "send": send}
    code = compile(block.text, str(block), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        with ThreadPoolExecutor(1) as thread:  # a browser of this process has a running loop
            thread.submit(asyncio.run, eval(code, names)).result()
        assert "".join(sent) == "你好"
    else:
        exec(code, names)
    if "print(" in block.text:
        assert capsys.readouterr().out.strip() == "naïve 👩‍🚀"
    elif "adapter" in names:
        stream = names["adapter"]({"input": "bytes"})
        assert (stream.push(b"caf\xc3"), stream.push(b"\xa9"), stream.flush()) == ("caf", "é", "")
    elif "adapter_of" in names:
        case = next(c for c in cases_of(load_suite()) if c["id"] == "formats/harmony/two-calls")
        adapter = names["adapter_of"]({"harmony": parser_of_harmony})
        assert judge(case, adapter).verdict == "late"  # it reads at the end
        assert adapter({"input": "bytes"}) is None
    else:
        assert TestClient(names["app"]).get("/answer").text == "naïve 👩‍🚀"


def commands():
    """The commands of the documents: of shell blocks, of tables of commands in blocks without a
    language, and in the text.
    """
    found = {}
    for block in BLOCKS:
        for line in block.text.splitlines():
            if block.language == "sh" or line.startswith(("detok ", "pip ", "npm ")):
                found.setdefault(line.partition("  ")[0].partition(" #")[0], str(block))
    for path in DOCUMENTS:
        for span in spans(path):
            if re.match(r"([A-Z_]+=\S+ )*(detok|make|npx|pip|python|\S+/python) [\w-]", span):
                found.setdefault(span, name(path))
    for text, where in found.items():
        for part in re.split(r"&&|\|(?= )", text):
            # Of `A|B` the first; a number for each placeholder in capitals, which any option takes.
            words = [
                re.sub(r"\b[A-Z]{2,}\b(?!=)", "1", word.partition("|")[0])
                for word in shlex.split(part)
            ]
            if words:
                yield pytest.param(words, id=f"{where} {' '.join(words)}")


def has_target(target, *words):
    """Whether the Makefile has a target, and uses the variables."""
    text = (ROOT / "Makefile").read_text("utf-8")
    variables = [word.partition("=")[0] for word in words if "=" in word]
    known = all(f"$({each})" in text or each.startswith("DETOK_") for each in variables)
    return known and re.search(rf"^{target}:", text, re.MULTILINE)


@pytest.mark.parametrize("words", list(commands()))
def test_the_commands_of_the_documents_are_understood(words, monkeypatch):
    variables = list(itertools.takewhile(re.compile("[A-Z_]+=").match, words))
    program, *rest = words[len(variables) :]
    if program == "npx" and rest[0] == "detok-web":
        program, rest = "npx detok-web", rest[1:]
    elif program.endswith("python") and rest[:2] == ["-m", "detok_py"]:
        program, rest = "detok", rest[2:]
    if program in ("detok", "npx detok-web") and len(rest) == 1 and not rest[0].startswith("-"):
        assert rest[0] in cli.COMMANDS  # the name of a command alone
    elif program == "detok":
        parser = cli.command_line(*rest[:1])
        # An option that prints something ends the program.
        ends = pytest.raises(SystemExit, match="^0?$|None")
        with ends if rest[0].startswith("-") else contextlib.nullcontext():
            parser.parse_args(rest)
    elif program == "npx detok-web" and rest[0] == "check":
        parser = argparse.ArgumentParser()
        options.add_arguments(parser)  # as web/kit/python.mjs does
        parser.parse_args(rest[1:])
    elif program == "npx detok-web":
        # The words are read before the adapter is looked for.
        command = ["node", ROOT / "web" / "bin" / "detok-web.mjs", *rest]
        assert b"There is no adapter" in subprocess.run(command, capture_output=True).stderr
    elif program == "make":
        assert has_target(*rest, *variables)
    elif program.endswith("python") and rest[:1] == ["-m"] and rest[1] in ("pytest", "http.server"):
        assert all((ROOT / word).exists() for word in rest if word.startswith("tests/"))
    elif program.endswith("python"):
        script = " ".join(rest[:2]) if rest[0] == "-m" else rest[0]
        parse(monkeypatch, script, rest[len(script.split()) :])
    else:
        assert program in PROGRAMS
        extras = re.findall(r"detok_py\[(\w+)\]", " ".join(rest))
        hook = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"][
            "metadata"
        ]
        assert {*extras} <= {*hook["hooks"]["custom"]["optional-dependencies"]}


def test_the_data_of_the_documents_can_be_read():
    read = {"json": json.loads, "yaml": yaml.safe_load}
    for block in BLOCKS:
        if block.language in read:
            assert read[block.language](block.text), str(block)


# ---------------------------------------------------------------- troubleshooting


def sources():
    """What the code says: its sources, with strings joined that stand one below the other."""
    files = [*(ROOT / "detok_py").rglob("*.py"), *(ROOT / "web").glob("[hs]*/*.js")]
    text = "\n".join(path.read_text("utf-8") for path in sorted(files))
    return re.sub(r"[\"'`]\s*\+?\s*\n\s*\+?\s*f?[\"'`]", "", text)


def table(heading):
    """The rows below a heading, each as its cells; code without its marks."""
    part = TROUBLE.partition(f"\n{heading}\n")[2]
    part = re.split(r"^## ", part, maxsplit=1, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| (.*) \|$", part, re.MULTILINE)
    return [[cell.strip().replace("`", "") for cell in re.split(r" \|(?= )", row)] for row in rows]


def messages():
    text = re.sub(r"### Without a message.*?(?=^## )", "", TROUBLE, flags=re.MULTILINE | re.DOTALL)
    for row in re.findall(r"^\|.*\|$", text, re.MULTILINE):
        # The message is the first code of at least four words.
        found = re.search(r"\| `([^`]+ [^`]+ [^`]+ [^`]+)` \|", row)
        if found:
            yield found[1]


@pytest.mark.slow
def test_every_message_in_troubleshooting_is_one_that_the_code_gives():
    lines = sources().splitlines()
    found = list(messages())
    assert len(found) > 60
    unknown = []
    for message in found:
        parts = message.split("…")
        # A line at a time: one expression over all sources would take seconds.
        known = [line for line in lines if max(parts, key=len) in line]
        if not any(re.search(".{0,300}?".join(map(re.escape, parts)), line) for line in known):
            unknown.append(message)
    assert unknown == []


def test_troubleshooting_has_every_kind_and_code_of_the_library():
    library = (ROOT / "web" / "src" / "errors.js").read_text("utf-8")
    union = re.search(r"@typedef \{([^}]*)\} ErrorKind", library)[1]
    kinds = set(re.findall(r'"(\w+)"', union))
    rows = table("## In the browser")
    explained = {row[0] for row in rows if len(row) == 2} - {"kind", "---"}
    assert explained == kinds
    assert {row[1].partition(",")[0] for row in rows if len(row) == 4} >= kinds
    codes = {row[0]: row[1] for row in rows if len(row) == 3}
    assert {str(code): sentence for code, sentence in CLOSED.items()}.items() <= codes.items()


def codes_of_the_exit():
    """Yield the codes with which the OpenAI-compatible routes refuse a request."""
    for file in (ROOT / "detok_py" / "bridge").glob("openai_*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Name("ExitError"), args=[_, _, ast.Constant(code), *_]):
                    yield code
                case ast.AnnAssign(target=ast.Name("STATUSES"), value=ast.Dict(values=statuses)):
                    yield from (ast.literal_eval(status)[1] for status in statuses)


def test_every_code_of_the_openai_routes_is_explained():
    codes = set(codes_of_the_exit())
    explained = (ROOT / "docs" / "openai-exit.md").read_text("utf-8")
    assert len(codes) > 15
    assert {code for code in codes if f"`{code}`" not in explained} == set()


def test_every_option_of_check_is_explained():
    parser = argparse.ArgumentParser(add_help=False)
    options.add_arguments(parser)
    given = {each for action in parser._actions for each in action.option_strings}
    explained = (ROOT / "docs" / "testing-your-ui.md").read_text("utf-8")
    assert {each for each in given if each not in explained} == set()


def test_troubleshooting_has_every_public_error_of_python():
    classes = {
        key
        for key, value in vars(detok_py.errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }
    assert classes <= {row[0] for row in table("## In Python")}


def test_the_readme_is_short_and_its_picture_stands_still_for_reduced_motion():
    readme = (ROOT / "README.md").read_text("utf-8")
    assert readme.count("\n") <= 120
    [(reduced, still, moving)] = re.findall(
        r'<picture>\s*<source media="\(([^)]+)\)" srcset="([^"]+)">\s*<img src="([^"]+)"\s+alt="[^"]+">',
        readme,
    )
    assert reduced == "prefers-reduced-motion: reduce"
    assert (ROOT / still).read_bytes().startswith(b"\x89PNG")
    data = (ROOT / moving).read_bytes()
    assert (data[:4], data[8:12], b"ANIM" in data[:64]) == (b"RIFF", b"WEBP", True)
    assert len(data) <= 1_500_000


@pytest.mark.full
def test_the_table_of_scripts_is_what_the_vocabularies_give(data):
    script_risks.DATA = data
    assert (
        script_risks.TABLE.search(script_risks.PAGE.read_text("utf-8"))[0] == script_risks.table()
    )


def test_each_pitfall_of_windows_is_a_case_of_the_suite():
    page = (ROOT / "docs" / "how-decoding-works.md").read_text("utf-8")
    named = re.findall(r"`(window/[\w-]+)`", page)
    assert sorted(named) == sorted(
        case["id"] for case in cases_of(load_suite()) if case["id"].startswith("window/")
    )


def test_an_answer_of_emoji_waits_for_at_most_four_tokens():
    """Also in the smallest vocabulary, where each byte is a token."""
    text = "👩‍🚀🦊🇯🇵👍🏽1️⃣"
    stream, waits, wait = Detokenizer(ByteVocabulary()), [], 0
    for byte in text.encode():
        wait += 1
        if stream.push(byte):
            waits, wait = [*waits, wait], 0
    assert (max(waits), stream.flush(), len(waits)) == (4, "", len(text))
