"""The metrics endpoint, in Prometheus' text format; its names begin with ``malleable_``.

No metric has a job's or a user's name as a label: their number would grow without bound.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from scheduler_bridge.daemon import Snapshot
from scheduler_bridge.record import RunRecord
from scheduler_bridge.web.feed import Paced, Watched

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

_NODES = ("busy", "idle", "draining", "down")
_OPEN = ("held", "waiting", "starting", "running", "ending")
_ENDED = ("completed", "failed", "cancelled", "timeout", "lost")
_KINDS = ("grow", "shrink")
_OUTCOMES = ("done", "refused", "aborted", "not_due")


class Metrics:
    """Makes the text for one daemon.

    Args:
        daemon: What is measured.
        watchers: Tells how many follow the page.
    """

    def __init__(self, daemon: Watched, watchers: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Cluster(daemon, watchers))
        self._paced = Paced(lambda: generate_latest(self._registry))

    def text(self) -> bytes:
        """Return what a scrape gets: as it is, or, where that takes long, was a little before."""
        return self._paced.get()


class _Cluster(Collector):
    def __init__(self, daemon: Watched, watchers: Callable[[], int]) -> None:
        self._daemon = daemon
        self._watchers = watchers

    def describe(self) -> list[Metric]:
        return []  # Otherwise the registry would collect once to see which names there are.

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
