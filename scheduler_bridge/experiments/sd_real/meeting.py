"""Whether jobs that were on a node together ever had a core of it in common, as the record of the run has it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from apgas.malleability.core_ids import parsed
from scheduler_bridge.record import RunRecord


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
