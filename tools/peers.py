"""Run other people's streaming decoders through the conformance suite: `make peers`.

In: the adapters in conformance/adapters/, and the packages that `tools/setup.py peers` installs.
Out: docs/conformance.md, and the verdicts on every case in .build/peers/<adapter>.json. Decoders
run the cases of cases.json, parsers those of formats.json, in chunks of 1 id, of 4 and of all.
"""

import argparse
import datetime
import importlib.util
import json
import lzma
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".build" / "peers"
# vLLM needs other versions of some packages, so it runs in an environment of its own.
ENGINES = ROOT / ".build" / "real-engines" / "venv" / "bin" / "python"
ADAPTERS = ROOT / "conformance" / "adapters"
VERDICTS = ("right", "late", "early", "wrong", "error")
# Python adapters with their functions; JavaScript adapters.
PYTHON = (
    ("detok", "adapter"),
    ("tokenizers_decoders", "stream"),
    ("tokenizers_decoders", "whole"),
    ("transformers_text_streamer", "adapter"),
    ("mlx_lm_detokenizers", "bpe"),
    ("mlx_lm_detokenizers", "spm"),
    ("mlx_lm_detokenizers", "naive"),
    ("tiktoken_decode", "each"),
    ("tiktoken_decode", "whole"),
    ("python_codec", "adapter"),
    # Written from the published rules: neither can be had from a package index.
    ("tokenizers_decoders", "tgi"),
    ("tokenizers_decoders", "dynamo"),
)
# It runs with the project's own packages, where llama.cpp is.
LLAMA = (("llama_server", "adapter"),)
VLLM = (("vllm_detokenizers", "fast"), ("vllm_detokenizers", "slow"))
JAVASCRIPT = (
    "transformers-js",
    "huggingface-tokenizers",
    "gpt-tokenizer",
    "js-tiktoken",
    "text-decoder",
    "text-decoder-alone",
)
PARSERS = ("detok", "transformers_response_parser", "mlx_lm_parsers")
# They run in vLLM's environment, with the packages in .build/parsers.
ENGINE_PARSERS = ("vllm_parsers", "sglang_parsers")
BESIDE = ROOT / ".build" / "parsers"
CHUNKS = {"1": "1", "4": "4", "whole": "all"}
DATA = Path(os.environ.get("DETOK_DATA", ROOT.parent / "shared" / "data"))
O200K = DATA / "tokenizers" / "o200k" / "o200k_base.tiktoken.xz"
NO_O200K = (
    "openai-harmony: it needs the vocabulary file of gpt-oss, o200k_base, which was not found"
)
NO_VLLM = "vLLM (detokenizers and parsers) and SGLang (parsers): they need a CPU build of PyTorch, which was not found"
NO_LLAMA_SERVER = "llama.cpp (llama-server): it needs a wheel of xllamacpp, which was not found"
NO_LLAMA_CPP = (
    "llama-cpp-python: the package index has its sources only, and nothing is compiled here; "
    "`xllamacpp`, which has a wheel, does not export llama.cpp's parsers of formats"
)

HEAD = """\
# Other systems in the conformance suite

Written by `make peers` on {date}, with version {version} of
[the suite](../conformance/README.md), {count} cases, on
{machine}. `make peers` writes it again: it installs the versions below
into `.build/` (some 3 GB, most of it for vLLM) and changes nothing else.

Each system is run as it is published, through an adapter of a few lines in
[conformance/adapters](../conformance/README.md). It takes part only in cases that it has an
interface for: a decoder of bytes in those of bytes, a decoder of whole texts in those without
prompts, a parser in those of the formats that it reads. So rows have different numbers of cases,
and their counts are not a ranking. Many of these systems do what they are for: one that prints
words is late by design, one that decodes whole texts shows U+FFFD until a character is whole, one
that returns a call at its end is late in every case with a call. Two rows, which say so, are rules
that were rewritten from published source code, because no package index has the programs.
llama.cpp's server gets a model that says the ids of the cases
([conformance/http](../conformance/README.md#over-http)).

| verdict | meaning |
|---|---|
| right | after every push exactly the text that is certain |
| late | the same text, some of it later |
| early | the same text, but some was shown before it was certain |
| wrong | another text at the end |
| error | an error |

## Decoders

| system | what it is for | cases | right | late | early | wrong | error |
|---|---|--:|--:|--:|--:|--:|--:|
"""
FORMATS = """
## Parsers of formats

The ids of an answer go in one by one, four at once, or all at once, as from engines that decode
several tokens in a step. The parsers' functions for streams are run, not those for whole texts. A
system takes no part in cases about a policy that it is free to choose, such as what becomes of a
call of an unknown tool. If a parser needs tokens that the suite's small vocabulary lacks, its
adapter leaves the format out.

| system | ids at once | cases | right | late | early | wrong | error |
|---|--:|--:|--:|--:|--:|--:|--:|
"""
EXAMPLES = """
## Examples

How many cases of each system have a verdict, and the first of them with the first difference. For
parsers: early, wrong or error, with ids one by one. After `make peers`, `.build/peers/` has the
verdicts on every case.
"""


def environment() -> dict[str, str]:
    found = {**os.environ, "PYTHONPATH": str(ROOT), "TRANSFORMERS_VERBOSITY": "error"}
    return found | {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_LOGGING_LEVEL": "ERROR"}


def has_llama() -> bool:
    return importlib.util.find_spec("xllamacpp") is not None


def run_decoders() -> list[dict]:
    """Run every decoder; return what the runners wrote."""
    documents = []
    cases = str(ROOT / "conformance" / "cases.json")
    for name, function in PYTHON + LLAMA * has_llama() + VLLM * ENGINES.exists():
        out = HOME / f"{name}-{function}.json"
        adapter = f"{ADAPTERS / name}.py:{function}"
        python = HOME / "venv" / "bin" / "python"
        if (name, function) in LLAMA + VLLM:
            python = ENGINES if (name, function) in VLLM else Path(sys.executable)
        command = [str(python), "-m", "detok_py", "conformance", "--adapter", adapter]
        command += ["--cases", cases, "--json", str(out)]
        documents.append(run(command, out, environment()))
    # Node looks for packages beside the file that imports them.
    copies = HOME / "adapters"
    shutil.rmtree(copies, ignore_errors=True)
    shutil.copytree(ADAPTERS, copies)
    program = str(ROOT / "web" / "bin" / "detok-web.mjs")
    for name in JAVASCRIPT:
        out = HOME / f"{name}.json"
        command = ["node", program, "conformance", str(copies / f"{name}.mjs")]
        documents.append(run([*command, "--json", str(out)], out, environment()))
    return documents


def run_parsers() -> list[dict]:
    """Run every parser, in chunks of each size; return what the runners wrote."""
    known, names = environment(), list(PARSERS)
    if O200K.exists():
        folder = HOME / "encodings"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / O200K.stem).write_bytes(lzma.decompress(O200K.read_bytes()))
        known["TIKTOKEN_ENCODINGS_BASE"] = str(folder)
        names.append("openai_harmony_parser")
    documents = []
    for name in names + list(ENGINE_PARSERS if ENGINES.exists() and BESIDE.exists() else ()):
        engine = name in ENGINE_PARSERS
        python = ENGINES if engine else HOME / "venv" / "bin" / "python"
        path = os.pathsep.join([str(ROOT), *([str(BESIDE)] if engine else [])])
        for chunk in CHUNKS:
            out = HOME / f"{name}-{chunk}.json"
            adapter = f"{ADAPTERS / name}.py:adapter"
            command = [str(python), "-m", "detok_py", "conformance", "--adapter", adapter]
            command += ["--only", "formats/", "--chunk", chunk, "--json", str(out)]
            documents.append(run(command, out, known | {"PYTHONPATH": path}))
    return documents


def run(command: list[str], out: Path, environment: dict[str, str]) -> dict:
    out.unlink(missing_ok=True)
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600
    )
    if done.returncode not in (0, 1) or not out.exists():
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    document = json.loads(out.read_text("utf-8"))
    print(f"{document['system']}: {told(document['totals']['all'])}", flush=True)
    return document


def told(counts: dict[str, int]) -> str:
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])


def cells(document: dict) -> str:
    counts = document["totals"]["all"]
    numbers = [sum(counts[verdict] for verdict in VERDICTS), *(counts[v] for v in VERDICTS)]
    return " | ".join(str(number or "·") for number in numbers) + " |\n"


def examples(document: dict, verdicts: tuple[str, ...], what: str = "") -> str:
    """Return the first case with each of these verdicts."""
    text = f"\n**{document['system']}{what}**\n\n"
    lines = []
    for verdict in verdicts:
        rows = [case for case in document["cases"] if case["verdict"] == verdict]
        if rows:
            why = rows[0]["why"].replace("`", "'").replace("\n", " ")[:160]
            lines.append(f"- {verdict} {len(rows)}: `{rows[0]['case']}`: `{why}`\n")
    return text + "".join(lines) if lines else ""


def page(decoders: list[dict], parsers: list[dict], date: str) -> str:
    """Return the page."""
    first = decoders[0]
    machine = f"{platform.system()} {platform.machine()}, CPython {platform.python_version()}"
    count = len(first["cases"]) + len(parsers[0]["cases"])
    text = HEAD.format(date=date, version=first["suite"], count=count, machine=machine)
    for document in decoders:
        text += f"| {document['system']} | {document['purpose']} | {cells(document)}"
    text += FORMATS
    for document in parsers:
        text += f"| {document['system']} | {CHUNKS[str(document['chunk'])]} | {cells(document)}"
    text += "\nLeft out, because they could not be installed:\n\n"
    missing = (
        [NO_LLAMA_CPP]
        + [NO_LLAMA_SERVER] * (not has_llama())
        + [NO_VLLM] * (not ENGINES.exists())
        + [NO_O200K] * (not O200K.exists())
    )
    text += "".join(f"- {each}\n" for each in missing)
    text += EXAMPLES
    for document in decoders:
        text += examples(document, VERDICTS[1:])
    for document in parsers:
        if document["chunk"] == 1:
            text += examples(document, VERDICTS[2:], ", ids one by one")
    return text


def main() -> int:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    (ROOT / "docs" / "conformance.md").write_text(
        page(run_decoders(), run_parsers(), date), "utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
