"""`detok serve`: serve the page and a WebSocket that streams from an engine.

In: the command line. Out: one line with the URL on stdout once it accepts connections, and log
lines in JSON on stderr. Ctrl-C stops the server and its child processes.
"""

import argparse
from typing import Any


class _OfEngine(argparse.Action):
    """Collects the options of each engine in `engines`, a list of dicts. Options before the first
    --engine belong to the first engine.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Note an option."""
        engines = namespace.engines = list(getattr(namespace, "engines", None) or [{}])
        if self.dest == "engine" and "engine" in engines[-1]:
            engines.append({})
        engines[-1] = {**engines[-1], self.dest: values}


OPTIONS: dict[str, dict[str, Any]] = {
    "--engine": dict(
        action=_OfEngine,
        metavar="[NAME=]ENGINE",
        help="recite (default: llama.cpp with a small model, included in detok), scripted, or the URL of a running engine; "
        "a prefix names its kind: vllm+http://127.0.0.1:8000. Several may be given; clients choose one by its name, "
        "by default the first",
    ),
    "--find": dict(
        action="store_true",
        help="offer the engines that answer on this machine's usual ports too, as `detok engines` lists them",
    ),
    "--tokenizer": dict(
        action=_OfEngine,
        metavar="FILE",
        help="tokenizer.json or its folder, *.model, *.gguf, *.tiktoken, tekken.json, vocab.json, vocab.txt or *.detok, if the engine can't provide its own. "
        "With several engines, this, --model and --context belong to the --engine before them",
    ),
    "--model": dict(
        action=_OfEngine,
        metavar="PATH",
        help="a model file or folder for in-process engines (llama-cpp-python, transformers), or a name that a server lists",
    ),
    "--context": dict(
        action=_OfEngine,
        type=int,
        metavar="TOKENS",
        help="context of llama-cpp-python in tokens (default: the model's own)",
    ),
    "--port": dict(type=int, default=8765, help="default 8765; 0 chooses a free port"),
    "--host": dict(
        default="127.0.0.1", help="address to listen on; clients need a token unless it is loopback"
    ),
    "--public-name": dict(
        action="append",
        default=[],
        metavar="NAME",
        help="another host name by which clients reach this bridge, with a port if it differs",
    ),
    "--allow-origin": dict(
        action="append",
        default=[],
        metavar="ORIGIN",
        help="the origin of another page that may connect, like http://localhost:3000",
    ),
    "--allow-no-origin": dict(
        action="store_true",
        help="accept WebSockets without an Origin header (from programs other than browsers)",
    ),
    "--allow-remote-engine": dict(action="store_true", help="allow an --engine on another machine"),
    "--max-clients": dict(
        type=int, default=8, help="concurrent clients: WebSockets, and answers on /v1 (default 8)"
    ),
    "--continue": dict(
        dest="continue_seconds",
        type=float,
        nargs="?",
        const=60.0,
        default=0.0,
        metavar="SECONDS",
        help="when an engine is lost in mid-answer, wait for it (default 60 s) and continue after the tokens so far, "
        "with llama-server, vLLM and SGLang; a note in the answer says where",
    ),
    "--store": dict(
        metavar="URL",
        help="keep runs in Redis or Valkey (redis://host:6379/0), so that any replica of this bridge resumes any run; default: in memory",
    ),
    "--drain-seconds": dict(
        type=float,
        default=25.0,
        metavar="N",
        help="with --store: how long the answers begun here go on after SIGTERM, while their clients read them at other replicas (default 25)",
    ),
    "--json": dict(action="store_true", help="write stdout as one JSON object per line"),
    "--log-level": dict(
        choices=["debug", "info", "warning"],
        default="warning",
        help="lowest level of the log lines on stderr (default warning)",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `detok serve`."""
    parser.set_defaults(engines=[{}])
    for name, settings in OPTIONS.items():
        parser.add_argument(name, **settings)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal; return 0."""
    # Imported here, so that --help works without the packages of the extra.
    from .serve import serve

    return serve(args)
