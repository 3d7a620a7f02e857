"""All measurements, several rounds of them, and the page that shows them: `make bench`.

    .venv/bin/python -m benchmarks [--rounds 3] [--only NAME]

In: the scripts of this folder, which print one JSON object a line. They run by turns, round by
round, so that what else the machine does meets all of them. Out: .build/bench/rows.json, with the
round in each row; docs/benchmarks.md and its plots, which report.py makes of it.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import distributions, version
from pathlib import Path

from .rows import DATA, ROOT

OUT = ROOT / ".build" / "bench"
PEERS = ROOT / ".build" / "peers" / "venv" / "bin" / "python"
# vLLM has an environment of its own, with what is installed beside it.
ENGINES = ROOT / ".build" / "real-engines" / "venv" / "bin" / "python"
BESIDE = ROOT / ".build" / "parsers"
PEERS_PYTHON = ("tokenizers", "transformers", "mlx-lm", "tiktoken", "uvicorn", "wsproto")
PEERS_NODE = ("@huggingface/tokenizers", "@huggingface/transformers", "gpt-tokenizer")
# Script and words. `streamers`, `formats` and the plots need the packages of `make peers`.
SCRIPTS: dict[str, list[str]] = {
    "streamers": [],
    "encode": ["--runs", "1", "--only", "gpt2", "llama2", "gemma2"],
    "formats": [],
    "growth": [],
    "in_browsers": [],
    "package": ["--runs", "1"],
    "new_pages": ["--runs", "1"],
    "opening": ["--runs", "1"],
    "bridge": ["--clients", "50", "--seconds", "5"],
    "watcher": ["--runs", "1", "--pace", "100 a frame"],
}


def processor() -> str:
    """Return the name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def peers() -> str:
    """Return the names and versions of what is measured beside detok."""
    venv = PEERS.parents[1]
    paths = [*sys.path, *map(str, venv.glob("lib/python*/site-packages"))]
    found = {each.name.lower(): each.version for each in distributions(path=paths)}
    for name in PEERS_NODE:
        package = json.loads((venv.parent / "node_modules" / name / "package.json").read_text())
        found[name] = package["version"]
    return ", ".join(f"{name} {found[name]}" for name in (*PEERS_PYTHON, *PEERS_NODE))


def machine() -> dict[str, str]:
    """Return what was measured on: names and versions, and how busy the machine was."""
    node = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip()
    distribution = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    busy = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    return {
        "Date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "Processor": f"{processor()}, {os.cpu_count()} cores",
        "System": f"{platform.system()}, {distribution}",
        "Python": platform.python_version(),
        "Node": node.removeprefix("v"),
        "detok_py": version("detok_py"),
        "Beside it": peers(),
        "Load at the start (1, 5 and 15 minutes)": busy,
    }


def run(name: str, words: list[str], number: int) -> list[dict]:
    """Run a script; return its rows. What it prints beside them goes to stderr."""
    began = time.monotonic()
    program = {"streamers": PEERS, "formats": ENGINES}.get(name, sys.executable)
    command = [str(program), "-m", f"benchmarks.{name}", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRANSFORMERS_VERBOSITY": "error"}
    if name == "formats":
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(BESIDE)])
        environment |= {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, timeout=1800
    )
    if done.returncode:
        raise SystemExit(f"benchmarks.{name} failed")
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    took = time.monotonic() - began
    print(f"round {number}, {name}: {len(rows)} rows in {took:.0f} s", flush=True)
    return [{**row, "script": name, "round": number} for row in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often each script runs (3)")
    parser.add_argument(
        "--only",
        choices=SCRIPTS,
        action="append",
        help="these scripts; keeps the rows of the others",
    )
    given = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    file = OUT / "rows.json"
    names = given.only or list(SCRIPTS)
    if "encode" in names and not DATA.is_dir():
        print("encode is left out: the large test data is not here (set DETOK_DATA to its folder)")
        names.remove("encode")
    if "formats" in names and not (ENGINES.exists() and BESIDE.exists()):
        print("formats is left out: vLLM and the parsers beside it could not be installed")
        names.remove("formats")
    document = {"machine": machine(), "rows": []}
    if given.only and file.exists():
        kept = json.loads(file.read_text("utf-8"))["rows"]
        document["rows"] = [row for row in kept if row["script"] not in names]
    for number in range(1, given.rounds + 1):
        for name in names:
            document["rows"] += run(name, SCRIPTS[name], number)
            file.write_text(json.dumps(document, ensure_ascii=False, indent=0), "utf-8")
    command = [str(PEERS), "-m", "benchmarks.report", str(file)]
    return subprocess.run(command, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
