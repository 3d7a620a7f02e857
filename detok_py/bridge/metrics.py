"""Prometheus metrics: times, counts, gauges. They contain no prompt, text, token or run id.

vLLM and SGLang use the same names: `time_to_first_token_seconds`, `inter_token_latency_seconds`.
"""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_FIRST = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_BETWEEN = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Metrics:
    """The metrics of one bridge. Each bridge of a process has its own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.first = Histogram(
            "detok_time_to_first_token_seconds",
            "Time from the request to the engine's first chunk.",
            buckets=_FIRST,
            registry=self.registry,
        )
        self.between = Histogram(
            "detok_inter_token_latency_seconds",
            "Time between two chunks of an engine.",
            buckets=_BETWEEN,
            registry=self.registry,
        )
        self.tokens = Counter(
            "detok_generation_tokens",
            "Generated tokens (bytes, if the engine sends no tokens).",
            registry=self.registry,
        )
        self.requests = Counter(
            "detok_requests",
            "Finished generations, by reason.",
            ["finished_reason"],
            registry=self.registry,
        )
        self.running = Gauge(
            "detok_requests_running", "Generations in progress.", registry=self.registry
        )
        self.clients = Gauge("detok_clients", "Open WebSockets.", registry=self.registry)
        self.resumes = Counter(
            "detok_resumes", "Runs resumed by a new WebSocket.", registry=self.registry
        )
        self.refused = Counter(
            "detok_refused",
            "Refused requests and WebSockets, by status.",
            ["status"],
            registry=self.registry,
        )

    def expose(self) -> bytes:
        """Return the metrics in the Prometheus text format."""
        return generate_latest(self.registry)


class Stopwatch:
    """Measures the chunks of one generation."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._before = time.perf_counter()
        self._first = True

    def chunk(self, tokens: int) -> None:
        """Record that a chunk of `tokens` tokens has arrived."""
        now = time.perf_counter()
        (self._metrics.first if self._first else self._metrics.between).observe(now - self._before)
        self._first = False
        self._before = now
        self._metrics.tokens.inc(tokens)
