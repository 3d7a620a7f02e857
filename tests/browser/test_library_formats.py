"""An answer in a format of models, in everything that shows answers: names of calls and their
arguments as they come.
"""

import itertools

import pytest
from bridge_rig import VOCABULARY
from library_rig import scripted
from waiting import eventually

CALL = '{"name": "look", "arguments": {"at": "é"}}'
TEXT = f"<think>hm</think>At once.<tool_call>{CALL}</tool_call>"
CUT = "<tool_call>" + CALL[:-4]
FORMAT = "qwen3_hermes"
WHOLE = {"id": None, "name": "look", "arguments": '{"at": "é"}', "complete": True}


def asked(text=TEXT, **options):
    return {"runtime": "micropython", **scripted(text), **options}


CONNECT = """async (request) => {
  const answer = lib.connect("/stream", { prompt: "", ...request });
  const deltas = [], named = {};
  for (const type of ["hello", "start"])
    answer.addEventListener(type, ({ detail }) => (named[type] = detail.format));
  for await (const delta of answer) deltas.push(delta);
  return { deltas, named, calls: answer.calls, reason: (await answer.finished).reason };
}"""


@pytest.mark.engine
@pytest.mark.parametrize("runtime", ["micropython", "pyodide"])
@pytest.mark.parametrize("cut", ["byte", "token"])
def test_connect_reads_the_format_that_the_bridge_names(library, monkeypatch, runtime, cut):
    monkeypatch.setattr(VOCABULARY, "chat_format", FORMAT)
    request = asked(runtime=runtime)
    request["params"]["cut"] = cut
    answer = library.evaluate(CONNECT, request)
    assert answer["named"] == {"hello": FORMAT, "start": FORMAT}
    calls = [delta for delta in answer["deltas"] if delta["channel"] == "tool_call"]
    assert [delta["name"] for delta in calls if "name" in delta] == ["look"]
    assert {delta["call"] for delta in calls} == {0}
    assert calls[-1]["complete"] is True
    assert answer["calls"] == [{"call": 0, **WHOLE}]
    assert answer["reason"] == "tool_calls"
    for channel, text in (("content", "At once."), ("reasoning", "hm")):
        deltas = [delta for delta in answer["deltas"] if delta["channel"] == channel]
        assert "".join([delta["text"] for delta in deltas]) == text
    # Nothing is looked for, if that is asked.
    plain = library.evaluate(CONNECT, {**request, "format": None})
    assert plain["named"] == {"hello": FORMAT, "start": None}
    assert plain["calls"] == []


FED = """async ([options, answers]) => {
  const out = [];
  for (const pushes of answers) {
    const decoder = await lib.createDecoder({ ...options, output: "deltas" });
    const deltas = [];
    for (const push of pushes) {
      deltas.push(decoder.feed(new TextEncoder().encode(push)));
      deltas.push(await decoder.ready());
    }
    deltas.push(decoder.flush(), await decoder.ready());
    out.push(deltas.flat().map(({ channel, text }) => [channel, text]));
  }
  return out;
}"""


@pytest.mark.parametrize("runtime", ["micropython", "pyodide"])
def test_a_tag_that_opens_no_call_is_text_when_its_state_has_crossed(library, runtime):
    options = {"runtime": runtime, "format": FORMAT}
    [deltas] = library.evaluate(FED, [options, [list("x<tool_call>y</tool_call>")]])
    assert {channel for channel, _ in deltas} == {"content"}
    assert "".join([text for _, text in deltas]) == "x<tool_call>y</tool_call>"


def test_deltas_of_a_chunk_are_the_same_whatever_streams_came_before(library):
    calls = "<tool_call>a</tool_call><tool_call>b</tool_call>"
    options = {"runtime": "micropython", "tools": True}
    [_, deltas] = library.evaluate(FED, [options, [list(calls), ["a" + calls]]])
    assert deltas == [["content", "a"], ["tool_call", "a"], ["tool_call", "b"]]


def test_an_answer_that_ends_in_a_call_says_that_it_is_not_complete(library):
    answer = library.evaluate(CONNECT, asked(CUT, format=FORMAT))
    [call] = answer["calls"]
    assert (call["complete"], call["arguments"], answer["reason"]) == (False, '{"at": "', "eos")


CHUNKS = """async (options) => {
  const { DetokTransport } = await import("/src/ai-sdk.js");
  const transport = new DetokTransport("/stream", options);
  const parts = [{ type: "text", text: "go" }];
  return partsOf(await transport.sendMessages({ chatId: "one", messages: [{ role: "user", parts }] }));
}"""


def test_the_ai_sdk_gets_the_input_of_a_call_as_it_comes(library):
    chunks = library.evaluate(CHUNKS, asked(format=FORMAT))
    tool = [chunk for chunk in chunks if chunk["type"].startswith("tool-")]
    assert len({chunk["toolCallId"] for chunk in tool}) == 1
    begin, *deltas, end = [{k: v for k, v in each.items() if k != "toolCallId"} for each in tool]
    assert begin == {"type": "tool-input-start", "toolName": "look", "dynamic": True}
    assert {delta["type"] for delta in deltas} == {"tool-input-delta"}
    assert len(deltas) > 3
    assert "".join([delta["inputTextDelta"] for delta in deltas]) == WHOLE["arguments"]
    given = {"type": "tool-input-available", "toolName": "look", "dynamic": True}
    assert end == {**given, "input": {"at": "é"}}
    assert chunks[-1] == {"type": "finish", "finishReason": "tool-calls"}
    kinds = [chunk["type"] for chunk in chunks]
    assert kinds.index("text-end") < kinds.index("tool-input-start")


def test_the_ai_sdk_is_told_of_a_call_that_was_cut_short(library):
    chunks = library.evaluate(CHUNKS, asked(CUT, format=FORMAT))
    [error] = [chunk for chunk in chunks if chunk["type"] == "tool-input-error"]
    assert (error["toolName"], error["input"]) == ("look", '{"at": "')
    assert chunks[-1]["type"] == "finish"


def test_assistant_ui_gets_the_arguments_of_a_call_as_they_come(library):
    seen = library.evaluate(
        """async (options) => {
          const { detokModel } = await import("/src/assistant-ui.js");
          const content = [{ type: "text", text: "go" }];
          const messages = [{ role: "user", content }];
          const seen = [];
          for await (const result of detokModel("/stream", options).run({ messages })) seen.push(result);
          return seen;
        }""",
        asked(format=FORMAT),
    )
    parts = [part for result in seen for part in result["content"] if part["type"] == "tool-call"]
    texts = [part["argsText"] for part in parts]
    assert texts[0] == "" and texts[-1] == WHOLE["arguments"]
    assert all(later.startswith(text) for text, later in itertools.pairwise(texts))
    assert len(set(texts)) > 3
    assert len({part["toolCallId"] for part in parts}) == 1
    assert [part["args"] for part in parts][0] == {} and parts[-1]["args"] == {"at": "é"}
    last = seen[-1]["content"]
    assert [part["type"] for part in last] == ["reasoning", "text", "tool-call"]
    assert seen[-1]["status"] == {"type": "requires-action", "reason": "tool-calls"}


@pytest.mark.parametrize("format", [FORMAT, None])
def test_deep_chat_shows_the_content_and_tells_of_calls(library, format):
    options = {"format": format} if format else {}
    shown, calls = library.evaluate(
        """async (options) => {
          const { detokHandler } = await import("/src/deep-chat.js");
          const shown = [], told = [];
          const handler = detokHandler("/stream", { ...options, onToolCalls: (calls) => told.push(calls) });
          const onResponse = async (response) => void shown.push(response);
          const signals = { onResponse, onOpen() {}, onClose() {}, stopClicked: {} };
          await handler({ messages: [{ role: "user", text: "go" }] }, signals);
          return [shown, told];
        }""",
        asked(**options),
    )
    assert "".join([response["text"] for response in shown]) == "At once."
    [call] = calls[-1]
    assert (call["name"], call["arguments"]) == ("look", {"at": "é"})


# A file is asked for when a part of a call is shown.
STORE = """async ([path, options]) => {
  const { AnswerStore } = await import("/src/store.js");
  const store = new AnswerStore(path, options), seen = [];
  store.subscribe(() => {
    const { toolCalls } = store.read();
    seen.push(toolCalls);
    if (toolCalls[0]?.text && !toolCalls[0].complete) fetch("/given/shown");
  });
  await store.send("go");
  const { text, reasoning, toolCalls } = store.read();
  return [seen, { text, reasoning, toolCalls }];
}"""


def test_the_state_of_the_hooks_has_the_calls_as_they_come(library, served):
    """React, Vue and Svelte share this state (tests/browser/test_examples.py mounts them)."""

    async def play(peer):
        request = await peer.begin("bytes")
        data, cut = TEXT.encode(), TEXT.index(CALL[-4:])
        await peer.data(b"\x00" + data[:cut])
        await eventually(lambda: "shown" in served.asked)
        await peer.data(b"\x00" + data[cut:])
        await peer.finish(request, data, bytes=len(data))
        await peer.hear_until("closed")

    served.script = play
    options = {"runtime": "micropython", "format": FORMAT, "granularity": "grapheme"}
    seen, state = library.evaluate(STORE, ["/script", options])
    call = {"id": None, "name": "look", "text": WHOLE["arguments"], "complete": True}
    assert state == {
        "text": "At once.",
        "reasoning": "hm",
        "toolCalls": [{**call, "arguments": {"at": "é"}}],
    }
    coming = [call for calls in seen for call in calls if not call["complete"]]
    assert coming and not any("arguments" in call for call in coming)
    cut = library.evaluate(STORE, ["/stream", asked(CUT, format=FORMAT)])[1]["toolCalls"]
    assert cut == [{"id": None, "name": "look", "text": '{"at": "', "complete": False}]


@pytest.mark.parametrize("granularity", ["character", "grapheme"])
def test_one_json_value_says_when_it_is_complete(library, granularity):
    deltas = library.evaluate(
        """async (options) => {
          const stream = new lib.DetokStream({ ...options, format: "json", output: "deltas" });
          const chunks = ['{"a": ', '["}é"', "]}", " more"].map((text) => new TextEncoder().encode(text));
          return partsOf(sourceOf(chunks).pipeThrough(stream));
        }""",
        {"runtime": "micropython", "granularity": granularity},
    )
    assert "".join([delta["text"] for delta in deltas]) == '{"a": ["}é"]} more'
    [at] = [at for at, delta in enumerate(deltas) if "complete" in delta]
    shown = "".join([delta["text"] for delta in deltas[: at + 1]])
    assert shown == '{"a": ["}é"]}'
