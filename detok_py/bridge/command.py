"""`detok serve`: an engine, the page, and a WebSocket, on 127.0.0.1 unless asked otherwise.

In: the command line. Out: one line with the URL on stdout when it takes connections, structured lines on stderr. Ctrl-C ends it and
every child.
"""

import argparse
import asyncio
import contextlib
import signal

from .assets import Assets
from .find import find_vocabulary, open_engine, read_tokenizer
from .gate import Gate, check_origin, new_token
from .server import ServeError, Server, application, bind, is_loopback, names_of, set_up_logging
from .stream import Bridge


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `detok serve`."""
    parser.add_argument(
        "--engine",
        default="recite",
        metavar="ENGINE",
        help="recite (llama.cpp with a small model, comes with detok; default), scripted, or the URL of a running engine; "
        "a kind in front of it settles which: vllm+http://127.0.0.1:8000",
    )
    parser.add_argument(
        "--tokenizer",
        metavar="FILE",
        help="tokenizer.json or its folder, *.gguf, *.tiktoken, tekken.json or *.detok, where the engine can't give its own",
    )
    parser.add_argument("--model", metavar="PATH", help="a model file or folder for in-process engines (llama-cpp-python, transformers)")
    parser.add_argument("--port", type=int, default=8765, help="default 8765; 0: a free one")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; beyond this machine a token is asked for")
    parser.add_argument(
        "--public-name", action="append", default=[], metavar="NAME", help="another host name that this bridge is reached by"
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="a page elsewhere that may connect, like http://localhost:3000",
    )
    parser.add_argument("--allow-no-origin", action="store_true", help="let in programs that send no Origin (not browsers)")
    parser.add_argument("--allow-remote-engine", action="store_true", help="let --engine be another machine's")
    parser.add_argument("--max-clients", type=int, default=8, help="WebSockets at a time (default 8)")
    parser.add_argument(
        "--log-level", choices=["debug", "info", "warning"], default="warning", help="what to say on stderr (default warning)"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until a signal; return 0."""
    set_up_logging(args.log_level)
    vocabulary, encode = read_tokenizer(args.tokenizer) if args.tokenizer else (None, None)
    engine = open_engine(args.engine, allow_remote=args.allow_remote_engine, model=args.model, vocabulary=vocabulary)
    try:
        allowed = [check_origin(origin) for origin in args.allow_origin]
    except ValueError as error:
        raise ServeError(f"--allow-origin {error}.") from None
    if not 0 <= args.port <= 65535:
        raise ServeError(f"--port {args.port} is no port; give one from 0 to 65535.")
    if args.max_clients < 1:
        raise ServeError(f"--max-clients {args.max_clients} would let nobody in; give at least 1.")
    sock = bind(args.host, args.port)
    port = sock.getsockname()[1]
    names = names_of(args.host, port, args.public_name)
    # An origin of our own by another name, a tunnel for instance, is a name of ours too.
    names += [origin.partition("//")[2] for origin in allowed]
    token = None if is_loopback(args.host) else new_token()

    async def main() -> None:
        bridge = Bridge(engine, vocabulary=vocabulary, encode=encode, find_vocabulary=find_vocabulary, max_clients=args.max_clients)
        gate = Gate(
            application(bridge, Assets()),
            names,
            allowed=allowed,
            token=token,
            require_origin=not args.allow_no_origin,
            metrics=bridge.metrics,
        )
        server = Server(bridge, gate, sock)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows has no such handlers; Ctrl-C raises there
                loop.add_signal_handler(number, server.stop)
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        if server.started:
            shown = args.host if args.host not in ("0.0.0.0", "::") else "127.0.0.1"
            print(f"detok serves http://{shown}:{port}/", flush=True)
            if token is not None:
                print(f"Beyond this machine it asks for this token (any name, the token as password): {token}", flush=True)
            await bridge.open()
            if bridge.refused is not None:
                server.stop()
                await serving
                raise ServeError(bridge.refused)
            print(f"engine: {engine.info().line}" if bridge.down is None else f"engine: down. {bridge.down}", flush=True)
        await serving

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
    return 0
