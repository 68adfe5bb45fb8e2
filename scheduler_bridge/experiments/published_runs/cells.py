"""The 2024 paper's real runs as published, and the same batches in the simulator, side by side."""

from __future__ import annotations

import csv
import itertools
import math
import random
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, TypeVar

from msgspec import structs

from scheduler_bridge.experiments.merit import Replayed, beside, merit
from scheduler_bridge.experiments.study import change
from scheduler_bridge.experiments.sweep import unending
from scheduler_bridge.model import JobSpec
from scheduler_bridge.policies import get
from scheduler_bridge.sim import Dynamics, Engine, SimRecord, Simulated
from scheduler_bridge.sim.jobs import Sizes
from scheduler_bridge.workloads import TraceError, TraceJob

# Reads what the 2024 paper published of its real runs: every job, the strong scaling, the means of its figures -------
#
# What is peculiar about the data, and what is done about it: 100 % malleable, seed 47 holds two runs, and 60 %, seed 47
# none, so the runs are kept apart where ids begin again. A rigid job named ``UTS_19_rigid_4`` ran on 8 nodes in 116
# runs of the same jobs: the nodes that a rigid job had count, not its name. 24 jobs have an error in a resize: they
# went on with fewer nodes than they held.

NODES: Final = 32
WALLTIME_S: Final = 800.0
"""Every job asked for this [code]; the published table has no column for it."""
SHARES: Final = (0, 20, 40, 60, 80, 100)
FOLDER: Final = "reference/real-runs-32-nodes"
JOBS, SCALING, UTILIZATION = FILES = "jobs.csv", "strong_scaling.csv", "AverageNodeUtilization.csv"
_RULE: Final = ("the published data have this file", "give --data DIR")

T = TypeVar("T")
Scaling: TypeAlias = dict[tuple[str, str], dict[int, float]]
"""Median runtime in seconds by nodes, for each program and input."""


class RunKey(NamedTuple):
    """A run: the published name of the policy, malleable jobs in percent, seed, and which run of these."""

    strategy: str
    share: int
    seed: int
    number: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The jobs of a real run. Times in seconds since its beginning.

    Attributes:
        jobs: As the simulator records its own; of the sizes of a job, only the first one is published.
        failed: The ids of those of which a resize failed.
    """

    jobs: tuple[SimRecord, ...]
    failed: frozenset[int] = frozenset()

    def is_stuck(self, job: SimRecord) -> bool:
        """Whether a job held the nodes of its start until its end, though a resize failed: none was carried out."""
        return job.spec.job_id in self.failed and not job.shrinks and not job.grows


def program(job: SimRecord) -> tuple[str, str]:
    """Program and input of a published job, as in the strong scaling, by its name: program, input, class, sizes."""
    name, size, *_ = job.spec.name.split("_")
    return name, size


def span(job: SimRecord) -> tuple[float, float, float]:
    """When a job was submitted, started and ended.

    Raises:
        RuntimeError: It did not complete.
    """
    if job.start_s is None or job.end_s is None or job.outcome != "completed":
        raise RuntimeError(f"job {job.spec.job_id} did not complete: {job.outcome}")
    return job.spec.submit_s, job.start_s, job.end_s


@dataclass(frozen=True)
class Reference:
    """The published data, with mean utilizations in percent by policy and share, and the files that have all of it."""

    runs: dict[RunKey, Batch]
    scaling: Scaling
    utilization: dict[tuple[str, int], float]
    files: tuple[Path, ...] = ()


def read_reference(data: Path) -> Reference:
    """Read the published data; ``data`` is the folder that holds ``FOLDER``.

    Raises:
        TraceError: A file is missing or not as it should be.
    """
    folder = data / FOLDER
    runs: dict[RunKey, dict[int, SimRecord]] = {}
    failed: dict[RunKey, set[int]] = {}
    numbers: dict[tuple[str, int, int], int] = {}
    for batch, has_failed, job in _rows(folder / JOBS, _of_batch):
        key = RunKey(*batch, numbers.setdefault(batch, 0))
        if job.spec.job_id in runs.get(key, {}):
            numbers[batch] += 1
            key = RunKey(*batch, numbers[batch])
        runs.setdefault(key, {})[job.spec.job_id] = job
        if has_failed:
            failed.setdefault(key, set()).add(job.spec.job_id)
    scaling: Scaling = {}
    for what, nodes, seconds in _rows(folder / SCALING, _point):
        scaling.setdefault(what, {})[nodes] = seconds
    utilization: dict[tuple[str, int], float] = {}
    for means in _rows(folder / UTILIZATION, _used):
        utilization |= means
    batches = {key: Batch(tuple(jobs.values()), frozenset(failed.get(key, ()))) for key, jobs in runs.items()}
    return Reference(batches, scaling, utilization, tuple(folder / name for name in FILES))


def _rows(path: Path, read: Callable[[dict[str, str]], T]) -> list[T]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [read(row) for row in csv.DictReader(file)]
    except FileNotFoundError:
        raise TraceError(f"{path}: not there", *_RULE) from None
    except (KeyError, TypeError, ValueError) as error:
        raise TraceError(f"{path}: {type(error).__name__}: {error}", *_RULE) from None


def _of_batch(row: dict[str, str]) -> tuple[tuple[str, int, int], bool, SimRecord]:
    """The batch of a job, whether a resize of it failed, and the job."""
    batch = row["strategy"], int(row["malleable_percent"]), int(row["seed"])
    return batch, row["error_elastic"] == "True", _job(row)


def _used(row: dict[str, str]) -> dict[tuple[str, int], float]:
    (_, share), *means = row.items()
    return {(name, int(share)): float(value) for name, value in means}


def _job(row: dict[str, str]) -> SimRecord:
    _, _, kind, sizes = row["job_name"].split("_")
    low, _, high = sizes.partition("-")
    malleable = kind == "malleable"
    start_s, start_nodes = float(row["start_s"]), int(row["start_nodes"])
    most = int(high) if malleable else start_nodes
    spec = JobSpec(
        job_id=int(row["id"]),
        name=row["job_name"],
        user="paper",
        job_class="malleable" if malleable else "rigid",
        nodes=most,
        min_nodes=int(low) if malleable else start_nodes,
        max_nodes=most,
        walltime_s=WALLTIME_S,
        submit_s=float(row["submit_s"]),
    )
    return SimRecord(
        spec,
        start_s,
        float(row["end_s"]),
        "completed",
        sizes=Sizes([(start_s, start_nodes)]),
        grows=int(row["grow_count"]),
        shrinks=int(row["shrink_count"]),
    )


def _point(row: dict[str, str]) -> tuple[tuple[str, str], int, float]:
    return (row["program"], row["size"]), int(row["nodes"]), float(row["median_s"])


# One run, simulated and as it was: what both are measured by ---------------------------------------------------------
#
# The model: a job on n nodes takes what the strong scaling says, between its points by a power law. A job's nodes are
# free 1.75 s after its end: in the real runs under FCFS, EASY and backfilling, half of the jobs that waited for nodes
# started that long after another one's end. A malleable job takes orders 6.04 s after its start. A grow takes 6.78 s
# and a shrink 15.19 s: these are the numbers of the published data file; the paper's text and figure have them the
# other way round (14.55 s and 7.41 s), for the script that draws the figure swaps the two.
#
# A job whose resize failed in reality takes as long as it did, on any nodes, and takes no orders. If none of its
# resizes was carried out, it has the nodes that it started on in reality, from its start to its end: the scheduler
# still waited for the order, and the published runs agree, for the other jobs never had more than the rest. Those of
# them that do not compute any more count as held, but not as used: utilization is "the fraction of time during which
# nodes are actively executing jobs". As many compute as the strong scaling needs for the time that the job took.


@dataclass(frozen=True, slots=True)
class Costs:
    """What things took on the real cluster, in seconds.

    Attributes:
        release_s: From a job's end until its nodes are free.
        ready_s: From a job's start until it takes orders.
        grow_s: A grow.
        shrink_s: A shrink.
        spread: Standard deviation of the logarithm of a job's runtime, for repeated runs of a batch: the same job on
            the same nodes differs by about so much.
    """

    release_s: float = 1.75
    ready_s: float = 6.04
    grow_s: float = 6.78
    shrink_s: float = 15.19
    spread: float = 0.012


AS_MEASURED: Final = Costs()


def seconds_on(scaling: dict[int, float], nodes: int) -> float:
    """The runtime on ``nodes`` nodes: a power law between, and beyond, the points nearest to it."""
    points = sorted(scaling.items())
    index = min(max(1, sum(size < nodes for size, _ in points)), len(points) - 1)
    (low, slow_s), (high, fast_s) = points[index - 1], points[index]
    exponent = math.log(fast_s / slow_s) / math.log(high / low)
    return slow_s * math.pow(nodes / low, exponent)


def nodes_for(scaling: dict[int, float], seconds: float) -> float:
    """On how many nodes, at least 1, a job takes so long: the inverse of ``seconds_on``, between whole numbers, too."""
    points = sorted(scaling.items())
    index = min(max(1, sum(taken_s > seconds for _, taken_s in points)), len(points) - 1)
    (low, slow_s), (high, fast_s) = points[index - 1], points[index]
    return max(1.0, low * math.pow(high / low, math.log(slow_s / seconds) / math.log(slow_s / fast_s)))


def simulated(batch: Batch, scaling: Scaling, policy: str, costs: Costs, *, replica: int = 0) -> dict[str, float]:
    """Simulate a batch: its figures of merit, and its orders.

    Runtimes of replica 0 are as in the scaling, those of others have a random spread that the number determines.
    """
    records = _replayed(batch, scaling, policy, costs, replica)
    computing = {
        job.spec.job_id: nodes_for(scaling[program(job)], _runtime_s(job))
        for job in batch.jobs
        if job.spec.job_id in batch.failed
    }
    spans, node_s = [], 0.0
    for record in records:
        submit_s, start_s, end_s = span(record)
        spans.append((submit_s, start_s, end_s - costs.release_s))
        most = computing.get(record.spec.job_id, math.inf)
        node_s += sum(
            min(nodes, most) * (to_s - from_s) for from_s, to_s, nodes in record.sizes.spans(end_s) if to_s > from_s
        )
    return merit(spans, node_s, NODES) | _orders(records)


def _replayed(batch: Batch, scaling: Scaling, policy: str, costs: Costs, replica: int) -> list[SimRecord]:
    rng = random.Random(replica)
    sims = [
        _sim_job(job, batch, scaling, costs, math.exp(rng.gauss(0, costs.spread)) if replica else 1.0)
        for job in batch.jobs
    ]
    return list(Engine(NODES, get(policy), unending(policy)).run(sims).records.values())


def ends_apart_s(batch: Batch, scaling: Scaling, policy: str, costs: Costs) -> list[float]:
    """How far the end of each job in the simulator is from its real one, in seconds, without those that failed.

    See ``simulated``.
    """
    ends = {job.spec.job_id: span(job)[2] for job in batch.jobs if job.spec.job_id not in batch.failed}
    records = _replayed(batch, scaling, policy, costs, 0)
    ours = {record.spec.job_id: span(record)[2] - costs.release_s for record in records}
    return [abs(ours[job_id] - end_s) for job_id, end_s in ends.items()]


def released_s(batches: Iterable[Batch]) -> float:
    """From a job's end until its nodes are free, in seconds: the median, for jobs that waited for another's end."""
    found = []
    for batch in batches:
        spans = [span(job) for job in batch.jobs]
        for submit_s, start_s, _ in spans:
            freed_s = max((end_s for *_, end_s in spans if end_s <= start_s), default=-math.inf)
            if freed_s >= submit_s and start_s - submit_s > 1:
                found.append(start_s - freed_s)
    return statistics.median(found)


def _sim_job(job: SimRecord, batch: Batch, scaling: Scaling, costs: Costs, factor: float) -> Simulated:
    by_nodes = scaling[program(job)]
    failed = job.spec.job_id in batch.failed

    def speed(nodes: int) -> float:
        runtime_s = _runtime_s(job) if failed else factor * seconds_on(by_nodes, nodes)
        return 1 / (runtime_s + costs.release_s)

    spec = structs.replace(job.spec, submit_s=max(0.0, job.spec.submit_s))
    if batch.is_stuck(job):
        ((_, nodes),) = job.sizes
        spec = structs.replace(spec, nodes=nodes, min_nodes=nodes, max_nodes=nodes)
    ready_s = None if failed else costs.ready_s
    dynamics = Dynamics(speedup=speed, ready_delay_s=ready_s, grow_s=costs.grow_s, shrink_s=costs.shrink_s)
    return TraceJob.of(spec, 1 / speed(spec.nodes)), dynamics


def _runtime_s(job: SimRecord) -> float:
    _, start_s, end_s = span(job)
    return end_s - start_s


def measured(jobs: Sequence[SimRecord], costs: Costs = AS_MEASURED) -> dict[str, float]:
    """Measure a real run as ``simulated`` does.

    Of jobs that were resized the sizes over time are not published, so that utilization is not known and left out.
    """
    node_s = sum(nodes * (_runtime_s(job) + costs.release_s) for job in jobs for _, nodes in job.sizes)
    orders = _orders(jobs)
    found = merit([span(job) for job in jobs], node_s, NODES) | orders
    if any(orders.values()):
        del found["utilization"]
    return found


def _orders(jobs: Sequence[SimRecord]) -> dict[str, float]:
    return {"grows": sum(job.grows for job in jobs), "shrinks": sum(job.shrinks for job in jobs)}


# Real and simulated runs side by side: means, errors, and what correct policies would have done ----------------------

COMPAT: Final = {
    "FCFS": "fcfs",
    "Backfilling": "backfilling",
    "EasyBackfilling": "easy-compat",
    "MalleableStrategy": "malleable-compat",
}
"""Which of our policies decides as the published one did."""
CORRECT: Final = {"EasyBackfilling": "easy", "MalleableStrategy": "malleable"}
"""The correct policy of the same name."""
JUDGED: Final = ("makespan_s", "turnaround_s", "wait_s", "utilization")


@dataclass(frozen=True, slots=True)
class Cell:
    """The runs of one share of malleable jobs, in percent, and policy, ``strategy`` by its published name.

    Those runs are apart that have a job whose resize failed.
    """

    strategy: str
    share: int
    policy: str
    runs: tuple[Replayed[RunKey], ...]
    published_utilization: float

    def means(self, name: str, *, sound: bool = False) -> tuple[float | None, float | None]:
        """The means of a measure, real and simulated; ``sound``: only of runs without a failed resize."""
        real, ours = beside([one for one in self.runs if not (sound and one.apart)], name)
        return self.published_utilization if name == "utilization" and not sound else real, ours

    def error(self, name: str, *, sound: bool = False) -> float | None:
        """The error of the simulated mean, in percent of the real one; None: not known."""
        return change(*self.means(name, sound=sound))


Cells: TypeAlias = Mapping[tuple[str, int], Cell]
"""By published policy and share."""


def errors_of(cells: Cells, names: Iterable[str] = JUDGED, *, sound: bool = False) -> list[float]:
    """How far the means of these measures are off, see ``Cell.error``, as far as that is known."""
    found = (cell.error(name, sound=sound) for cell in cells.values() for name in names)
    return [abs(error) for error in found if error is not None]


def replayed(
    reference: Reference,
    policies: Mapping[str, str],
    *,
    shares: Iterable[int],
    seeds: Collection[int],
    costs: Costs = AS_MEASURED,
    replicas: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> Cells:
    """Replay real runs with these shares of malleable jobs, in percent, and seeds, each ``replicas`` times.

    ``policies``: those of ours that stand for published ones, by the names of these.
    """
    cells = {}
    for (strategy, policy), share in itertools.product(policies.items(), shares):
        keys = sorted(key for key in reference.runs if key[:2] == (strategy, share) and key.seed in seeds)
        if not keys:
            continue
        progress(f"{strategy}, {share} % malleable, by {policy}")
        runs = []
        for key in keys:
            batch = reference.runs[key]
            found = [simulated(batch, reference.scaling, policy, costs, replica=number) for number in range(replicas)]
            by_name = {name: [one[name] for one in found] for name in found[0]}
            runs.append(Replayed(key, measured(batch.jobs, costs), by_name, bool(batch.failed)))
        cells[strategy, share] = Cell(strategy, share, policy, tuple(runs), reference.utilization[strategy, share])
    return cells


def predicted(
    reference: Reference, *, shares: Iterable[int], seeds: Sequence[int], replicas: int
) -> Iterator[tuple[Costs, Cells]]:
    """Replay each half of the seeds with what is fitted to the other half."""
    halves = seeds[::2], seeds[1::2]
    for half, other in (halves, halves[::-1]):
        fitted = [
            batch for key, batch in reference.runs.items() if key.seed in other and key.strategy != "MalleableStrategy"
        ]
        costs = replace(AS_MEASURED, release_s=released_s(fitted))
        yield costs, replayed(reference, COMPAT, shares=shares, seeds=half, costs=costs, replicas=replicas)
