"""What the bridge's OpenAI-compatible API costs: the first token, and CPU a token, beside a bare
engine that writes the same events itself.

    .venv/bin/python -m benchmarks.exit [--clients 40] [--rate 100] [--seconds 5] [--firsts 200]

Prints one JSON object a line. Both servers are uvicorn in a process of their own, with the same
engine. First tokens are asked for one after the other, of both servers in turn, and their median is
reported. Times include whatever else the machine does, so trust the differences.
"""

import argparse
import asyncio
import json
import statistics
import time

import httpx

from detok_py.bridge.assets import Assets
from detok_py.bridge.attached import AttachedEngine
from detok_py.bridge.engines import End, Ids
from detok_py.bridge.gate import Gate
from detok_py.bridge.server import Server, application, bind, names_of
from detok_py.bridge.stream import Bridge
from detok_py.decode.vocabulary import Vocabulary

from .bridge import ClockEngine, bare_server, child, end, ticks, until_closed, usage_of
from .rows import report

WORDS = Vocabulary.from_bytes([f"word{n} ".encode() for n in range(100)])
PATH = "/v1/chat/completions"


async def words(rate, count):
    """Ticks; a single one comes at once."""
    if count == 1:
        yield 0
    else:
        async for tick in ticks(rate, count):
            yield tick


class WordEngine(ClockEngine):
    """Says a word, `rate` times a second, as often as it is asked for."""

    async def generate(self, request):
        async for tick in words(self.rate, request.sampling.max_tokens):
            yield Ids([tick % 100])
        yield End("length")


def bare(rate):
    """Return the app of an engine that writes the events itself."""

    async def app(scope, receive, send):
        most = json.loads((await receive())["body"])["max_tokens"]
        kind = (b"content-type", b"text/event-stream")
        await send({"type": "http.response.start", "status": 200, "headers": [kind]})
        async for tick in words(rate, most):
            choice = {"index": 0, "delta": {"content": f"word{tick % 100} "}, "finish_reason": None}
            event = {"id": "chatcmpl-0123456789abcdef01234567", "object": "chat.completion.chunk"}
            event |= {"created": 1700000000, "model": "clock", "choices": [choice]}
            body = f"data: {json.dumps(event)}\n\n".encode()
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    return app


def serve(which, rate):
    """Serve until the parent closes stdin."""
    sock = bind("127.0.0.1", 0)
    port = sock.getsockname()[1]
    if which == "exit":
        attached = AttachedEngine("clock", WordEngine(rate, 0), vocabulary=WORDS)
        bridge = Bridge([attached], max_clients=10_000)
        names = names_of("127.0.0.1", port)
        server = Server(bridge, Gate(application(bridge, Assets()), names), sock)
        run = server.serve()
    else:
        server = bare_server(bare(rate))
        run = server.serve(sockets=[sock])
    asyncio.run(until_closed(server, run, port))


async def ask(http, port, most):
    """Return how long the first word took, in milliseconds."""
    body = {"messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": most}
    began, first = time.perf_counter(), 0.0
    async with http.stream("POST", f"http://127.0.0.1:{port}{PATH}", json=body) as answer:
        async for piece in answer.aiter_raw():
            if not first and b"word" in piece:
                first = (time.perf_counter() - began) * 1000
    return first


async def measure(ports, pids, args):
    """Return of each server the median first token, and the CPU a token in microseconds."""
    out = {}
    async with httpx.AsyncClient(trust_env=False, timeout=60, limits=httpx.Limits()) as http:
        firsts = {which: [] for which in ports}
        for _ in range(args.firsts + 20):
            for which, port in ports.items():
                firsts[which].append(await ask(http, port, 1))
        for which, port in ports.items():
            most = int(args.rate * args.seconds)
            before = usage_of(pids[which])[0]
            await asyncio.gather(*[ask(http, port, most) for _ in range(args.clients)])
            spent = usage_of(pids[which])[0] - before
            first = statistics.median(firsts[which][20:])
            out[which] = (first, spent / (most * args.clients) * 1e6)
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=40)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--firsts", type=int, default=200)
    parser.add_argument("--serve", choices=["exit", "bare"])
    args = parser.parse_args()
    if args.serve:
        serve(args.serve, args.rate)
        return
    servers = {which: child("exit", which, rate=args.rate) for which in ("exit", "bare")}
    ports = {which: port for which, (_, port) in servers.items()}
    pids = {which: process.pid for which, (process, _) in servers.items()}
    try:
        found = asyncio.run(measure(ports, pids, args))
    finally:
        end([process for process, _ in servers.values()])
    (ours, our_cpu), (bare_first, bare_cpu) = found["exit"], found["bare"]
    case = f"{args.clients} clients at {args.rate:g} tokens/s"
    name = "an engine's own server (uvicorn)"
    report("exit", "the first token of one client", ours, "ms", bare_first, name)
    report("exit", f"{case}: the server's CPU time a token", our_cpu, "µs", bare_cpu, name)


if __name__ == "__main__":
    main()
