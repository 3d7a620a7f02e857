"""Whatever an engine sends where a number belongs, its run ends in one sentence, and soon."""

import asyncio
import functools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detok_py.bridge.engines import Request, Sampling
from detok_py.bridge.engines.address import check_address
from detok_py.bridge.engines.http import EngineClient
from detok_py.bridge.find import engine_at
from detok_py.bridge.jobs import Work, begins_in, run_job
from detok_py.bridge.metrics import Metrics
from detok_py.bridge.recover import Recovery
from detok_py.decode.vocabulary import Vocabulary
from detok_py.protocol.runs import Run

pytestmark = pytest.mark.native

BYTES = Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"\xe6\x97"])
TABLE = Recovery.table(BYTES)
NUMBERS = ("97", "0", "1", "2", "-1", "true", "null", "1.5", "1e999", "NaN", "-Infinity")
NUMBERS += ("257", "4000000000", "4294967295", "4294967296", "999999999999999", "9" * 4000)
NUMBERS += ("-" + "9" * 4000, '"7"', '"\\ud800"', "[]", "[97]", "[NaN]", "{}")
# Events of each engine, with @ where a number belongs, or a value that numbers are in.
EVENTS = {
    "llama": (
        '{"content":"","completion_probabilities":[{"id":@,"bytes":[230]}],"tokens_predicted":@}',
        '{"tokens":[@],"completion_probabilities":[{"id":165,"bytes":[151,165]}],"tokens_predicted":@}',
        '{"completion_probabilities":[{"id":@,"bytes":[@,97]}],"tokens_predicted":@,"stop":@}',
        '"hello"',
        '{"content":"","stop":true,"stop_type":@,"tokens_predicted":@}',
    ),
    "llama in steps": ('{"tokens":[@],"stop_type":@}', '{"tokens":@,"stop_type":"eos"}'),
    "vllm": (
        '{"choices":[{"index":@,"text":"a","token_ids":[@,97],"finish_reason":null}],"usage":@}',
        '{"choices":[{"text":"a","token_ids":@,"finish_reason":@}],"prompt_token_ids":@}',
        "@",
        '{"choices":[{"text":"","token_ids":[@],"finish_reason":"stop"}],"usage":{"completion_tokens":@}}',
    ),
    "sglang": (
        '{"text":"a","output_ids":[97,@],"meta_info":{"completion_tokens":@,"finish_reason":@}}',
        '{"text":"a","output_ids":@,"meta_info":{"completion_tokens":@}}',
        '"hello"',
        '{"choices":[{"token_ids":[@]}],"meta_info":{}}',
        '{"output_ids":[97,98],"meta_info":{"completion_tokens":@,"finish_reason":{"type":"stop","matched":@}}}',
    ),
    "tgi": (
        '{"index":@,"token":{"id":@,"text":"a","special":@}}',
        '{"token":{"id":@,"text":"b"},"generated_text":@,"details":{"finish_reason":@,"generated_tokens":@}}',
    ),
    "ollama": (
        '{"response":"a","done":@,"eval_count":@}',
        '{"message":{"content":@,"thinking":@,"tool_calls":@},"done":false}',
        "@",
        '{"response":"b","done":true,"done_reason":@,"eval_count":@}',
    ),
    "openai": (
        '{"choices":[{"delta":{"content":"a","tool_calls":[{"index":@,"function":{"name":"f","arguments":@}}]}}]}',
        '{"choices":[{"text":@}],"usage":@}',
        "@",
        '{"choices":[{"text":"a","finish_reason":"stop"}],"usage":{"completion_tokens":@}}',
    ),
}


@pytest.mark.parametrize("name", EVENTS)
@given(data=st.data())
def test_hostile_numbers_in_events_end_the_run_in_one_sentence(name, data):
    shapes = st.lists(st.sampled_from(EVENTS[name]), max_size=4)
    lines = [*data.draw(shapes), EVENTS[name][-1]]
    for _ in range("".join(lines).count("@")):
        at = next(n for n, line in enumerate(lines) if "@" in line)
        lines[at] = lines[at].replace("@", data.draw(st.sampled_from(NUMBERS)), 1)
    want = "ids" if name == "llama in steps" else data.draw(st.sampled_from(["both", "bytes"]))
    begun = time.process_time()
    log = asyncio.run(answered(name.partition(" ")[0], lines, want))
    assert time.process_time() - begun < 5
    assert log.end is not None
    assert log.end.get("code") != 1011
    for sentence in (log.end.get("message"), log.end.get("note")):
        assert len(sentence or "") < 300
    assert log.size < 10_000


async def answered(name, lines, want):
    """Return the log of a run whose engine sends `lines`, to a client that reads them all."""
    engine = engine_of(name)
    engine.client.lines = list(lines)
    run = Run("0123456789abcdef", {})
    work = Work(engine, vocabulary_of, lambda _: TABLE, begins, Metrics().of("engine"))
    asked = Request("hi", None, Sampling(), want, {})
    if name == "vllm":  # which reads more of an event for messages
        asked = asked._replace(prompt=None, messages=[{}])
    job = asyncio.create_task(run_job(run, asked, work))
    while not job.done():
        run.reader.acknowledge(run.log.position)
        await asyncio.sleep(0)
    return run.log


@functools.cache
def engine_of(name):
    engine = engine_at(name, check_address("http://127.0.0.1:9"))
    engine.client = Said(check_address("http://127.0.0.1:9"))
    engine.open = nothing
    return engine


class Said(EngineClient):
    """A client whose engine says `lines`, whatever it is asked."""

    lines = ()

    async def events(self, path, body, *, max_tokens):
        for line in self.lines:
            yield self._event(line)

    async def post(self, path, body, *, seconds=0.0):
        said = self.lines.pop(0) if path == "/completion" and self.lines else '{"tokens":[]}'
        return self._parse(said)


def begins(prompt):
    return begins_in(prompt, BYTES, None)


async def nothing():
    pass


async def vocabulary_of(run, request):
    return BYTES
