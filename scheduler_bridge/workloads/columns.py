"""Which columns of a machine's accounting files mean what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from scheduler_bridge.workloads.findings import TraceError
from scheduler_bridge.workloads.tables import read_table


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """The columns of a CSV file. Times are seconds since 1970 or ``YYYY-MM-DD HH:MM:SS``, durations are seconds.

    Attributes:
        name: Which file this is.
        machine_nodes: Nodes of the machine, by partition kind where there are several; "" is any.
        job: Id of the job.
        submit: Time of the submission.
        nodes: Nodes that were requested, or allocated where only that is known.
        runtime: Seconds that it ran; empty: end less start.
        walltime: Seconds that were requested; empty: not in the file.
        start: Time of the start; empty: not in the file.
        end: Time of the end; empty: not in the file.
        wait: Seconds that it waited; empty: start less submission.
        user: Who submitted it.
        group: The user's project or account.
        queue: The queue or quality of service.
        partition: The part of the machine.
        processors: Processors that were requested.
        gpus: GPUs that were requested; jobs with some ran on nodes that are not modelled.
        state: How it ended.
        raw_hours: Node-hours that were really used: less than nodes times runtime where a job shared its node.
        kind: The column that says on which kind of nodes it ran.
        split_days: A job has a record for every day on which it ran.
        arrays: The tasks of an array have the same id.
    """

    name: str
    machine_nodes: Mapping[str, int]
    job: str
    submit: str
    nodes: str
    runtime: str = ""
    walltime: str = ""
    start: str = ""
    end: str = ""
    wait: str = ""
    user: str = ""
    group: str = ""
    queue: str = ""
    partition: str = ""
    processors: str = ""
    gpus: str = ""
    state: str = ""
    raw_hours: str = ""
    kind: str = ""
    split_days: bool = False
    arrays: bool = False

    @property
    def required(self) -> tuple[str, ...]:
        """The columns without which nothing can be read."""
        needed = (self.job, self.submit, self.nodes, self.runtime or self.end)
        return tuple(column for column in needed if column)


@cache
def maps() -> Mapping[str, ColumnMap]:
    """By the name of the machine, and of the collection where there are several."""
    return read_table("scheduler_bridge.workloads", "columns.toml", ColumnMap)


def find_map(columns: tuple[str, ...], path: object) -> ColumnMap:
    """The map that fits a file's columns.

    Raises:
        TraceError: None does.
    """
    for candidate in maps().values():
        if set(candidate.required) <= set(columns):
            return candidate
    known = "; ".join(f"{name}: {', '.join(candidate.required)}" for name, candidate in maps().items())
    raise TraceError(
        f"{path}: unknown columns {', '.join(columns)[:200] or '(none)'}",
        f"known files have these columns: {known}",
        "give a file of Eagle, Theta or Cori, or convert it to the Standard Workload Format",
    )
