"""`detok engines`: list the engines that answer on this machine, with their fidelity.
`detok engines check URL`: prove that one of them gives whole characters.

In: URLs, by default the usual ports. Out: one line per engine on stdout (JSON with --json); exit
code 0 if one was found, 1 if none. Only loopback is probed unless allowed, nothing is generated,
and the timeout is two seconds per request.

`check` generates at most about 900 tokens, and writes a table (one JSON object with --json); exit
code 0 if nothing was broken, 1 if something was, 2 if that could not be found out.
"""

import argparse
import asyncio
import json
import sys
from typing import Any, NamedTuple

from .engines import EngineError
from .engines.address import AddressError, check_address

# The default port of each engine.
PORTS = {
    8080: "llama-server, TGI in a container",
    8000: "vLLM, Lemonade",
    30000: "SGLang",
    3000: "TGI",
    11434: "Ollama",
    1234: "LM Studio",
    13305: "Lemonade",
    5000: "text-generation-webui",
    8081: "llama-server, a second one",
    9090: "zinc",
}
URLS = "[check] URL"  # metavar
MEANING = {
    "ids": "exact token ids",
    "bytes": "exact bytes; ids where they can be recovered",
    "text": "text decoded by the engine, with its losses",
}


class Seen(NamedTuple):
    """An engine that answered."""

    url: str
    kind: str
    line: str
    model: str | None
    fidelity: str
    ready: str | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `detok engines`."""
    parser.add_argument(
        "urls",
        nargs="*",
        metavar=URLS,
        help="URLs to probe (default: the usual ports of 127.0.0.1); "
        "behind the word `check`, one engine to prove: a URL, with its kind as in `detok serve --engine`, or recite",
    )
    parser.add_argument(
        "--json", action="store_true", help="write JSON: one object per line; check: one object"
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="check: a model that the engine lists (default: the first), or the folder for transformers",
    )
    parser.add_argument(
        "--tokenizer",
        metavar="FILE",
        help="check: the engine's tokenizer, if it gives ids and its files are not on this machine",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="check: how long an answer of at most 128 tokens may take (default 120)",
    )
    parser.add_argument(
        "--allow-remote-engine", action="store_true", help="allow URLs of other machines"
    )


def run(args: argparse.Namespace) -> int:
    """Probe the URLs and print the engines that were found, or check one."""
    if args.urls[:1] == ["check"]:
        return check(args)
    urls = args.urls or [f"http://127.0.0.1:{port}" for port in PORTS]
    found = asyncio.run(probe(urls, allow_remote=args.allow_remote_engine, named=bool(args.urls)))
    for seen in found:
        print(json.dumps(seen._asdict(), ensure_ascii=False) if args.json else line_of(seen))
    if not found and not args.json:
        where = (
            "at these URLs"
            if args.urls
            else "on the usual ports of 127.0.0.1 (" + ", ".join(str(port) for port in PORTS) + ")"
        )
        print(
            f"No engine answers {where}. Start one, for example: llama-server -m model.gguf --port 8080"
        )
    return 0 if found else 1


def check(args: argparse.Namespace) -> int:
    """Prove an engine, and print what was found. Raises EngineError or AddressError."""
    if len(args.urls) != 2:
        raise EngineError(
            "Which engine? Give one address: detok engines check http://127.0.0.1:8080; `detok engines` finds those that run."
        )
    if not args.timeout > 0:
        raise EngineError(f"--timeout is {args.timeout:g}; expected a number of seconds above 0.")
    # These need the packages of the extra, which the help doesn't.
    from .engine_report import as_json, as_table
    from .find import open_engine, read_tokenizer

    found = read_tokenizer(args.tokenizer) if args.tokenizer else None
    engine = open_engine(args.urls[1], allow_remote=args.allow_remote_engine, model=args.model)
    what = asyncio.run(_prove(engine, found, args.timeout))
    print(
        json.dumps(as_json(*what), ensure_ascii=False, indent=2) if args.json else as_table(*what)
    )
    return {"clean": 0, "faults": 1}.get(what[-1].result, 2)


async def _prove(engine: Any, found: Any, seconds: float) -> Any:
    """Return what an engine says about itself, its version, its vocabulary, and the proof."""
    from .engine_check import prove
    from .find import find_vocabulary

    try:
        await engine.open()
        if found is None:
            found = await find_vocabulary(engine)
        elif (refusal := await engine.refuse_vocabulary(found.vocabulary)) is not None:
            raise EngineError(
                f"The given tokenizer does not match the engine: {refusal}; pass the engine's own tokenizer, or none."
            )
        vocabulary = None if found is None else found.vocabulary
        version = await engine.version() if hasattr(engine, "version") else None
        proof = await prove(engine, vocabulary, seconds=seconds, say=_say)
        return engine.info(), version, vocabulary, proof
    finally:
        await engine.close()


def _say(step: str) -> None:
    """Show in a terminal which text a slow engine is asked for."""
    if sys.stderr.isatty():
        print(f"asking for: {step}", file=sys.stderr)


def line_of(seen: Seen) -> str:
    """Return an engine as a line for people.

    >>> line_of(
    ...     Seen(
    ...         "http://127.0.0.1:8080",
    ...         "llama",
    ...         "llama.cpp server · device not reported",
    ...         "m.gguf",
    ...         "bytes",
    ...         None,
    ...     )
    ... )
    'http://127.0.0.1:8080  llama.cpp server · device not reported · m.gguf · bytes: exact bytes;
    ids where they can be recovered'
    """
    parts = [
        seen.line,
        *([seen.model] if seen.model else []),
        f"{seen.fidelity}: {MEANING[seen.fidelity]}",
    ]
    return f"{seen.url}  " + " · ".join(parts) + (f" · {seen.ready}" if seen.ready else "")


async def probe(urls: list[str], *, allow_remote: bool = False, named: bool = False) -> list[Seen]:
    """Return the engines that answer at `urls`, probed concurrently.

    If the user `named` them, they are sent the API key of the environment, and a URL that is not
    allowed raises AddressError.
    """
    seen = await asyncio.gather(
        *[_probe_one(url, allow_remote, named) for url in urls], return_exceptions=True
    )
    out = []
    for one in seen:
        # A package of the extra may be missing.
        if isinstance(one, ModuleNotFoundError) or (isinstance(one, AddressError) and named):
            raise one
        if isinstance(one, Seen):
            out.append(one)
    return out


async def _probe_one(url: str, allow_remote: bool, named: bool) -> Seen | None:
    from .find import (  # needs the packages of the extra; --help does not
        engine_at,
        recognise,
    )

    address = check_address(url, allow_remote=allow_remote, named=named)
    kind = await recognise(address)
    if kind is None:
        return None
    engine: Any = engine_at(kind, address, allow_remote=allow_remote)
    ready = None
    try:
        await asyncio.wait_for(engine.open(), 5.0)
    except EngineError as error:
        ready = str(error)
    except TimeoutError:
        ready = "it answers slowly"
    info = engine.info()
    await engine.close()
    return Seen(address.shown, kind, info.line, info.model, info.fidelity, ready)
