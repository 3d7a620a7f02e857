"""Captures in a page: read, decoded again and written, in both runtimes."""

from pathlib import Path

import pytest
from bridge_rig import VOCABULARY

from detok_py.captures.capture import read_capture, write_capture
from detok_py.decode.vocabulary import Vocabulary

TEXT = "naïve 你好 👩‍🚀"

ROUND = """async ([runtime, request]) => {
  const { readCapture, writeCapture } = await import("/src/capture.js");
  const options = { runtime };
  const answer = lib.connect("/stream", { ...options, prompt: "", details: true, ...request });
  const rows = [], plain = (row) => ({ ...row, bytes: [...row.bytes], heldBytes: [...row.heldBytes] });
  let header, begun;
  answer.addEventListener("hello", ({ detail: { engine, vocabulary } }) => (header = { engine, vocabulary, prompt: "secret" }));
  answer.addEventListener("token", ({ detail }) => {
    begun ??= detail.at;
    for (const row of detail.rows) rows.push({ ...row, seconds: (detail.at - begun) / 1000 });
  });
  const { reason, text } = await answer.finished;
  const written = await writeCapture({ header, rows, seconds: 9, end: { type: "finished", reason } }, options);
  const read = await readCapture(new File([written], "x.detok.jsonl"), options);
  return { written, rows: rows.map(plain), text, read: { ...read, rows: read.rows.map(plain) } };
}"""


@pytest.mark.parametrize("runtime", ["micropython", "pyodide"])
def test_a_recording_that_is_written_and_read_again_is_the_same_stream(library, runtime):
    request = {"params": {"engine": "scripted", "text": TEXT, "cut": "token", "pace": 0}}
    seen = library.evaluate(ROUND, [runtime, request])
    assert "secret" not in seen["written"]
    capture = read_capture(seen["written"])
    assert capture.header["vocabulary"]["sha256"] == VOCABULARY.sha256
    assert capture.records[-1].value == {"type": "finished", "reason": "eos"}
    again = seen["read"]
    places = {"seconds", "channel", "apart", "line", "event", "broken", "ids"}
    read = [{name: row[name] for name in row if name not in places} for row in again["rows"]]
    assert read == [{name: row[name] for name in row if name not in places} for row in seen["rows"]]
    assert [row["seconds"] for row in again["rows"]] == pytest.approx(
        [row["seconds"] for row in seen["rows"]], abs=1e-4
    )
    assert "".join([row["text"] for row in again["rows"]]) + again["text"] == TEXT
    assert again["seconds"] == pytest.approx(9, abs=1e-4)


READ = """async ([text, options]) => {
  const { readCapture } = await import("/src/capture.js");
  try {
    const { rows, text: rest } = await readCapture(text, { runtime: "micropython", ...options });
    return rows.map(({ text }) => text).join("") + rest;
  } catch ({ name, message }) {
    return `${name}: ${message}`;
  }
}"""


def test_ids_without_bytes_are_read_with_the_bridges_vocabulary(open_library, served):
    page = open_library()
    ids = [104, 105, 33]
    header = {"vocabulary": {"sha256": VOCABULARY.sha256}}
    text = write_capture(header, [(0.0, "i", ids)])
    expected = b"".join([VOCABULARY.token_bytes(i) for i in ids]).decode()
    assert page.evaluate(READ, [text, {}]) == expected
    other = write_capture({"vocabulary": {"sha256": "0" * 64}}, [(0.0, "i", ids)])
    assert "--tokenizer" in page.evaluate(READ, [other, {}])


@pytest.mark.parametrize("text", ["", "hello", "{}", "[1,2]"])
def test_a_file_that_is_no_capture_is_an_error_of_one_sentence(library, text):
    said = library.evaluate(READ, [text, {}])
    assert said.startswith("DetokError: ") and "\n" not in said


STREAMS = Path(__file__).resolve().parents[1] / "fixtures" / "streams"

READ_FILE = """async ([name, bytes, runtime, tokens]) => {
  const { readCapture } = await import("/src/capture.js");
  const vocabulary = tokens && (await lib.loadVocabulary(new Blob([new Uint8Array(tokens)]), { runtime, cache: false }));
  const { header, rows, problems, end } = await readCapture(new File([new Uint8Array(bytes)], name), { runtime, vocabulary });
  const { server, file } = header.source;
  const plain = rows.map(({ id, text, channel, line, event, broken }) => [id, text, channel, line, event, broken !== ""]);
  return { server, file, rows: plain, problems: problems.map(({ line }) => line), end };
}"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("runtime", ["micropython", "pyodide"])
def test_reports_as_people_have_them_are_read_in_both_runtimes(library, runtime):
    def read(name, tokens=None):
        data = list((STREAMS / name).read_bytes())
        return library.evaluate(READ_FILE, [name, data, runtime, tokens and list(tokens)])

    halves = read("report-surrogate-halves.sse")
    assert halves["rows"] == [
        [None, "Hi ", "content", 1, 1, False],
        [None, "😀 and \ufffd", "content", 3, 2, True],
        [None, "!", "content", 5, 3, False],
    ]
    log = read("terminal.log")
    assert [row[3] for row in log["rows"]] == [3, 4, 7]
    assert log["problems"] == [1]  # the first of three lines of the terminal
    messages = read("anthropic-messages.sse")
    assert [row[2] for row in messages["rows"]] == ["reasoning", "content", "content", *["tool_call"] * 2]  # fmt: skip
    assert (messages["server"], messages["file"], messages["end"]["reason"]) == (
        "Anthropic, messages",
        "anthropic-messages.sse",
        "tool_use",
    )
    pieces = Vocabulary.from_bytes([b"a", b"b", b"\xc3", b"\xa9", b"</s>"], special_ids=[4]).pack()
    ids = read("vllm-completions.sse", pieces)
    assert [row[:2] for row in ids["rows"]] == [[0, "a"], [2, ""], [3, "é"]]


LARGE = """async (runtime) => {
  const { readCapture } = await import("/src/capture.js");
  const event = (n) => `data: {"id":"${n}","choices":[{"delta":{"content":"né ${n}"}}]}\\n\\n`;
  const text = Array.from({ length: 9000 }, (_, n) => event(n)).join("");
  const told = [], seen = [];
  const { rows } = await readCapture(new File([text], "a.sse"), { runtime });
  const options = {
    runtime,
    onRows: (some, { fidelity }) => { for (const row of some) told.push(row); seen.push(fidelity); },
    onProgress: (read, total) => seen.push(`${read} of ${total}`),
  };
  const given = await readCapture(new Blob([text]), options);
  const plain = ({ bytes, text, line, event }) => [[...bytes], text, line, event].join();
  const right = (row, n) => plain(row) === plain({ bytes: new TextEncoder().encode(`né ${n}`), text: `né ${n}`, line: 2 * n + 1, event: n + 1 });
  return [rows.length, rows.every(right), told.length, told.every(right), given.rows.length, seen.at(0), seen.at(-1)];
}"""


@pytest.mark.parametrize("runtime", ["micropython", "pyodide"])
def test_the_rows_of_a_large_file_come_in_parts_or_together(library, runtime):
    seen = library.evaluate(LARGE, runtime)
    assert seen == [9000, True, 9000, True, 0, "text", "9000 of 9000"]
