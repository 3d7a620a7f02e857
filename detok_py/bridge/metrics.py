"""Prometheus metrics: times, counts, gauges. They contain no prompt, text, token or run id.

vLLM and SGLang use the same names: `time_to_first_token_seconds`, `inter_token_latency_seconds`.
The label `engine` has the name by which clients choose the engine.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.utils import floatToGoString

from ..protocol.runs import Run
from .store import Counts

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_FIRST = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_BETWEEN = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class State(NamedTuple):
    """The state of a bridge. Of each engine: its name, how many answers it writes, and whether it
    can answer.
    """

    engines: list[tuple[str, int, bool]]
    clients: int
    runs: list[Run]
    store_up: bool
    store: Counts


class Metrics:
    """The metrics of one bridge. Each bridge of a process has its own registry, and sets `state`,
    which is called when someone asks for the metrics.
    """

    def __init__(self) -> None:
        self.state: Callable[[], State] | None = None
        self.registry: CollectorRegistry = CollectorRegistry()
        self.engines: dict[str, EngineMetrics] = {}
        self.registry.register(self)
        self.requests: Counter = Counter(
            "detok_requests",
            "Finished generations, by engine and reason.",
            ["engine", "finished_reason"],
            registry=self.registry,
        )
        self.resumes: Counter = Counter(
            "detok_resumes", "Runs resumed by a new WebSocket.", registry=self.registry
        )
        self.refused: Counter = Counter(
            "detok_refused",
            "Refused requests and WebSockets, by status.",
            ["status"],
            registry=self.registry,
        )

    def of(self, engine: str) -> "EngineMetrics":
        """Return the metrics of an engine."""
        if engine not in self.engines:
            self.engines[engine] = EngineMetrics(engine, self.requests)
        return self.engines[engine]

    def collect(self) -> Iterable[Metric]:
        """Return what is counted with every chunk, and the state of the bridge."""
        first = HistogramMetricFamily(
            "detok_time_to_first_token_seconds",
            "Time from the request to the engine's first tokens.",
            labels=["engine"],
        )
        between = HistogramMetricFamily(
            "detok_inter_token_latency_seconds",
            "Time between two chunks of an engine, without waits for the reader.",
            labels=["engine"],
        )
        tokens = CounterMetricFamily(
            "detok_generation_tokens",
            "Generated tokens (bytes, if the engine sends no tokens).",
            labels=["engine"],
        )
        for name, each in self.engines.items():
            each.first.add_to(first, name)
            each.between.add_to(between, name)
            tokens.add_metric([name], each.tokens)
        state = _gauges(self.state()) if self.state is not None else []
        return [first, between, tokens, *state]

    def expose(self) -> bytes:
        """Return the metrics in the Prometheus text format."""
        return generate_latest(self.registry)


def _gauges(state: State) -> list[Metric]:
    running = GaugeMetricFamily(
        "detok_requests_running", "Generations in progress.", labels=["engine"]
    )
    up = GaugeMetricFamily("detok_engine_up", "Whether the engine can answer.", labels=["engine"])
    for name, jobs, ready in state.engines:
        running.add_metric([name], jobs)
        up.add_metric([name], ready)
    runs = GaugeMetricFamily("detok_runs", "Runs in memory.", labels=["state"])
    size = GaugeMetricFamily(
        "detok_run_bytes", "Bytes of the logs of these runs.", labels=["state"]
    )
    for word, ended in (("running", False), ("ended", True)):
        sizes = [run.log.size for run in state.runs if (run.log.end is not None) == ended]
        runs.add_metric([word], len(sizes))
        size.add_metric([word], sum(sizes))
    return [
        running,
        up,
        GaugeMetricFamily(
            "detok_clients", "Clients: WebSockets, and answers on /v1.", state.clients
        ),
        runs,
        size,
        GaugeMetricFamily(
            "detok_store_up",
            "Whether runs can begin: the store answers.",
            state.store_up,
        ),
        SummaryMetricFamily(
            "detok_store_seconds",
            "Time of a round trip to the store.",
            state.store.calls,
            state.store.seconds,
        ),
        CounterMetricFamily(
            "detok_store_failures", "Commands of the store that have failed.", state.store.failures
        ),
    ]


class EngineMetrics:
    """What is measured of one engine."""

    def __init__(self, name: str, requests: Counter) -> None:
        self.first: Times = Times(_FIRST)
        self.between: Times = Times(_BETWEEN)
        self.tokens: int = 0
        self._name = name
        self._requests = requests

    def ended(self, reason: str) -> None:
        """Count a generation that has ended."""
        self._requests.labels(self._name, reason).inc()


class Times:
    """A histogram without locks, because it is used with every chunk, in one thread."""

    def __init__(self, buckets: tuple[float, ...]) -> None:
        self._buckets = buckets
        self._counts = [0] * (len(buckets) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count a time."""
        self._counts[bisect_left(self._buckets, seconds)] += 1
        self._sum += seconds

    def add_to(self, family: HistogramMetricFamily, engine: str) -> None:
        """Add the histogram in Prometheus's form: each bucket includes those below it."""
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
        family.add_metric([engine], buckets, self._sum)


class Stopwatch:
    """Measures the chunks of one generation."""

    def __init__(self, metrics: EngineMetrics) -> None:
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

    def resume(self) -> None:
        """Measure from now on: the engine has waited for its reader."""
        self._before = time.perf_counter()
