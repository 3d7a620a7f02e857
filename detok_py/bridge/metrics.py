"""Prometheus metrics: times, counts, gauges. They contain no prompt, text, token or run id.

vLLM and SGLang use the same names: `time_to_first_token_seconds`, `inter_token_latency_seconds`.
"""

import time
from bisect import bisect_left
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_FIRST = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_BETWEEN = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Metrics:
    """The metrics of one bridge. Each bridge of a process has its own registry."""

    def __init__(self) -> None:
        self.registry: CollectorRegistry = CollectorRegistry()
        self.first: Times = Times(
            "detok_time_to_first_token_seconds",
            "Time from the request to the engine's first chunk.",
            _FIRST,
        )
        self.between: Times = Times(
            "detok_inter_token_latency_seconds", "Time between two chunks of an engine.", _BETWEEN
        )
        self.tokens = 0
        self.registry.register(self)
        self.requests: Counter = Counter(
            "detok_requests",
            "Finished generations, by reason.",
            ["finished_reason"],
            registry=self.registry,
        )
        self.running: Gauge = Gauge(
            "detok_requests_running", "Generations in progress.", registry=self.registry
        )
        self.clients: Gauge = Gauge("detok_clients", "Open WebSockets.", registry=self.registry)
        self.resumes: Counter = Counter(
            "detok_resumes", "Runs resumed by a new WebSocket.", registry=self.registry
        )
        self.refused: Counter = Counter(
            "detok_refused",
            "Refused requests and WebSockets, by status.",
            ["status"],
            registry=self.registry,
        )

    def collect(self) -> Iterable[Metric]:
        """Return what is counted with every chunk."""
        tokens = CounterMetricFamily(
            "detok_generation_tokens", "Generated tokens (bytes, if the engine sends no tokens)."
        )
        tokens.add_metric([], self.tokens)
        return [self.first.family(), self.between.family(), tokens]

    def expose(self) -> bytes:
        """Return the metrics in the Prometheus text format."""
        return generate_latest(self.registry)


class Times:
    """A histogram without locks, because it is used with every chunk, in one thread."""

    def __init__(self, name: str, about: str, buckets: tuple[float, ...]) -> None:
        self._name = name
        self._about = about
        self._buckets = buckets
        self._counts = [0] * (len(buckets) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count a time."""
        self._counts[bisect_left(self._buckets, seconds)] += 1
        self._sum += seconds

    def family(self) -> HistogramMetricFamily:
        """Return the histogram in Prometheus's form: each bucket includes those below it."""
        family = HistogramMetricFamily(self._name, self._about)
        total = 0
        buckets = []
        for bound, count in zip((*self._buckets, float("inf")), self._counts, strict=True):
            total += count
            buckets.append(
                (
                    str(floatToGoString(bound)),  # type: ignore[no-untyped-call]
                    total,
                )
            )
        family.add_metric([], buckets, self._sum)
        return family


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
        self._metrics.tokens += tokens
