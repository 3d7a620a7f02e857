"""Answers that do not come from a bridge: llama-server's own, over connections that are cut, and
what the state of the hooks makes of any answer.
"""

import asyncio
import contextlib
import json
import threading
from urllib.parse import urlsplit

import pytest
from cutting_proxy import DOWN, CuttingProxy
from documents import ROOT
from library_rig import URL, scripted
from static_folder import serving
from stock_llama_server import llama_server
from transfer import sse

from detok_py.bridge.engines.recite import texts

TEXTS = {text["prompt"]: text["text"] for text in texts()}


class LateCuts(CuttingProxy):
    """Cuts after the page has read: Chromium drops bytes that arrive together with the cut."""

    async def _forward(self, *way):
        await super()._forward(*way)
        await asyncio.sleep(0.05)


@contextlib.contextmanager
def cutting(port, cuts):
    """A proxy in a thread, each of whose connections is cut."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(20)

    proxy = LateCuts(port, cuts)
    run(proxy.__aenter__())
    try:
        yield proxy
    finally:
        run(proxy.__aexit__())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


ASK = """async ([address, prompt, resumed]) => {
  const { readAnswer, resumingFetch } = await import("/src/fetch.js");
  const body = JSON.stringify({ messages: [{ role: "user", content: prompt }], stream: true });
  const request = { method: "POST", headers: { "content-type": "application/json" }, body };
  let text = "";
  for await (const delta of readAnswer((resumed ? resumingFetch : fetch)(address, request))) text += delta.text;
  return text;
}"""


@pytest.mark.engine
def test_an_answer_of_llama_server_survives_connections_that_end_after_some_bytes(page):
    prompt = "flags: "
    with serving(ROOT / "web") as origin, llama_server() as url:
        page.goto(f"{origin}/package.json")
        for most, how in ((5_003, "close"), (8_000, "reset")):
            with cutting(urlsplit(url).port, [(DOWN, most, how)] * 99) as proxy:
                address = f"http://127.0.0.1:{proxy.port}/v1/chat/completions"
                assert page.evaluate(ASK, [address, prompt, True]) == TEXTS[prompt]
                assert [lengths[DOWN] for lengths in proxy.lengths].count(most) >= 2
        with cutting(urlsplit(url).port, [(DOWN, 5_003, "reset")] * 9) as proxy:
            address = f"http://127.0.0.1:{proxy.port}/v1/chat/completions"
            with pytest.raises(Exception, match="The connection was lost in the middle"):
                page.evaluate(ASK, [address, prompt, False])


# ---------------------------------------------------------------- the state of the hooks

STATE = """async ([source, request, options, vocabulary]) => {
  const { AnswerStore } = await import("/src/store.js");
  const { readAnswer } = await import("/src/fetch.js");
  const small = await lib.loadVocabulary(vocabulary, { cache: false });
  const SOURCES = {
    // An engine's answer, or a file.
    fetch: (name, { signal }) => readAnswer(fetch(`/given/${name}`, { signal }), { reasoning: true, ...options }),
    // Ids over a socket of one's own.
    socket: (text, { signal }) => {
      const socket = new WebSocket(`/script`, "detok.v1");
      const ids = new ReadableStream({
        start(controller) {
          socket.onopen = () => socket.send(JSON.stringify({ type: "ask", text }));
          socket.onmessage = ({ data }) => controller.enqueue(JSON.parse(data));
          socket.onclose = () => controller.close();
        },
        cancel: () => socket.close(),
      });
      return ids.pipeThrough(new lib.DetokStream({ vocabulary: small, output: "deltas", ...options }));
    },
    // A promise of strings.
    strings: async (parts) => new ReadableStream({ start(to) { for (const part of parts) to.enqueue(part); to.close(); } }),
    // What a bridge's address is made of.
    bridge: () => "/stream",
  };
  const store = new AnswerStore(SOURCES[source], source === "bridge" ? options : {}), seen = [];
  store.subscribe(() => seen.push(store.read()));
  const { reason, error } = await store.send(request);
  const { text, reasoning, toolCalls, status } = store.read();
  return {
    reason, error: error?.message ?? null, text, reasoning, status,
    calls: toolCalls.map(({ name, arguments: given }) => [name, given]),
    grows: seen.every((state) => text.startsWith(state.text)),
  };
}"""

TEXT = "naïve 👩\u200d🚀"
CALL = {"index": 0, "id": "c1", "function": {"name": "add", "arguments": '{"a": 1}'}}


@pytest.fixture
def state(library, served):
    """Ask a source of STATE; return what the state of the hooks is then."""

    async def play(peer):
        asked = await peer.hear()
        for number in asked["text"].encode():
            await peer.text(json.dumps([number]))
        await peer.close(1000)

    served.script = play
    head = {"content-type": "text/event-stream"}
    end = {"choices": [{"delta": {"tool_calls": [CALL]}, "finish_reason": "tool_calls"}]}
    body = sse("<think>hm</think>na", TEXT[2:], end)
    served.given["answer"] = (200, head, body)
    served.given["refused"] = (503, {"content-type": "application/json"}, b'{"error": "no slot"}')

    def ask(source, request, **options):
        given = {"runtime": "micropython", **options}
        return library.evaluate(STATE, [source, request, given, URL])

    return ask


NOTHING = {"error": None, "reasoning": "", "status": "ready", "calls": [], "grows": True}


def test_the_state_has_text_reasoning_and_calls_of_an_engine_without_a_bridge(state):
    assert state("fetch", "answer") == {
        **NOTHING,
        "reason": "tool_calls",
        "text": TEXT,
        "reasoning": "hm",
        "calls": [["add", {"a": 1}]],
    }


def test_the_state_has_what_ids_from_a_socket_of_ones_own_say(state):
    assert state("socket", TEXT) == {**NOTHING, "reason": "end", "text": TEXT}
    text = f"<think>hm</think>{TEXT}STOP and more"
    assert state("socket", text, stop=["STOP"], reasoning=True) == {
        **NOTHING,
        "reason": "end",
        "text": TEXT,
        "reasoning": "hm",
    }


def test_a_function_may_give_strings_or_the_address_of_a_bridge(state):
    assert state("strings", ["na", "ïve"]) == {**NOTHING, "reason": "end", "text": "naïve"}
    asked = {"prompt": "", **scripted(TEXT)}
    assert state("bridge", asked) == {**NOTHING, "reason": "eos", "text": TEXT}


def test_an_answer_that_fails_is_the_state_error(state):
    failed = {"reason": "error", "status": "error", "text": ""}
    message = "The server answered HTTP 503: no slot"
    assert state("fetch", "refused") == {**NOTHING, **failed, "error": message}
