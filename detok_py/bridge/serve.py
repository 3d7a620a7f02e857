"""`detok serve`: attach engines, listen, print the address, and serve until a signal.

In: the options of the command line, as one value. Out: a running bridge.
"""

import argparse
import asyncio
import contextlib
import ctypes
import gc
import json
import logging
import os
import re
import signal
import socket
from typing import Any, NamedTuple

from .assets import Assets
from .attached import AttachedEngine
from .engines_command import PORTS
from .find import attach_engine, finder, read_tokenizer
from .gate import Gate, forms_of_origin, new_token
from .jobs import fault_of
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

log: logging.Logger = logging.getLogger("detok.bridge")

M_MMAP_THRESHOLD = -3  # of <malloc.h>
RETURN_SECONDS = 20.0


class Listening(NamedTuple):
    """Where a bridge listens, and who may connect. `made_token` is set if the user gave none."""

    sock: socket.socket
    hosts: list[str]
    origins: list[str]
    token: str | None
    made_token: str | None


def serve(args: argparse.Namespace) -> int:
    """Serve until a signal; return 0. Raises ServeError for invalid options."""
    set_up_logging(args.log_level)
    _return_large_blocks()
    engines = _attach_engines(args)
    listening = _listen(args)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(args, engines, listening))
    return 0


def _return_large_blocks() -> None:
    """Make glibc return freed blocks of 128 KiB or more to the system. By default this threshold
    grows to the largest block that was ever freed.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another libc
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 128 << 10)


def log_fault(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log the place of an error that nothing has caught. asyncio would print its message, which may
    have content.
    """
    error = context.get("exception")
    log.error("loop_fault", extra={"fields": fault_of(error) if error is not None else {}})


async def return_memory(bridge: Bridge) -> None:
    """Return memory that is not used any more to the system, from time to time.

    Without it, an idle bridge keeps what 900 downloads at once have taken. Python collects lost
    connections only when others come, and glibc keeps blocks until they are at the end of its heap.
    """
    trim: Any = None
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another libc
        trim = ctypes.CDLL(None).malloc_trim
    while True:
        await asyncio.sleep(RETURN_SECONDS)
        if not bridge.jobs:  # a busy bridge collects by itself, and this would hold up its clients
            gc.collect()
        if trim is not None:
            await asyncio.to_thread(trim, 0)  # 40 MB take 6 ms, nothing takes 0.1


def _context(one: dict[str, Any]) -> int:
    """Return the --context of an engine's options; 0 is the model's own. Raises ServeError if it
    would not be used.
    """
    tokens: int = one.get("context", 0)
    if tokens < 0:
        raise ServeError(f"--context is {tokens}; expected at least 0.")
    if tokens and one.get("engine", "recite").rpartition("=")[2] != "llama-cpp-python":
        raise ServeError("--context is for --engine llama-cpp-python; drop it.")
    return tokens


def _attach_engines(args: argparse.Namespace) -> list[AttachedEngine]:
    engines = [
        attach_engine(
            one.get("engine", "recite"),
            allow_remote=args.allow_remote_engine,
            model=one.get("model"),
            context=_context(one),
            tokenizer=read_tokenizer(one["tokenizer"]) if "tokenizer" in one else None,
        )
        for one in args.engines
    ]
    names = [attached.name for attached in engines]
    for at, name in enumerate(names):
        if name in names[:at]:
            engine = args.engines[at].get("engine", "recite").removeprefix(f"{name}=")
            raise ServeError(
                f"Two engines have the name {name!r}; give one another name, like --engine other={engine}."
            )
    return engines


def _check_numbers(args: argparse.Namespace) -> None:
    """Raise ServeError if a number is outside the range of its option."""
    if not 0 <= args.port <= 65535:
        raise ServeError(f"--port is {args.port}; expected 0 to 65535.")
    if args.max_clients < 1:
        raise ServeError(f"--max-clients is {args.max_clients}; expected at least 1.")
    seconds = {"--continue": args.continue_seconds, "--drain-seconds": args.drain_seconds}
    for option, value in seconds.items():
        if not value >= 0:  # NaN too
            raise ServeError(f"{option} is {value:g}; expected 0 or more seconds.")


def _listen(args: argparse.Namespace) -> Listening:
    try:
        origins = [form for one in args.allow_origin for form in forms_of_origin(one)]
    except ValueError as error:
        raise ServeError(f"--allow-origin {error}.") from None
    _check_numbers(args)
    if not args.host:  # a socket would listen on all addresses
        raise ServeError("--host is empty; give an address of this machine, like 127.0.0.1.")
    given = os.environ.get("DETOK_TOKEN") or None
    sock = bind(args.host, args.port)
    try:
        hosts = names_of(args.host, sock.getsockname()[1], args.public_name)
        for name in args.public_name:
            host, _, port = name.rpartition(":")
            if (host or name).isdecimal():
                raise ServeError(
                    f"--public-name {name!r} is a number; expected a host name, like detok.example or detok.example:443."
                )
            if host and port.isdecimal() and not 1 <= int(port) <= 65535:
                raise ServeError(f"--public-name {name!r} has port {port}; expected 1 to 65535.")
        if given is not None and not re.fullmatch(r"[A-Za-z0-9_-]{16,128}", given):
            raise ServeError("DETOK_TOKEN must be 16 to 128 letters, digits, - or _.")
    except ServeError:
        sock.close()
        raise
    # Behind a public name, a proxy may let anybody in.
    public = [name.rpartition(":")[0] or name for name in args.public_name]
    private = all(is_loopback(host.strip("[]").lower()) for host in [args.host, *public])
    made = None if given or private else new_token()
    return Listening(sock, hosts, origins, given or made, made)


async def _serve(
    args: argparse.Namespace, engines: list[AttachedEngine], listening: Listening
) -> None:
    asyncio.get_running_loop().set_exception_handler(log_fault)
    assets = Assets()
    bridge = _bridge(args, engines, listening)
    gate = Gate(
        application(bridge, assets),
        listening.hosts,
        allowed=listening.origins,
        token=listening.token,
        require_origin=not args.allow_no_origin,
        metrics=bridge.metrics,
    )
    server = Server(bridge, gate, listening.sock)
    _handle_signals(args, server)
    serving = asyncio.create_task(server.serve())
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    if server.started:
        _say_where(args, listening)
        reading = asyncio.create_task(asyncio.to_thread(assets.read_ahead))
        # A signal must not wait for an engine that hangs.
        opening = asyncio.create_task(bridge.open())
        await asyncio.wait({opening, serving}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done() or opening.cancelled():  # a signal stops both
            opening.cancel()
            return await serving
        if opening.exception() is not None:
            server.stop()
            await serving
            opening.result()
        for attached in bridge.engines:
            if attached.refused is not None:
                server.stop()
                await serving
                raise ServeError(attached.refused)
            _say_engine(args, attached, several=len(bridge.engines) > 1)
        # What exists now stays. Garbage collections that scan it would pause all clients for longer
        # than a token takes.
        gc.collect()
        gc.freeze()
        await reading
    returning = asyncio.create_task(return_memory(bridge))
    try:
        await serving
    finally:
        returning.cancel()


def _bridge(
    args: argparse.Namespace, engines: list[AttachedEngine], listening: Listening
) -> Bridge:
    port = listening.sock.getsockname()[1]
    usual = [f"http://127.0.0.1:{one}" for one in PORTS if one != port]
    return Bridge(
        engines,
        find=finder(engines, usual) if args.find else None,
        max_clients=args.max_clients,
        continue_seconds=args.continue_seconds,
        store=RedisStore(args.store) if args.store else None,
    )


def _handle_signals(args: argparse.Namespace, server: Server) -> None:
    loop = asyncio.get_running_loop()
    draining: list[asyncio.Task[None]] = []

    def terminate() -> None:
        # Runs in memory cannot continue at another replica.
        if not args.store or draining:
            return server.stop()
        draining.append(asyncio.create_task(server.drain(args.drain_seconds)))

    for number, handler in ((signal.SIGINT, server.stop), (signal.SIGTERM, terminate)):
        # Not on Windows, where Ctrl-C raises KeyboardInterrupt.
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, handler)


def _say(args: argparse.Namespace, line: str, /, **fields: Any) -> None:
    print(json.dumps(fields) if args.json else line, flush=True)


def _say_where(args: argparse.Namespace, listening: Listening) -> None:
    host = args.host if args.host not in ("0.0.0.0", "::") else "127.0.0.1"
    url = f"http://{bracketed(host)}:{listening.sock.getsockname()[1]}/"
    _say(args, f"detok serves {url}", url=url)
    token = listening.made_token
    if token is not None:
        line = f"Clients need this token (log in with any user name and the token as password): {token}"
        _say(args, line, token=token)


def _say_engine(args: argparse.Namespace, attached: AttachedEngine, *, several: bool) -> None:
    name = f" {attached.name}" if several else ""
    line = attached.engine.info().line
    state = line if attached.unready is None else f"down. {attached.unready}"
    said = {"engine": attached.name, "line": line, "down": attached.unready}
    _say(args, f"engine{name}: {state}", **said)
