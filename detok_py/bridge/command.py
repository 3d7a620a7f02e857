"""`detok serve`: serve the page and a WebSocket that streams from an engine.

In: the command line. Out: one line with the URL on stdout once it accepts connections, and log
lines in JSON on stderr. Ctrl-C stops the server and its child processes.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import os
import re
import signal
from typing import Any


class _OfEngine(argparse.Action):
    """Collects the options of each engine in `engines`, a list of dicts. An option before the first
    --engine is of the first.
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `detok serve`."""
    parser.set_defaults(engines=[{}])
    parser.add_argument(
        "--engine",
        action=_OfEngine,
        metavar="[NAME=]ENGINE",
        help="recite (default: llama.cpp with a small model, included in detok), scripted, or the URL of a running engine; "
        "a prefix names its kind: vllm+http://127.0.0.1:8000. Several may be given; clients choose one by its name, "
        "by default the first",
    )
    parser.add_argument(
        "--find",
        action="store_true",
        help="offer the engines that answer on this machine's usual ports too, as `detok engines` lists them",
    )
    parser.add_argument(
        "--tokenizer",
        action=_OfEngine,
        metavar="FILE",
        help="tokenizer.json or its folder, *.gguf, *.tiktoken, tekken.json or *.detok, if the engine can't provide its own. "
        "With several engines, this, --model and --context are of the --engine before them",
    )
    parser.add_argument(
        "--model",
        action=_OfEngine,
        metavar="PATH",
        help="a model file or folder for in-process engines (llama-cpp-python, transformers), or a name that a server lists",
    )
    parser.add_argument(
        "--context",
        action=_OfEngine,
        type=int,
        metavar="TOKENS",
        help="context of llama-cpp-python in tokens (default: the model's own)",
    )
    parser.add_argument(
        "--port", type=int, default=8765, help="default 8765; 0 chooses a free port"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; clients need a token unless it is loopback",
    )
    parser.add_argument(
        "--public-name",
        action="append",
        default=[],
        metavar="NAME",
        help="another host name by which clients reach this bridge, with a port if it is another one",
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="the origin of another page that may connect, like http://localhost:3000",
    )
    parser.add_argument(
        "--allow-no-origin",
        action="store_true",
        help="accept WebSockets without an Origin header (from programs other than browsers)",
    )
    parser.add_argument(
        "--allow-remote-engine", action="store_true", help="allow an --engine on another machine"
    )
    parser.add_argument(
        "--max-clients", type=int, default=8, help="concurrent WebSockets (default 8)"
    )
    parser.add_argument(
        "--continue",
        dest="continue_seconds",
        type=float,
        nargs="?",
        const=60.0,
        default=0.0,
        metavar="SECONDS",
        help="when an engine is lost in mid-answer, wait for it (default 60 s) and go on behind the tokens so far, "
        "with llama-server, vLLM and SGLang; a note of the answer says where",
    )
    parser.add_argument(
        "--store",
        metavar="URL",
        help="keep runs in Redis or Valkey (redis://host:6379/0), so that any replica of this bridge resumes any run; default: in memory",
    )
    parser.add_argument(
        "--drain-seconds",
        type=float,
        default=25.0,
        metavar="N",
        help="with --store: how long the answers begun here go on after SIGTERM, while their clients read them at other replicas (default 25)",
    )
    parser.add_argument(
        "--json", action="store_true", help="write what it says on stdout as JSON, a line each"
    )
    parser.add_argument(
        "--log-level",
        choices=["debug", "info", "warning"],
        default="warning",
        help="lowest level of the log lines on stderr (default warning)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until a signal; return 0."""
    # Imported here, so that the help needs none of the packages of the extra.
    from .assets import Assets
    from .engines_command import PORTS
    from .find import attach_engine, finder, read_tokenizer
    from .gate import Gate, check_origin, new_token
    from .redis_store import RedisStore
    from .server import (
        ServeError,
        Server,
        application,
        bind,
        bracketed,
        is_loopback,
        names_of,
        set_up_logging,
    )
    from .stream import Bridge

    set_up_logging(args.log_level)
    engines = [
        attach_engine(
            one.get("engine", "recite"),
            allow_remote=args.allow_remote_engine,
            model=one.get("model"),
            context=max(0, one.get("context", 0)),
            tokenizer=read_tokenizer(one["tokenizer"]) if "tokenizer" in one else None,
        )
        for one in args.engines
    ]
    names = [attached.name for attached in engines]
    for name in names:
        if names.count(name) > 1:
            raise ServeError(
                f"Two engines have the name {name!r}; give one another name, like --engine other={name}."
            )
    try:
        allowed = [check_origin(origin) for origin in args.allow_origin]
    except ValueError as error:
        raise ServeError(f"--allow-origin {error}.") from None
    if not 0 <= args.port <= 65535:
        raise ServeError(f"--port is {args.port}; expected 0 to 65535.")
    if args.max_clients < 1:
        raise ServeError(f"--max-clients is {args.max_clients}; expected at least 1.")
    sock = bind(args.host, args.port)
    port = sock.getsockname()[1]
    try:
        hosts = names_of(args.host, port, args.public_name)
    except ServeError:
        sock.close()
        raise
    given = os.environ.get("DETOK_TOKEN") or None
    token = given if given or is_loopback(args.host) else new_token()
    if given is not None and not re.fullmatch(r"[A-Za-z0-9_-]{16,128}", given):
        sock.close()
        raise ServeError("DETOK_TOKEN must be 16 to 128 letters, digits, - or _.")

    usual = [f"http://127.0.0.1:{one}" for one in PORTS if one != port]

    def say(line: str, /, **fields: Any) -> None:
        print(json.dumps(fields) if args.json else line, flush=True)

    async def main() -> None:
        bridge = Bridge(
            engines,
            find=finder(engines, usual) if args.find else None,
            max_clients=args.max_clients,
            continue_seconds=args.continue_seconds,
            store=RedisStore(args.store) if args.store else None,
        )
        assets = Assets()
        gate = Gate(
            application(bridge, assets),
            hosts,
            allowed=allowed,
            token=token,
            require_origin=not args.allow_no_origin,
            metrics=bridge.metrics,
        )
        server = Server(bridge, gate, sock)
        loop = asyncio.get_running_loop()
        draining: list[asyncio.Task[None]] = []

        def terminate() -> None:
            # Where the runs are in memory, no other replica could go on with them.
            if not args.store or draining:
                return server.stop()
            draining.append(asyncio.create_task(server.drain(args.drain_seconds)))

        for number, handler in ((signal.SIGINT, server.stop), (signal.SIGTERM, terminate)):
            with contextlib.suppress(
                NotImplementedError
            ):  # not on Windows, where Ctrl-C raises KeyboardInterrupt
                loop.add_signal_handler(number, handler)
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        if server.started:
            shown = args.host if args.host not in ("0.0.0.0", "::") else "127.0.0.1"
            url = f"http://{bracketed(shown)}:{port}/"
            say(f"detok serves {url}", url=url)
            if token is not None and given is None:
                say(
                    f"Clients need this token (log in with any user name and the token as password): {token}",
                    token=token,
                )
            reading = asyncio.create_task(asyncio.to_thread(assets.read_ahead))
            # A signal must not wait for an engine that hangs.
            opening = asyncio.create_task(bridge.open())
            await asyncio.wait({opening, serving}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                opening.cancel()
                return await serving
            for attached in bridge.engines:
                if attached.refused is not None:
                    server.stop()
                    await serving
                    raise ServeError(attached.refused)
                name = f" {attached.name}" if len(bridge.engines) > 1 else ""
                line = attached.engine.info().line
                state = line if attached.unready is None else f"down. {attached.unready}"
                say(
                    f"engine{name}: {state}",
                    engine=attached.name,
                    line=line,
                    down=attached.unready,
                )
            # What is there now stays: a garbage collection that looks at it would stop all clients
            # for longer than a token takes.
            gc.collect()
            gc.freeze()
            await reading
        await serving

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
    return 0
