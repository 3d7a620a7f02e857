"""Captures in a page: read, decoded again and written, in both runtimes."""

from pathlib import Path

import pytest
from bridge_rig import VOCABULARY
from library_rig import scripted

from detok_py.captures.capture import read_capture, write_capture

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
    seen = library.evaluate(ROUND, [runtime, scripted(TEXT, cut="token")])
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


STREAMS = Path(__file__).resolve().parents[1] / "fixtures" / "streams"
READ_FILE = """async ([name, bytes, runtime]) => {
  const { readCapture } = await import("/src/capture.js");
  const { header, rows, problems, end } = await readCapture(new File([new Uint8Array(bytes)], name), { runtime });
  return {
    end,
    source: header.source,
    problems: problems.map(({ line }) => line),
    rows: rows.map(({ text, channel, line, event, broken }) => [text, channel, line, event, broken !== ""]),
  };
}"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("runtime", ["micropython", "pyodide"])
def test_reports_as_people_have_them_are_read_in_both_runtimes(library, runtime):
    def read(name):
        return library.evaluate(READ_FILE, [name, list((STREAMS / name).read_bytes()), runtime])

    assert read("report-surrogate-halves.sse")["rows"] == [
        ["Hi ", "content", 1, 1, False],
        ["😀 and \ufffd", "content", 3, 2, True],
        ["!", "content", 5, 3, False],
    ]
    assert read("terminal.log")["problems"] == [1]  # the first of three lines of the terminal
    messages = read("anthropic-messages.sse")
    channels = [row[1] for row in messages["rows"]]
    assert channels == ["reasoning", "content", "content", "tool_call", "tool_call"]
    assert messages["source"]["server"] == "Anthropic, messages"
    assert messages["source"]["file"] == "anthropic-messages.sse"
    assert messages["end"]["reason"] == "tool_use"


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
