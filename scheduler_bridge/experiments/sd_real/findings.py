"""Findings from the records of the runs: figures of merit, and who shared which nodes for how long, never a core."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apgas.malleability.core_ids import parsed
from scheduler_bridge.experiments.outcome import DataTable, Value
from scheduler_bridge.experiments.real_runs.plan import RunKey
from scheduler_bridge.experiments.sd_policy.study import CLAIMS
from scheduler_bridge.experiments.sd_real.plan import SHARED, STATIC
from scheduler_bridge.experiments.study import CLOSE, Word, word_for
from scheduler_bridge.record import JobRecord, RunRecord, metrics
from scheduler_bridge.sim.measures import Power

MEASURES: Final[Mapping[str, str]] = {
    "makespan_s": "makespan s",
    "response_s": "response s",
    "slowdown": "slowdown",
    "energy_wh": "energy Wh",
    "wait_s": "wait s",
    "runtime_s": "runtime s",
    "utilization": "utilization %",
    "guests": "guests %",
    "mates": "mates %",
    "orders": "changes of cores",
}
PAPER: Final = tuple(MEASURES)[:4]
"""Those of the paper's figure 9."""
_WHY: Final = (
    "another batch on fewer, emulated nodes; jobs here scale linearly and share no memory bandwidth, the paper's used "
    "nodes better in pairs"
)


def is_guest(job: JobRecord) -> bool:
    """Whether the job was started on nodes of others."""
    return bool(job.segments) and job.segments[0].is_guest


def is_mate(job: JobRecord) -> bool:
    """Whether the job gave cores of its nodes to another one."""
    return not is_guest(job) and any(segment.share < 1 for segment in job.segments)


def changes(job: JobRecord) -> int:
    """How often it went on with another part of its nodes' cores."""
    shares = [segment.share for segment in job.segments]
    return sum(before != after for before, after in itertools.pairwise(shares))


def shared_s(job: JobRecord) -> float:
    """How long it had only a part of its nodes' cores."""
    return sum(segment.to_s - segment.from_s for segment in job.segments if segment.share < 1)


def _runtime_s(job: JobRecord) -> float:
    return 0.0 if job.start_s is None or job.end_s is None else job.end_s - job.start_s


def measures(record: RunRecord, alone_s: Mapping[int, float]) -> dict[str, float]:
    """The figures of merit of a run.

    Args:
        record: Of the run.
        alone_s: What each job, by its place in the batch, took under static backfill: the paper's static runtime.
    """
    found, power = metrics(record), Power()
    total = found.makespan_s * len(record.nodes)
    joules = found.busy_node_s * power.busy_w + max(0.0, total - found.busy_node_s) * power.idle_w
    responses = [(job.end_s or 0.0) - job.submit_s for job in record.jobs]
    slowdowns = [response / alone_s[at] for at, response in enumerate(responses) if alone_s.get(at)]
    return {
        "makespan_s": found.makespan_s,
        "response_s": statistics.fmean(responses),
        "slowdown": statistics.fmean(slowdowns) if slowdowns else 0.0,
        "energy_wh": joules / 3600,
        "wait_s": found.mean_wait_s or 0.0,
        "runtime_s": found.mean_runtime_s or 0.0,
        "utilization": 100 * found.utilization,
        "guests": 100 * statistics.fmean(is_guest(job) for job in record.jobs),
        "mates": 100 * statistics.fmean(is_mate(job) for job in record.jobs),
        "orders": float(sum(changes(job) for job in record.jobs)),
    }


def by_policy(records: Mapping[RunKey, RunRecord]) -> dict[str, dict[str, float]]:
    """Means over the batches, by policy."""
    runs: dict[str, list[dict[str, float]]] = {}
    for key, record in records.items():
        static = records[key._replace(policy=STATIC)]
        alone_s = {at: _runtime_s(job) for at, job in enumerate(static.jobs)}
        runs.setdefault(key.policy, []).append(measures(record, alone_s))
    return {
        policy: {name: statistics.fmean(run[name] for run in found) for name in MEASURES}
        for policy, found in runs.items()
    }


def change(found: Mapping[str, Mapping[str, float]], measure: str) -> float | None:
    """From static backfill to SD-Policy, in percent."""
    before = found[STATIC][measure]
    return 100 * (found[SHARED][measure] / before - 1) if before else None


def merit_table(found: Mapping[str, Mapping[str, float]]) -> DataTable:
    """Means over the batches and the changes, beside the paper's."""
    printed = {claim["measure"]: claim["printed"] for claim in CLAIMS["real"]}
    rows: list[tuple[Value, ...]] = [
        (
            title,
            found[STATIC][name],
            found[SHARED][name],
            change(found, name) if name not in ("guests", "mates", "orders") else None,
            printed.get(name) if name in PAPER else None,
        )
        for name, title in MEASURES.items()
    ]
    columns = ("mean of the batches", "static backfill", "sd-policy", "change %", "paper, change %")
    return DataTable("means", "SD-Policy beside static backfill", columns, tuple(rows))


def claims_table(found: Mapping[str, Mapping[str, float]], *, enough: bool) -> tuple[DataTable, list[Word]]:
    """The paper's claims on its real run, and the verdicts; of a batch that is not ``enough``, none."""
    rows: list[tuple[Value, ...]] = []
    words: list[Word] = []
    for claim in CLAIMS["real"]:
        text, printed, word = _judged(claim, found)
        words.append(word if enough else "not judged")
        rows.append((claim["text"], printed, text, words[-1], _WHY if words[-1] in ("same sign", "differs") else ""))
    columns = ("claim", "printed", "found", "verdict", "what is known of the reason")
    return DataTable("claims", "The paper's claims on its real run", columns, tuple(rows)), words


def _judged(claim: Mapping[str, Any], found: Mapping[str, Mapping[str, float]]) -> tuple[str, str, Word]:
    """What was found, what is printed, and the verdict."""
    printed = claim["printed"]
    if claim["measure"] == "guests":
        here = found[SHARED]["guests"]
        return f"{here:.1f} %", f"{printed:.1f} %", "holds" if abs(here - printed) <= CLOSE else "differs"
    changed = change(found, claim["measure"])
    if changed is None:
        return "-", f"{printed:+.1f} %", "not judged"
    return f"{changed:+.1f} %", f"{printed:+.1f} %", word_for(changed, printed)


def jobs_table(records: Mapping[RunKey, RunRecord]) -> DataTable:
    """Every job under both policies: waits, runtimes, and what it shared."""
    rows: list[tuple[Value, ...]] = []
    for key, record in records.items():
        if key.policy != SHARED:
            continue
        static = records[key._replace(policy=STATIC)]
        for before, job in zip(static.jobs, record.jobs, strict=True):
            role = "guest" if is_guest(job) else "mate" if is_mate(job) else ""
            least = min((segment.share for segment in job.segments), default=1.0)
            rows.append(
                (
                    f"{key.seed}/{job.name}",
                    job.nodes,
                    *(_wait_s(one) for one in (before, job)),
                    *(_runtime_s(one) for one in (before, job)),
                    role,
                    least,
                    shared_s(job),
                    changes(job),
                    "yes" if job.verified else "no",
                )
            )
    columns = (
        "batch/job",
        "nodes",
        "wait s, static",
        "wait s",
        "runtime s, static",
        "runtime s",
        "role",
        "least share of its nodes",
        "with a part of them for s",
        "changes of cores",
        "result right",
    )
    return DataTable("jobs", "The jobs under SD-Policy, and under static backfill", columns, tuple(rows))


def _wait_s(job: JobRecord) -> float | None:
    return None if job.start_s is None else job.start_s - job.submit_s


def sharers(records: Iterable[RunRecord]) -> int:
    """How many jobs were started on nodes of others."""
    return sum(is_guest(job) for record in records for job in record.jobs)


# Cores of jobs that met on a node ------------------------------------------------------------------------------------
#
# The record of a run shows whether such jobs ever had a core of the node in common.


@dataclass(frozen=True, slots=True)
class Meetings:
    """How often two jobs were on a node together, each with the same cores all the time.

    Attributes:
        apart: Without a core in common.
        unknown: Without that the record says which cores they had.
        clashes: With a core in common: who and where.
    """

    apart: int
    unknown: int
    clashes: tuple[str, ...]

    def said(self) -> str:
        """Say what was found, apart from clashes."""
        told = f"{self.apart} times two jobs were on a node together without a core in common"
        return f"{told}; of {self.unknown} times the records do not tell the cores." if self.unknown else f"{told}."


@dataclass(frozen=True, slots=True)
class _Stay:
    job_id: int
    from_s: float
    to_s: float
    cores: str


def meetings(records: Iterable[RunRecord]) -> Meetings:
    """Look at every two jobs that were on a node at the same time."""
    apart = unknown = 0
    clashes: list[str] = []
    for record in records:
        for node, stays in _by_node(record).items():
            for one, other in _together(stays):
                if not (one.cores and other.cores):
                    unknown += 1
                elif common := set(parsed(one.cores)) & set(parsed(other.cores)):
                    since_s = max(one.from_s, other.from_s)
                    clashes.append(
                        f"jobs {one.job_id} and {other.job_id} both had the cores {sorted(common)} of {node} at "
                        f"{since_s:.1f} s."
                    )
                else:
                    apart += 1
    return Meetings(apart, unknown, tuple(clashes))


def _by_node(record: RunRecord) -> dict[str, list[_Stay]]:
    found: dict[str, list[_Stay]] = {}
    for job in record.jobs:
        for segment in job.segments:
            for node, cores in segment.core_ids_by_node():
                found.setdefault(node, []).append(_Stay(job.job_id, segment.from_s, segment.to_s, cores))
    return found


def _together(stays: list[_Stay]) -> Iterator[tuple[_Stay, _Stay]]:
    for one, other in itertools.combinations(stays, 2):
        if one.job_id != other.job_id and one.from_s < other.to_s and other.from_s < one.to_s:
            yield one, other
