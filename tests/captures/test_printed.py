"""Values that Node, Ruby, Rust and Python print, on one line or many, are read; what such a value
lacks is said, and nothing that never was JSON is called damaged JSON.
"""

import json

import pytest
from recordings import delta, judged, shown, text_of, unended

from detok_py.captures.printed import joined_values
from detok_py.captures.read import read
from detok_py.captures.reprs import NotRead, printed_value
from detok_py.errors import CaptureError

CONVERSE = """\
{ messageStart: { role: 'assistant' } }
{
  contentBlockDelta: { delta: { text: 'Ich {suche' }, contentBlockIndex: 0 }
}
{ contentBlockDelta: { delta: { text: " it's é" }, contentBlockIndex: 0 } }
{ contentBlockStop: { contentBlockIndex: 0 } }
{
  contentBlockStart: {
    start: {
      toolUse: { toolUseId: 'tooluse_kZJM', name: 'search' }
    },
    contentBlockIndex: 1
  }
}
{
  contentBlockDelta: {
    delta: { toolUse: { input: '{"query":"Äpf' } },
    contentBlockIndex: 1
  }
}
{
  contentBlockDelta: { delta: { toolUse: { input: 'el"}' } }, contentBlockIndex: 1 }
}
{ messageStop: { stopReason: 'tool_use' } }
"""
NODE = """\
$ node chat.mjs
chunk: {
  id: 'chatcmpl-1',
  'x-y': undefined,
  at: 2025-10-02T11:04:01.000Z,
  size: 10n,
  choices: [
    {
      index: 0,
      delta: {
        content: 'one line,\\n' +
          "and 'another'\\n" +
          `\\uD83D`
      },
      finish_reason: null
    }
  ]
}
chunk: <ref *1> ChatCompletionChunk {
  choices: [ Choice { delta: [Object: null prototype] { content: '\\uDE00 né' } } ],
  usage: Map(1) { 'total' => 3 },
  last: [Function: last]
}
"""
RUBY = r"""
{"id"=>"c", "choices"=>[{"index"=>0, "delta"=>{"content"=>"n\u00E9 \#{x}"}, "finish_reason"=>nil}]}
{"id" => "c", "choices" => [{"index" => 0, "delta" => {"content" => " a"}, "finish_reason" => nil}]}
{id: "c", choices: [{index: 0, delta: {content: "\u{1F600}\e"}, finish_reason: nil}]}
{:id=>"c", :choices=>[{:index=>0, :delta=>{:content=>"."}, :finish_reason=>:stop}]}
{"id" => "c",
 "choices" =>
  [{"index" => 0,
    "delta" => {"content" => " End", "refusal" => nil}}]}
"""
RUST = r"""
Ok(ChunkResponse { id: "c", r#type: Function, choices: [Choice { index: 0, delta: Delta { content: Some("Team: "), role: Some(Assistant) }, finish_reason: None }] })
ChunkResponse {
    id: "c",
    choices: [
        Choice {
            index: 0,
            delta: Delta {
                content: Some(
                    "\u{200d}'é'",
                ),
                role: None,
            },
            finish_reason: Some(
                ToolCalls,
            ),
        },
    ],
}
"""
PPRINT = """\
{'choices': [{'delta': {'content': 'a long line of text '
                                   "that isn't one"},
              'index': 0}],
 'id': 'c'}
ChatCompletionChunk(
    choices=[
        Choice(delta=ChoiceDelta(content=' né'), index=0),
    ],
)
"""
ARRAY = "[\n  { type: 'content_block_delta', delta: { text: 'a' } },\n  {\n    type: 'content_block_delta',\n    delta: { text: 'b' }\n  }\n]\n"  # fmt: skip
SUMMED_UP = """\
RawMessageStartEvent(message=Message(id='msg_1', content=[], model='claude'), type='message_start')
RawContentBlockDeltaEvent(delta=ThinkingDelta(thinking='so', type='thinking_delta'), index=0, type='content_block_delta')
ThinkingEvent(type='thinking', thinking='so', snapshot='so')
RawContentBlockDeltaEvent(delta=TextDelta(text='n', type='text_delta'), index=1, type='content_block_delta')
TextEvent(type='text', text='n', snapshot='n')
RawContentBlockDeltaEvent(delta=TextDelta(text='é', type='text_delta'), index=1, type='content_block_delta')
TextEvent(type='text', text='é', snapshot='né')
"""
# name: the file, its texts by channel, who printed it
PRINTED = {
    "Node, converse": (CONVERSE, {"content": "Ich {suche it's é", "tool_call": '{"name": "search", "arguments": {"query":"Äpfel"}}'}, "Node"),
    "Node": (NODE, {"content": "one line,\nand 'another'\n😀 né"}, "Node"),
    "Node, an array": (ARRAY, {"content": "ab"}, "Node"),
    "Ruby": (RUBY, {"content": "né #{x} a😀\x1b. End"}, "Ruby"),
    "Rust": (RUST, {"content": "Team: \u200d'é'"}, "Rust"),
    "Python, pprint": (PPRINT, {"content": "a long line of text that isn't one né"}, "Python"),
    "Node, cut": (CONVERSE[: CONVERSE.index("Delta: { delta: { toolUse")], {"content": "Ich {suche it's é"}, "Node"),
    "Python, MessageStream": (SUMMED_UP, {"content": "né", "reasoning": "so"}, "Python"),
    "Python, its sums alone": ("\n".join(line for line in SUMMED_UP.split("\n") if line[:4] == "Text"), {"content": "né"}, "Python"),
}  # fmt: skip
GO = "2025/10/02 11:04:01 {ID:c Choices:[{Index:0 Delta:{Content:Hel Role:} FinishReason:}] Usage:<nil>}\n"  # fmt: skip
LEFT_OUT = """\
{ contentBlockDelta: { delta: { text: 'a' }, contentBlockIndex: 0 } }
{
  contentBlockStart: { start: { toolUse: [Object] }, contentBlockIndex: 1 }
}
{ contentBlockDelta: { delta: { text: 'b' }, list: [ 1, 2, ... 3 more items ] } }
{ messageStop: { stopReason: 'end_turn', self: [Circular *1] } }
"""


@pytest.mark.parametrize("name", PRINTED)
def test_what_a_program_printed_is_read(name):
    data, texts, language = PRINTED[name]
    found = read(data.encode())
    assert {channel: text_of(found, channel) for channel in texts} == texts
    assert found.header["source"]["format"] == f"values that {language} printed"
    assert not any(chunk.broken for chunk in found.chunks)


def test_a_value_on_several_lines_has_the_number_of_its_first():
    found = read(CONVERSE.encode())
    assert [chunk.line for chunk in found.chunks] == [2, 5, 7, 15, 21]
    assert found.problems == []


def test_what_ruby_prints_for_bytes_that_are_not_utf_8_is_lost():
    line = r'{"choices"=>[{"index"=>0, "delta"=>{"content"=>"\xE4\xBA a"}}]}'
    (chunk,) = read(line.encode()).chunks
    assert (chunk.data, bool(chunk.broken)) == ("\ufffd\ufffd a".encode(), True)


def test_what_node_left_out_is_said():
    out = judged(LEFT_OUT)
    said = "Node printed “... 3 more items”, “[Circular *1]”, “[Object]” in place of"
    assert out["verdict"].startswith(said)
    assert "(line 3, 5, 6)" in out["notes"] and "depth: null" in out["notes"]
    assert "Nothing else broken was found in it" in out["verdict"]


def test_an_answer_whose_texts_node_left_out_is_not_called_empty():
    form = "{{\n  id: 'c',\n  choices: [ {{ delta: [Object], finish_reason: {} }} ]\n}}\n"
    said = r"no token stream.*Node printed “\[Object\]”.*line 3, 7"
    with pytest.raises(CaptureError, match=said):
        read((form.format("null") + form.format("'stop'")).encode())


def test_a_printed_value_that_breaks_off_is_said_so():
    found = read(PRINTED["Node, cut"][0].encode())
    ((line, reason),) = found.problems
    assert line == 21
    assert reason.startswith("this event's value, which Node printed, breaks off")


@pytest.mark.parametrize("prefix", ["", GO[:20]])
def test_what_go_printed_without_quotes_is_refused(prefix):
    line = prefix + GO[20:]
    with pytest.raises(CaptureError, match=r"a value that Go printed with %\+v.*json.Marshal"):
        read((line * 2).encode())


@pytest.mark.parametrize(
    "line", ["{ a: 'x'", "{'a': 'x'", '{"a" => "x', "{ID:1 Text:b", '{"id"=>1', "['a'"]
)
def test_what_was_no_json_is_not_called_damaged_json(line):
    event = unended(delta("hi"))
    found = read(f"{event}data: {line}\n\n{event}".encode())
    assert len(found.chunks) == 2
    assert [one.reason for one in found.problems if "JSON breaks off" in one.reason] == []
    with pytest.raises(CaptureError) as caught:
        read(line.encode())
    assert "JSON breaks off" not in str(caught.value)


@pytest.mark.parametrize(
    "before", ["{ port: 80 }", "config: {\n  port: 80\n}", "const x = { a: 1,", '{"a" => 1}']
)
def test_events_behind_other_values_are_read(before):
    assert text_of(read(f"{before}\n{unended(delta('hi'))}".encode())) == "hi"


def test_json_on_several_lines_is_no_printed_value():
    found = read((json.dumps(delta("{ a: 'b' }"), indent=2) + "\n").encode() * 2)
    assert [chunk.data for chunk in found.chunks] == [b"{ a: 'b' }"] * 2
    assert joined_values(["{", '  "a": 1', "}"]) == ["{", '  "a": 1', "}"]


@pytest.mark.parametrize(
    "text", ["", "x(", "a=", "{'a'", "['\\", "f(1", "b'é'", "<x", "(" * 60, "hello world", "1", "{ a: }", "{ a: 'x }", "{ a: 'x' 'y' }", '{"a" =>}', "{ a: [Object }", "Foo { a: 1", "{ a: '\\u{zz}' }", "<ref *1"]
)  # fmt: skip
def test_what_no_program_prints_is_not_read(text):
    with pytest.raises(NotRead):
        printed_value(text)


GENAI = """sdk_http_response=HttpResponse(
  headers=<dict len=9>
) candidates=[Candidate(
  content=Content(
    parts=[
      Part(
        text='{text}'
      ),
    ],
    role='model'
  ),{finish}
  index=0
)] create_time=None model_version='gemini-2.5-flash' usage_metadata=GenerateContentResponseUsageMetadata(
  candidates_token_count=4,
  prompt_token_count=7
) parsed=None
"""


def test_answers_that_google_genai_printed_are_read_whole():
    end = "\n  finish_reason=<FinishReason.STOP: 'STOP'>,"
    text = GENAI.format(text="né ", finish="") + GENAI.format(text="🚆 (1)", finish=end)
    found = judged(text)
    assert (shown(found), found["end"]["reason"], found["problems"]) == ("né 🚆 (1)", "STOP", [])
    assert found["header"]["source"]["usage"] == "7 tokens in, 4 out"
    assert found["header"]["engine"]["model"] == "gemini-2.5-flash"
