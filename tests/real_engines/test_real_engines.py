"""Real engines, each beside its own truth: what it answers when it does not stream.

`make real-engines` installs vLLM and transformers into .build/real-engines/. llama-cpp-python has
no wheel and takes half an hour to build: it is tried if it is in that environment too. The models
are tiny and random, with real tokenizers (see make_model.py).
"""

import asyncio
import json
import lzma
import os
import signal
import subprocess
import urllib.request
from pathlib import Path

import httpx
import pytest
from bridge_rig import running
from cutting_proxy import UP, CuttingProxy
from http_suite import failed, write_model
from large_data import data_folder
from local_server import free_port

from detok_py.bridge.engine_check import prove
from detok_py.bridge.engines import EngineError
from detok_py.bridge.engines.address import check_address
from detok_py.bridge.engines.openai import OpenAIServer
from detok_py.bridge.engines.recite import FOLDER
from detok_py.bridge.engines.vllm import VLLM
from detok_py.bridge.find import find_vocabulary
from detok_py.protocol.events import Finished
from detok_py.tokenizers import load_tokenizer

pytestmark = [pytest.mark.native, pytest.mark.slow]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYTHON = ROOT / ".build" / "real-engines" / "venv" / "bin" / "python"
CONTEXT = 512
START_SECONDS = 600  # a minute, unless the machine is busy
PROMPTS = ["hi there", "日本 🌦️ ไทย", "The café\n\n", "x" * 40]
# The last has no seed: it is greedy.
SEEDS = [1, 2, 3, 4, None]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "OMP_NUM_THREADS": "1",
}


def in_engines_python(*words):
    done = subprocess.run(
        [str(PYTHON), *map(str, words)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


# One tokenizer on bytes, which comes with detok; one on SentencePiece with byte fallback.
@pytest.fixture(scope="module", params=["recite", "llama2", "qwen2_5"])
def model(request, tmp_path_factory):
    """A folder with a model and its tokenizer."""
    source = FOLDER
    if request.param != "recite":
        data = data_folder()
        if data is None:
            pytest.skip("the large test data is not here (set DETOK_DATA to its folder)")
        source = tmp_path_factory.mktemp(request.param)
        packed = data / "tokenizers" / request.param / "tokenizer.json.xz"
        (source / "tokenizer.json").write_bytes(lzma.decompress(packed.read_bytes()))
    folder = tmp_path_factory.mktemp("model")
    in_engines_python(HERE / "make_model.py", source, folder)
    return folder


def test_transformers_gives_what_generate_gives(model):
    print(in_engines_python(HERE / "in_process.py", "transformers", model))


def test_llama_cpp_python_recites_to_every_end():
    question = [str(PYTHON), "-c", "import llama_cpp"]
    if subprocess.run(question, capture_output=True).returncode:
        pytest.skip(f"llama-cpp-python is not installed for {PYTHON}: it has no wheel")
    print(in_engines_python(HERE / "in_process.py", "llama-cpp", FOLDER / "recite.gguf"))


class Served:
    """A vLLM on a port of its own."""

    def __init__(self, model, log, context=CONTEXT):
        self.port = free_port()
        self.model, self.log, self.context = model, log, context
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        command = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(self.model), "--served-model-name", "tiny"]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--dtype", "float32"]
        command += ["--enforce-eager", "--max-model-len", str(self.context)]
        command += ["--distributed-executor-backend", "uni"]
        with open(self.log, "ab") as log:
            # A session of its own: its engine is a process, too.
            self.process = subprocess.Popen(
                command, env=ENVIRONMENT, stdout=log, stderr=log, start_new_session=True
            )

    async def ready(self):
        for _ in range(START_SECONDS * 2):
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            try:
                await asyncio.to_thread(urllib.request.urlopen, f"{self.url}/v1/models", None, 5)
                return
            except OSError:
                await asyncio.sleep(0.5)
        raise AssertionError(f"vLLM did not start in {START_SECONDS} s")

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def vllm(model, tmp_path_factory):
    served = Served(model, tmp_path_factory.mktemp("vllm") / "log")
    served.start()
    try:
        asyncio.run(served.ready())
        yield served
    finally:
        served.kill()


async def truth_of(vllm, path="/v1/completions", **body):
    """Return vLLM's answer when it does not stream: ids, text, finish reason, ids of the prompt."""
    body = {"model": "tiny", "return_token_ids": True, "stream": False, **body}
    async with httpx.AsyncClient(trust_env=False, timeout=120) as http:
        answer = await http.post(vllm.url + path, json=body)
    assert answer.status_code == 200, answer.text
    [choice] = answer.json()["choices"]
    text = choice["text"] if "text" in choice else choice["message"]["content"]
    return choice["token_ids"], text, choice["finish_reason"], choice.get("prompt_token_ids")


def bridge_to(engine, **options):
    return running(engine, vocabulary=None, find_vocabulary=find_vocabulary, **options)


async def test_vllm_gives_the_ids_bytes_and_text_that_it_gives_unstreamed(model, vllm):
    tokenizer = load_tokenizer(model)
    count = ended = 0
    async with bridge_to(VLLM(check_address(vllm.url))) as bridge:
        for prompt in PROMPTS:
            for seed in SEEDS:
                sampling = {"max_tokens": 120, "temperature": 0 if seed is None else 1}
                sampling |= {} if seed is None else {"seed": seed}
                ids, text, finish, before = await truth_of(vllm, prompt=prompt, **sampling)
                heard = {
                    want: await bridge.converse(prompt=prompt, want=want, params=sampling)
                    for want in ("ids", "bytes", "both")
                }
                count, ended = count + len(ids), ended + (finish == "stop")
                for one in heard.values():
                    reason = "eos" if finish == "stop" else "length"
                    assert isinstance(one.end, Finished), one.end
                    assert (one.end.reason, one.end.note) == (reason, None)
                assert heard["ids"].ids == heard["both"].ids == ids
                said = ids[:-1] if finish == "stop" else ids
                pieces = [tokenizer.vocabulary.token_bytes(i) for i in said]
                assert heard["bytes"].data == b"".join(pieces)
                streamed = "".join(tokenizer.stream(said, before))
                # vLLM holds text back while it ends in U+FFFD, and leaves that out at the end.
                assert streamed.startswith(text), ids
                assert streamed == text or "\ufffd" in streamed[len(text) :], ids
    assert ended
    print(f"vLLM, {len(PROMPTS) * len(SEEDS)} answers, {count} ids, {ended} ended by themselves")


async def test_vllm_takes_messages(vllm):
    messages = [{"role": "user", "content": "hi"}]
    sampling = {"max_tokens": 40, "temperature": 1, "seed": 7}
    ids, *_ = await truth_of(vllm, "/v1/chat/completions", messages=messages, **sampling)
    async with bridge_to(VLLM(check_address(vllm.url))) as bridge:
        heard = await bridge.converse(messages=messages, want="ids", params=sampling)
    assert heard.ids == ids


async def test_the_default_of_max_tokens_is_not_refused(vllm):
    for engine in (VLLM(check_address(vllm.url)), OpenAIServer(check_address(vllm.url))):
        async with bridge_to(engine) as bridge:
            for prompt in ("hi", "hi " * 60):
                heard = await bridge.converse(prompt=prompt, want="bytes", params={"seed": 1})
                assert isinstance(heard.end, Finished), heard.end


async def test_the_check_of_an_engine_finds_no_fault(vllm, model):
    engine = VLLM(check_address(vllm.url))
    await engine.open()
    proof = await prove(engine, load_tokenizer(model).vocabulary, seconds=120)
    await engine.close()
    assert proof.result == "clean", proof
    assert (proof.broken, proof.resumed.equal, proof.repeatable) == (0, True, True), proof


async def test_a_wrong_model_name_is_called_that(vllm):
    engine = VLLM(check_address(vllm.url), model="wrong")
    with pytest.raises(EngineError, match="no model 'wrong', but 'tiny'"):
        await engine.open()
    await engine.close()
    engine = OpenAIServer(check_address(vllm.url), model="wrong")
    async with bridge_to(engine) as bridge:
        heard = await bridge.converse(prompt="hi", want="bytes")
    assert "no model of the name" in heard.end.message


async def test_the_text_route_loses_nothing_without_a_note(vllm, model):
    """vLLM puts U+FFFD where it cannot decode, so there is nothing to note."""
    sampling = {"max_tokens": 60, "temperature": 1, "seed": 1}
    _, text, *_ = await truth_of(vllm, prompt="hi there", **sampling)
    async with bridge_to(OpenAIServer(check_address(vllm.url))) as bridge:
        heard = await bridge.converse(prompt="hi there", want="bytes", params=sampling)
    assert heard.data.decode() == text
    assert heard.end.note is None


def test_vllm_loses_the_ends_of_the_suite_and_nothing_else(tmp_path):
    """What ends in U+FFFD waits, and is dropped when the answer ends."""
    model = write_model(tmp_path / "script")
    positions = json.loads((model / "config.json").read_text("utf-8"))["n_positions"]
    scripted = Served(model, tmp_path / "log", positions)
    scripted.start()
    try:
        asyncio.run(scripted.ready())
        assert failed(scripted.url, scripted.model) == {
            "ids/byte-level/end-in-a-character",
            "ids/byte-level/replacement-at-the-end",
            "ids/byte-level/replacements-many",
            "spans/end-in-a-character",
            "stops/limit-behind-half-a-character",
            "window/half-a-character-at-the-end",
            "window/replacement-character-at-the-end",
        }
    finally:
        scripted.kill()


class DeadlyProxy(CuttingProxy):
    """Forward what a vLLM says up to its twentieth event; then kill and restart it.

    The engine is quicker than its reader, so without the proxy its whole answer can be in the
    buffers of the system when it dies.
    """

    def __init__(self, vllm):
        super().__init__(vllm.port)
        self.vllm, self.events, self.killed = vllm, 0, False

    async def _forward(self, reader, writer, way, passed, cut):
        if way == UP:
            return await super()._forward(reader, writer, way, passed, cut)
        # An event is longer than a piece, so at most one begins in it.
        while piece := await reader.read(128):
            self.events += piece.count(b"data: ")
            if self.events >= 20 and not self.killed:
                self.killed = True
                self.vllm.kill()
                self.vllm.start()
                return None
            writer.write(piece)
            await writer.drain()


async def test_a_killed_vllm_goes_on_with_the_undisturbed_answer(vllm):
    sampling = {"max_tokens": 300, "temperature": 0}
    prompts = [*PROMPTS, *"abcdefghijklmnop"]
    truths = [await truth_of(vllm, prompt=prompt, **sampling) for prompt in prompts]
    # The longest: it is killed in the middle of it.
    at = max(range(len(prompts)), key=lambda i: len(truths[i][0]))
    ids, _, finish, _ = truths[at]
    assert len(ids) > 60

    async with DeadlyProxy(vllm) as proxy:
        engine = VLLM(check_address(f"http://127.0.0.1:{proxy.port}"))
        async with bridge_to(engine, continue_seconds=START_SECONDS) as bridge:
            heard = await bridge.converse(
                prompt=prompts[at], want="ids", params=sampling, seconds=START_SECONDS + 60
            )
    assert isinstance(heard.end, Finished), heard.end
    assert heard.end == Finished(
        "eos" if finish == "stop" else "length", len(ids), heard.end.note
    ), heard.end
    assert "was lost after" in heard.end.note
    assert heard.ids == ids
    print(f"vLLM, killed: {heard.end.note} {len(ids)} ids")
