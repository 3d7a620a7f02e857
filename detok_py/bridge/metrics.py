"""What Prometheus may know: times, counts, gauges. Never a prompt, a text, a token or a run id.

Names are the field's: vLLM and SGLang call theirs `time_to_first_token_seconds` and `inter_token_latency_seconds` too.
"""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_FIRST = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_BETWEEN = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Metrics:
    """The numbers of one bridge, in a registry of their own, so that two bridges in a process don't share them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.first = Histogram(
            "detok_time_to_first_token_seconds", "From the request to the engine's first chunk.", buckets=_FIRST, registry=self.registry
        )
        self.between = Histogram(
            "detok_inter_token_latency_seconds", "Between two chunks of an engine.", buckets=_BETWEEN, registry=self.registry
        )
        self.tokens = Counter(
            "detok_generation_tokens", "Tokens that engines gave (bytes, where only bytes exist).", registry=self.registry
        )
        self.requests = Counter("detok_requests", "Generations, by how they ended.", ["finished_reason"], registry=self.registry)
        self.running = Gauge("detok_requests_running", "Generations that go on now.", registry=self.registry)
        self.clients = Gauge("detok_clients", "WebSockets that are open now.", registry=self.registry)
        self.resumes = Counter("detok_resumes", "Runs taken up again by a new socket.", registry=self.registry)
        self.refused = Counter("detok_refused", "Requests and sockets turned away, by status.", ["status"], registry=self.registry)

    def expose(self) -> bytes:
        """Return the text that Prometheus reads."""
        return generate_latest(self.registry)


class Stopwatch:
    """The times of one generation."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._before = time.perf_counter()
        self._first = True

    def chunk(self, tokens: int) -> None:
        """A chunk of `tokens` tokens came."""
        now = time.perf_counter()
        (self._metrics.first if self._first else self._metrics.between).observe(now - self._before)
        self._first = False
        self._before = now
        self._metrics.tokens.inc(tokens)
