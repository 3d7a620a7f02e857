"""`detok engines check`, against llama.cpp and against servers of each kind: sound ones, and ones
that break characters, lose tokens, or go on with another answer.
"""

import asyncio
import itertools
import json
from functools import partial
from pathlib import Path

import pytest
from engine_replay import Answer, Replay, events, ndjson
from test_engine_replay import first_half, served

from detok_py.bridge.engine_check import FEWEST, TEXTS, prove
from detok_py.bridge.engines import EngineError, grammar_of
from detok_py.bridge.find import engine_at
from detok_py.cli import main
from detok_py.decode.vocabulary import Vocabulary

pytestmark = [pytest.mark.native, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
BYTES = Vocabulary.from_bytes([bytes([b]) for b in range(256)])
BY_GRAMMAR = {grammar_of(text): text for text in TEXTS.values()}
WIDE = sum(len(ch.encode()) > 1 for text in TEXTS.values() for ch in text)


class Speaker:
    """What an engine of a kind answers, with a token for each byte.

    `fault` is "" or what it does wrong: "breaks" decodes each token alone, "loses" leaves out ids,
    "forgets" goes on behind other tokens than it was given, "varies" answers otherwise each time,
    "refuses" takes no grammar, "rambles" says something else, "hangs" never ends.
    """

    def __init__(self, kind, fault=""):
        self.kind, self.fault, self.count = kind, fault, 0

    def answers(self):
        model = Answer({"data": [{"id": "/models/tiny"}]})
        tokenize = {("POST", "/tokenize"): self.tokenize}
        version = Answer({"version": "9.9"})
        props = {"default_generation_settings": {}, "build_info": "b1", "model_path": "/m/t.gguf"}
        return {
            "llama": {
                ("GET", "/props"): Answer(props),
                ("GET", "/v1/models"): model,
                **tokenize,
                ("POST", "/completion"): self.llama,
            },
            "vllm": {
                ("GET", "/version"): version,
                ("GET", "/v1/models"): model,
                **tokenize,
                ("POST", "/v1/completions"): self.openai,
            },
            "sglang": {
                ("GET", "/get_model_info"): Answer({"model_path": "tiny"}),
                ("GET", "/get_server_info"): version,
                **tokenize,
                ("POST", "/generate"): self.sglang,
            },
            "tgi": {
                ("GET", "/info"): Answer({"model_id": "tiny", "version": "3"}),
                ("POST", "/generate_stream"): self.tgi,
                ("POST", "/generate"): self.tgi_whole,
            },
            "ollama": {
                ("GET", "/api/version"): version,
                ("GET", "/api/tags"): Answer({"models": [{"name": "tiny:latest"}]}),
                ("POST", "/api/generate"): self.ollama,
            },
            "openai": {
                ("GET", "/v1/models"): model,
                ("POST", "/v1/completions"): self.openai,
            },
        }[self.kind]

    def tokenize(self, body):
        text = body["content"] if self.kind == "llama" else body["prompt"]
        return Answer({"tokens": list(text.encode())})

    def says(self, prompt, most, exactly=None):
        """Return the bytes of the answer, as far as the ids in the prompt do not have them."""
        self.count += 1
        read = prompt.encode() if isinstance(prompt, str) else bytes(prompt)
        _, text, _, before = read.split(b"\n\n")
        text = BY_GRAMMAR[exactly].encode() if exactly else text
        if "rambles" in self.fault:
            text = "I prefer café.".encode()
        if self.fault == "varies":
            text = bytes([65 + self.count % 26]) + text
        at = len(before)
        if at and self.fault == "forgets":
            text = text[:at] + b"?" + text[at:]
        return text[at:][:most]

    def pieces(self, data):
        """Return the text that comes with each token."""
        if "breaks" in self.fault:
            return [data[n : n + 1].decode("utf-8", "replace") for n in range(len(data))]
        known = [data[:n].decode("utf-8", "ignore") for n in range(len(data) + 1)]
        return [after[len(before) :] for before, after in itertools.pairwise(known)]

    def ids(self, data):
        return [[b] for b in data] if self.fault != "loses" else [[b][: b < 0xC0] for b in data]

    def refusal(self, grammar):
        if grammar and self.fault == "refuses":
            return Answer({"error": "no grammar here"}, status=400)
        return None

    def openai(self, body):
        grammar = body.get("structured_outputs", {}).get("grammar")
        data = self.says(body["prompt"], body["max_tokens"], grammar)
        whole = {"text": data.decode("utf-8", "ignore"), "finish_reason": "length", "index": 0}
        if self.kind == "vllm":
            whole["token_ids"] = [i for ids in self.ids(data) for i in ids]
        if not body["stream"]:
            assert "stream_options" not in body
            return Answer({"choices": [whole]})
        values = []
        for text, ids in zip(self.pieces(data), self.ids(data), strict=True):
            one = {"text": text, "index": 0, "finish_reason": None}
            values.append({"choices": [one | ({"token_ids": ids} if self.kind == "vllm" else {})]})
        end = {"text": "", "index": 0, "finish_reason": "length"}
        return self.refusal(grammar) or events(
            *values,
            {"choices": [end | ({"token_ids": []} if self.kind == "vllm" else {})]},
            then="hang" if self.fault == "hangs" else "end",
            done=self.fault != "hangs",
        )

    def llama(self, body):
        data = self.says(body["prompt"], body["n_predict"], body.get("grammar"))
        end = {"content": "", "tokens": [], "stop": True, "stop_type": "limit"}
        end["tokens_predicted"] = len(data)
        if not body["stream"] and "n_probs" not in body:
            return Answer({**end, "tokens": list(data)})
        values, sent = [], 0
        for n, text in enumerate(self.pieces(data), 1):
            if text:
                held = data[sent:n]
                likely = [{"id": b, "token": "", "bytes": [b]} for b in held]
                values.append({"content": text, "tokens": [held[-1]], "tokens_predicted": n})
                values[-1] |= {"stop": False, "completion_probabilities": likely}
                sent = n
        if not body["stream"]:
            likely = [one for value in values for one in value["completion_probabilities"]]
            text = data.decode("utf-8", "ignore")
            return Answer({**end, "content": text, "completion_probabilities": likely})
        return events(*values, end)

    def sglang(self, body):
        params = body["sampling_params"]
        prompt = body.get("text", body.get("input_ids"))
        data = self.says(prompt, params["max_new_tokens"], params.get("ebnf"))
        values = []
        for n in range(1, len(data) + 1):
            finish = {"type": "length"} if n == len(data) else None
            meta = {"completion_tokens": n, "finish_reason": finish}
            text = "".join(self.pieces(data)[:n])
            values.append({"text": text, "output_ids": list(data[:n]), "meta_info": meta})
        whole = values[-1] | {"text": data.decode("utf-8", "ignore")}
        return events(*values, done=True) if body["stream"] else Answer(whole)

    def tgi(self, body):
        data = self.says(body["inputs"], body["parameters"]["max_new_tokens"])
        values = [
            {"token": {"id": b, "text": text, "special": False}, "details": None}
            for b, text in zip(data, self.pieces(data), strict=True)
        ]
        values[-1]["details"] = {"finish_reason": "length", "generated_tokens": len(data)}
        return events(*values)

    def tgi_whole(self, body):
        data = self.says(body["inputs"], body["parameters"]["max_new_tokens"])
        details = {"finish_reason": "length", "tokens": [{"id": b} for b in data]}
        details["generated_tokens"] = len(data)
        return Answer({"generated_text": data.decode("utf-8", "ignore"), "details": details})

    def ollama(self, body):
        exactly = grammar_of(body["format"]["enum"][0]) if "format" in body else None
        most = body["options"]["num_predict"]
        data = self.says(body["prompt"], most, exactly)
        end = {"response": "", "done": True, "done_reason": "length", "eval_count": len(data)}
        if not body["stream"]:
            return Answer({**end, "response": data.decode("utf-8", "ignore")})
        return ndjson(*[{"response": text, "done": False} for text in self.pieces(data)], end)


async def proof_by(kind, answers, vocabulary=BYTES):
    async with served(partial(engine_at, kind), answers) as (engine, _):
        return await prove(engine, vocabulary, seconds=30)


async def proof_of(kind, fault="", vocabulary=BYTES):
    return await proof_by(kind, Speaker(kind, fault).answers(), vocabulary)


@pytest.mark.parametrize("kind", ["llama", "vllm", "sglang"])
async def test_a_sound_engine_of_ids_or_bytes_is_proven_in_all_that_it_gives(kind):
    proof = await proof_of(kind)
    assert (proof.result, proof.broken) == ("clean", 0)
    # It drops what it holds at the end, if that is inside a character.
    assert all("dropped the last 2 tokens" in note for note in proof.notes)
    assert bool(proof.notes) == (kind == "llama")
    for row in proof.rows[:-1]:
        assert (row.asked_by, row.as_asked) == ("grammar", True)
        assert (row.given, row.streamed, row.whole) == ("equal", "equal", "equal"), row
    assert sum([row.split for row in proof.rows[:-1]]) == WIDE
    assert proof.rows[-1].streamed == proof.rows[-1].whole == "equal"
    sent = 62 if kind == "llama" else 64
    assert (proof.resumed.equal, proof.resumed.of, proof.repeatable) == (True, sent, True)
    recovered = {"unknown": 0, "tokens": sent, "equal": True}
    assert proof.ids == (recovered if kind == "llama" else None)
    # llama-server sends whole characters only, so it can't be cut inside one.
    assert proof.resumed.inside_a_character == (kind != "llama")
    assert proof.first_token_ms > 0


@pytest.mark.parametrize("kind", ["tgi", "ollama", "openai"])
async def test_an_engine_that_cannot_resume_is_proven_in_the_rest(kind):
    proof = await proof_of(kind, vocabulary=BYTES if kind == "tgi" else None)
    assert (proof.result, proof.broken) == ("clean", 0)
    asked_by = "grammar" if kind == "ollama" else "prompt"
    for row in proof.rows[:-1]:
        assert (row.asked_by, row.as_asked) == (asked_by, True)
        assert (row.streamed, row.whole) == ("equal", "equal"), row
        assert row.given == ("equal" if kind == "tgi" else "not compared")
    assert proof.resumed.equal is None
    assert "cannot continue" in proof.resumed.why


@pytest.mark.parametrize("kind", ["vllm", "sglang", "ollama"])
async def test_each_character_that_an_engine_breaks_is_counted(kind):
    proof = await proof_of(kind, "breaks", None if kind == "ollama" else BYTES)
    assert proof.result == "faults"
    assert sum([row.broken for row in proof.rows[:-1]]) == WIDE
    assert {row.whole for row in proof.rows[:-1]} == {"equal"}


async def test_ids_without_a_vocabulary_are_not_read():
    proof = await proof_of("vllm", vocabulary=None)
    assert {row.given for row in proof.rows} == {"not compared"}
    assert (proof.result, proof.split, proof.resumed.inside_a_character) == ("clean", None, None)


async def test_ids_that_an_engine_leaves_out_are_missing_in_what_it_gives():
    proof = await proof_of("vllm", "loses")
    assert proof.result == "faults"
    assert proof.rows[0].given == "broken"
    assert proof.rows[0].broken == len(TEXTS["Chinese, Japanese"])


@pytest.mark.parametrize("kind", ["llama", "vllm"])
async def test_a_resumed_answer_that_differs_is_a_fault(kind):
    proof = await proof_of(kind, "forgets")
    assert (proof.result, proof.broken, proof.resumed.equal) == ("faults", 0, False)
    assert proof.resumed.why == f"it differs after token {proof.resumed.after}"


async def test_an_engine_that_answers_otherwise_each_time_is_not_blamed_for_it():
    proof = await proof_of("vllm", "varies")
    assert (proof.result, proof.repeatable, proof.resumed.equal) == ("clean", False, None)
    assert "other tokens" in proof.resumed.why
    assert {row.whole for row in proof.rows} == {"not compared"}


async def test_an_engine_that_refuses_a_grammar_is_asked_by_prompt():
    proof = await proof_of("vllm", "refuses")
    assert proof.result == "clean"
    assert {row.asked_by for row in proof.rows} == {"prompt"}
    refused = "By grammar: The vLLM refused the request (400); check the prompt and the parameters."
    assert proof.notes == [refused]


async def test_a_replaced_character_in_another_text_may_be_the_models_own():
    proof = await proof_of("openai", "rambles breaks", None)
    assert {row.streamed for row in proof.rows[:-1]} == {"unclear"}
    assert (proof.result, proof.broken) == ("nothing proven", 0)


async def test_an_answer_that_is_too_short_is_not_cut():
    short = Speaker("vllm")
    says = short.says
    short.says = lambda prompt, most, exactly=None: says(
        prompt, most if exactly else FEWEST - 1, exactly
    )
    proof = await proof_by("vllm", short.answers())
    assert (proof.resumed.equal, proof.resumed.why) == (None, "the answer is too short to cut")


# --- the command ----------------------------------------------------------------------------------
async def said(capsys, *words):
    """Return the exit code of the command and what it wrote."""
    code = await asyncio.to_thread(main, ["engines", "check", *words])
    out, err = capsys.readouterr()
    return code, out or err


def test_the_included_engine_passes_with_a_table(capsys):
    assert main(["engines", "check", "recite"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("llama.cpp ")
    assert lines[0].endswith(" · recite.gguf · CPU")
    assert [line.split("  ")[0] for line in lines[4:10]] == list(TEXTS)
    assert all(line.split()[-3:] == ["equal"] * 3 for line in lines[4:10])
    assert any(line.startswith("resumed   equal: cut after token ") for line in lines)
    assert lines[-1].startswith("result    clean: 0 of ")
    document = (ROOT / "docs" / "engines.md").read_text("utf-8")
    shown = document.partition("detok engines check http://127.0.0.1:8080\n```")[2].split("```")[1]
    assert [line[:9] for line in shown.splitlines()[1:]] == [line[:9] for line in lines]


async def test_the_json_has_what_an_issue_needs_and_no_address(capsys, tmp_path):
    (tmp_path / "bytes.detok").write_bytes(BYTES.pack())
    async with Replay(Speaker("vllm", "forgets").answers()) as server:
        given = ["--tokenizer", str(tmp_path / "bytes.detok"), "--json"]
        code, out = await said(capsys, server.url, *given)
    assert code == 1
    report = json.loads(out)
    wanted = {"engine": "vLLM", "version": "9.9", "model": "tiny", "device": None}
    assert {key: report[key] for key in wanted} == wanted
    assert report["gives"] == {"prompt": "ids", "messages": "ids"}
    assert report["resumed"]["equal"] is False
    assert (report["result"], report["broken_characters"]) == ("faults", 0)
    assert report["vocabulary"] == {"size": 256, "sha256": BYTES.sha256}
    assert "127.0.0.1" not in out
    assert str(tmp_path) not in out


async def test_a_model_that_says_other_texts_proves_nothing(capsys):
    async with Replay(Speaker("ollama", "rambles").answers()) as server:
        code, out = await said(capsys, server.url)
    assert code == 2
    assert "prompt, other text" in out or "grammar, other text" in out
    assert "nothing proven" in out.splitlines()[-1]


REFUSED = Answer({"error": {"message": "Invalid API Key"}}, status=401)
BAD = {
    "something else": (
        {},
        [],
        "answers like no engine that detok knows; `detok engines` finds those that run",
    ),
    "the page of a chat UI": (
        {("GET", "/props"): Answer(b"<!doctype html><title>Chat</title>", kind="text/html")},
        [],
        "sent something that is not JSON; is it the engine you meant?",
    ),
    "a key": (
        {("GET", "/version"): Answer({"version": "1"}), ("GET", "/v1/models"): REFUSED},
        [],
        "wants a key; put it into the environment as DETOK_ENGINE_API_KEY",
    ),
    "no model": (
        {
            ("GET", "/api/version"): Answer({"version": "1"}),
            ("GET", "/api/tags"): Answer({"models": []}),
        },
        [],
        "Ollama has no model yet; pull one",
    ),
    "a hanging engine": (
        Speaker("vllm", "hangs").answers(),
        ["--timeout", "0.3"],
        "The vLLM did not finish an answer in 0.3 seconds; check whether it hangs, or give it longer with --timeout.",
    ),
}


@pytest.mark.parametrize("name", list(BAD))
async def test_what_cannot_be_checked_is_one_sentence_with_the_way_out(name, capsys):
    answers, words, sentence = BAD[name]
    async with Replay(answers) as server:
        code, out = await said(capsys, server.url, *words)
    assert code == 2
    assert sentence in out
    assert out.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Which engine? Give one address: detok engines check http://127.0.0.1:8080"),
        (["http://127.0.0.1:9/v1"], "No engine answers at http://127.0.0.1:9; start it"),
        (["recite", "--timeout", "0"], "--timeout is 0; expected a number of seconds above 0"),
        (["http://192.0.2.1:8080"], "add --allow-remote-engine"),
        (["recite", "--tokenizer", "/no/such.json"], "No such file"),
    ],
)
def test_words_that_make_no_sense_are_refused(words, sentence, capsys):
    assert main(["engines", "check", *words]) == 2
    assert sentence in capsys.readouterr().err


async def test_a_tokenizer_of_another_model_is_refused(tmp_path, capsys):
    (tmp_path / "other.detok").write_bytes(Vocabulary.from_bytes([b"a", b"b"]).pack())
    async with Replay(Speaker("vllm").answers()) as server:
        code, out = await said(capsys, server.url, "--tokenizer", str(tmp_path / "other.detok"))
    assert code == 2
    assert "The given tokenizer does not match the engine: the engine uses id " in out


async def test_lemonade_is_proven_by_the_llama_server_that_it_runs(capsys):
    async with Replay(Speaker("llama").answers()) as child:
        health = {"all_models_loaded": [], "backend_url": f"{child.url}/v1", "version": "10.2"}
        async with Replay({("GET", "/v1/health"): Answer(health)}) as server:
            code, out = await said(capsys, server.url, "--json")
    report = json.loads(out)
    assert (code, report["engine"], report["version"]) == (0, "Lemonade (llama.cpp)", "10.2")
    assert (report["model"], report["gives"]["prompt"]) == ("t.gguf", "bytes")
    assert report["vocabulary"] is None


async def test_an_engine_that_stops_without_an_end_is_an_error():
    answers, route = Speaker("tgi").answers(), ("POST", "/generate_stream")
    whole = answers[route]
    answers[route] = lambda body: first_half(whole(body), "end")
    with pytest.raises(EngineError, match="ended without an end event"):
        await proof_by("tgi", answers)
