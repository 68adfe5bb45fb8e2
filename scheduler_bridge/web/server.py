"""The web server of a daemon: the page, its events, the same as JSON, and the metrics."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Final, Self

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from scheduler_bridge.daemon import Daemon, Snapshot
from scheduler_bridge.daemon.listener import Listener
from scheduler_bridge.record import RunRecord
from scheduler_bridge.report.looks import JOB_COLORS, Look
from scheduler_bridge.web.feed import EVENT_STREAM, Feed, Paced
from scheduler_bridge.web.http import Answer, Connection, WebConfig

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class WebServer:
    """Serves the live page of a daemon; an async context manager.

    It may be entered before the daemon: where its port is not to be had, the daemon takes up no jobs then.

    Args:
        daemon: What is shown.
        config: Where to listen, and limits.
        serving: False: readers wait for ``listener.serve``, which the daemon must be there for.

    Raises:
        DaemonError: On entering: the port is not to be had.
    """

    def __init__(self, daemon: Daemon, config: WebConfig, *, serving: bool = True) -> None:
        self._config, self._serving = config, serving
        self._files = _files()
        version = hashlib.sha256(b"\0".join(body for _, body in sorted(self._files.items()))).hexdigest()[:12]
        self._feed = Feed(daemon, config, version)
        registry = CollectorRegistry()
        registry.register(_Cluster(daemon, lambda: self._feed.watchers))
        self._metrics = Paced(lambda: generate_latest(registry))
        self.listener = Listener(self._serve, config.connections)
        self._port = config.port

    @property
    def url(self) -> str:
        """Where the page is; ends in a slash."""
        host = f"[{self._config.host}]" if ":" in self._config.host else self._config.host
        return f"http://{host}:{self._port}/"

    async def __aenter__(self) -> Self:
        hints = (
            "give another --web-host, such as 127.0.0.1, or 0.0.0.0 for all addresses",
            "choose another port with --web, or 0 for a free one",
        )
        address = (self._config.host, self._config.port)
        self._port = await self.listener.start(address, "serve the page", hints, serving=self._serving)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._feed.stop()
        await self.listener.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Connection(reader, writer, self._config, self._answer).serve()

    def _answer(self, path: str) -> Answer:
        match path:
            case "/events":
                if self._feed.watchers >= self._config.watchers:
                    return Answer(503, b"too many follow this page already\n", headers={"Retry-After": "10"})
                return Answer(200, self._feed.events(), EVENT_STREAM)
            case "/state.json":
                return Answer(200, msgspec.json.encode(self._feed.document()), "application/json")
            case "/metrics":
                return Answer(200, self._metrics.get(), CONTENT_TYPE_PLAIN_0_0_4)
            case "/":
                return self._file("index.html")
            case _:
                return self._file(path.removeprefix("/"))

    def _file(self, name: str) -> Answer:
        body = self._files.get(name)
        if body is None:
            return Answer(404, b"there is no such page here\n")
        return Answer(200, body, _TYPES[name.rpartition(".")[2]])


def _files() -> dict[str, bytes]:
    """Read the page's files once, as what is served does not depend on what is asked for; colours are the report's."""
    folder = resources.files("scheduler_bridge.web") / "static"
    found = {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.name.rpartition(".")[2] in _TYPES}
    inks = [Look(color).ink for color in JOB_COLORS]
    found["colors.js"] = b"export const COLORS = %b, INKS = %b;\n" % tuple(map(msgspec.json.encode, (JOB_COLORS, inks)))
    return found


# The metrics, in Prometheus' text format; their names begin with ``malleable_`` --------------------------------------
#
# No metric has a job's or a user's name as a label: their number would grow without bound.

_NODES = ("busy", "idle", "draining", "down")
_OPEN = ("held", "waiting", "starting", "running", "ending")
_ENDED = ("completed", "failed", "cancelled", "timeout", "lost")
_KINDS = ("grow", "shrink")
_OUTCOMES = ("done", "refused", "aborted", "not_due")


class _Cluster(Collector):
    def __init__(self, daemon: Daemon, watchers: Callable[[], int]) -> None:
        self._daemon = daemon
        self._watchers = watchers

    def collect(self) -> Iterator[Metric]:
        snapshot = self._daemon.snapshot()
        yield from _of_cluster(snapshot)
        yield from _of_jobs(snapshot)
        yield from _of_resizes(self._daemon.recent(-math.inf))
        yield GaugeMetricFamily("malleable_web_watchers", "Readers of the live page.", value=self._watchers())


def _of_cluster(snapshot: Snapshot) -> Iterator[Metric]:
    yield _labelled(
        GaugeMetricFamily("malleable_nodes", "Nodes by state.", labels=["state"]),
        Counter(node.state for node in snapshot.nodes),
        _NODES,
    )
    policy = GaugeMetricFamily("malleable_policy_info", "The policy that decides.", labels=["policy"])
    policy.add_metric([snapshot.policy], 1)
    yield policy
    yield CounterMetricFamily("malleable_uptime_seconds", "Time since the scheduler's clock began.", snapshot.now_s)
    yield GaugeMetricFamily(
        "malleable_utilization_ratio", "Node-seconds held by jobs over nodes times uptime.", snapshot.utilization
    )
    yield GaugeMetricFamily(
        "malleable_log_behind",
        "Whether the log cannot be written, so that no jobs are taken.",
        bool(snapshot.log_behind),
    )
    yield CounterMetricFamily("malleable_held_node_seconds", "Node-seconds that jobs have held.", snapshot.held_node_s)


def _of_jobs(snapshot: Snapshot) -> Iterator[Metric]:
    states = Counter(job.state for job in snapshot.jobs)
    yield _labelled(GaugeMetricFamily("malleable_jobs", "Open jobs by state.", labels=["state"]), states, _OPEN)
    yield _labelled(
        CounterMetricFamily("malleable_jobs_ended", "Ended jobs by outcome.", labels=["outcome"]), states, _ENDED
    )
    waiting = [snapshot.now_s - job.submit_s for job in snapshot.jobs if job.state == "waiting"]
    yield GaugeMetricFamily(
        "malleable_longest_wait_seconds", "How long the job has waited that waits longest.", max(waiting, default=0.0)
    )
    started = [job.start_s - job.submit_s for job in snapshot.jobs if job.start_s is not None]
    yield SummaryMetricFamily(
        "malleable_job_wait_seconds", "Time from submission to start.", count_value=len(started), sum_value=sum(started)
    )


def _of_resizes(record: RunRecord) -> Iterator[Metric]:
    resizes = [resize for job in record.jobs for resize in job.resizes]
    orders = CounterMetricFamily("malleable_orders", "Ended orders by kind and outcome.", labels=["kind", "outcome"])
    seconds = SummaryMetricFamily(
        "malleable_resize_seconds", "Time of carried out orders as the jobs measured it.", labels=["kind"]
    )
    outcomes: Counter[tuple[str, str]] = Counter((resize.kind, resize.outcome) for resize in resizes)
    for kind in _KINDS:
        for outcome in _OUTCOMES:
            orders.add_metric([kind, outcome], outcomes[kind, outcome])
        measured = [resize.seconds for resize in resizes if resize.kind == kind and resize.seconds is not None]
        seconds.add_metric([kind], count_value=len(measured), sum_value=sum(measured))
    yield orders
    yield seconds
    pending = sum(1 for resize in resizes if resize.outcome == "pending")
    yield GaugeMetricFamily("malleable_orders_pending", "Orders that have no outcome yet.", pending)


def _labelled(family: GaugeMetricFamily | CounterMetricFamily, counts: Counter[str], values: tuple[str, ...]) -> Metric:
    """Add a value for each label, also where it is 0: a series that is not there cannot be watched."""
    for value in values:
        family.add_metric([value], counts[value])
    return family
