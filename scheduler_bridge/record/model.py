"""What a run of the scheduler leaves behind: one record, from which tables, pictures and reports are drawn.

All times are seconds since the origin of the record (``RunRecord.started_at`` says when that was).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

RECORD_VERSION = 1

JobState: TypeAlias = Literal["waiting", "running", "completed", "failed", "cancelled", "timeout", "lost", "refused"]
ResizeOutcome: TypeAlias = Literal["pending", "done", "refused", "aborted", "not_due"]
ResizeKind: TypeAlias = Literal["grow", "shrink"]
_Nodes: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


class Segment(msgspec.Struct, frozen=True):
    """The nodes that a job held from ``from_s`` to ``to_s``; the next segment starts where the allocation changed.

    ``share`` is the part of these nodes' cores that it could use: less than 1 where jobs share nodes; ``shares`` that
    of each node, if they differ. ``is_guest``: it was started on nodes of others. ``core_ids``: which cores of these
    nodes, as ``0-3,8``, one list for all or one for each; empty: all, or older than that this was known.
    """

    from_s: float
    to_s: float
    nodes: tuple[str, ...]
    share: float = 1.0
    is_guest: bool = False
    shares: tuple[float, ...] = ()
    core_ids: tuple[str, ...] = ()

    def by_node(self) -> Iterable[tuple[str, float]]:
        """Each node, and the part of its cores that the job could use."""
        return zip(self.nodes, self.shares or (self.share,) * len(self.nodes), strict=True)

    def core_ids_by_node(self) -> Iterable[tuple[str, str]]:
        """Each node, and which of its cores the job could use; empty: all, or not known."""
        ids = self.core_ids or ("",)
        return zip(self.nodes, ids * len(self.nodes) if len(ids) == 1 else ids, strict=True)


class ResizeRecord(msgspec.Struct):
    """The life of one order; ``nodes`` are those gained or released (wished for, while it is pending).

    ``seconds`` and ``phases`` are what the job itself measured, ``done_s - ordered_s`` what the scheduler saw.
    """

    order: int
    kind: ResizeKind
    count: int
    ordered_s: float
    done_s: float | None = None
    seconds: float | None = None
    phases: dict[str, float] = msgspec.field(default_factory=dict)
    outcome: ResizeOutcome = "pending"
    reason: str = ""
    nodes: tuple[str, ...] = ()


class JobRecord(msgspec.Struct):
    """One job from its submission to its end; ``result`` is the JSON document that the job itself wrote.

    It is no ``JobStatus``: it keeps the whole course, with names of nodes, in a file that outlives the scheduler.

    ``ready_s``: since when it takes orders; None: it never did. ``rho``: how far its speedup stays behind its nodes, as
    the scheduler believed (see ``JobSpec``). ``after_ok``, ``after_any``: the jobs that it was to come after, asked for
    at ``requested_s``; ``submit_s`` is when they had ended. ``restarts_s``: when place 0 was lost and it was started
    again on its nodes; ``start_s`` stays that of its first start.
    """

    job_id: int
    name: str
    user: str
    job_class: str
    nodes: _Nodes
    min_nodes: _Nodes
    max_nodes: _Nodes
    walltime_s: float
    submit_s: float
    command: tuple[str, ...] = ()
    start_s: float | None = None
    end_s: float | None = None
    state: JobState = "waiting"
    reason: str = ""
    segments: list[Segment] = msgspec.field(default_factory=list)
    resizes: list[ResizeRecord] = msgspec.field(default_factory=list)
    result: dict[str, Any] | None = None
    verified: bool | None = None
    ready_s: float | None = None
    rho: float = 0.0
    after_ok: tuple[int, ...] = ()
    after_any: tuple[int, ...] = ()
    requested_s: float | None = None
    restarts_s: tuple[float, ...] = ()

    @property
    def malleable(self) -> bool:
        """Whether the job may be resized while it runs."""
        return self.job_class == "malleable"

    def done(self, kind: ResizeKind) -> int:
        """Count the orders of this ``kind`` that were carried out."""
        return sum(1 for resize in self.resizes if resize.kind == kind and resize.outcome == "done")


class Reserved(msgspec.Struct, frozen=True):
    """A node that was promised to a job but not yet in use, or that was down (``job_id`` is None)."""

    node: str
    from_s: float
    to_s: float
    job_id: int | None


class Advance(msgspec.Struct, frozen=True):
    """Nodes that were kept for the jobs of an advance reservation, or are to be."""

    name: str
    from_s: float
    to_s: float
    nodes: tuple[str, ...]


class RunRecord(msgspec.Struct):
    """Everything that happened on ``nodes`` under one policy; ``end_s`` is the last moment that was observed."""

    policy: str
    nodes: list[str]
    started_at: str = ""
    end_s: float = 0.0
    jobs: list[JobRecord] = msgspec.field(default_factory=list)
    reserved: list[Reserved] = msgspec.field(default_factory=list)
    advance: list[Advance] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    provenance: dict[str, Any] = msgspec.field(default_factory=dict)
    version: int = RECORD_VERSION


def encode_record(record: RunRecord) -> bytes:
    """Encode ``record`` as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1)


def decode_record(data: bytes) -> RunRecord:
    """Decode what ``encode_record`` wrote.

    Raises:
        msgspec.DecodeError: ``data`` is not a record of this version's form; the text names the field.
    """
    return msgspec.json.decode(data, type=RunRecord)
