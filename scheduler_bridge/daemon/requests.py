"""The words between users and the daemon (control protocol v1): one JSON object on one line, one answer per request."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from scheduler_bridge.core import Explanation, ReservationStatus, Snapshot

CONTROL_VERSION: Final = 1
ARRAY_MOST: Final = 10_000
"""The most jobs that an array has."""
REQUEST_MOST_BYTES: Final = 256 * 1024
"""The longest request; what is kept of a job, or of all jobs of an array together, is no longer."""
RESERVATION_MOST_S: Final = 315_360_000
"""Ten years: a reservation begins no later, and lasts no longer."""
ENV_RESILIENT: Final = "APGAS_RESILIENT"
ENV_INDEX: Final = "MALLEABLE_ARRAY_INDEX"
"""The variable in which a job of an array finds its number."""

JobClass: TypeAlias = Literal["rigid", "malleable"]
Launch: TypeAlias = Literal["auto", "mpiexec", "direct"]
Protocol: TypeAlias = Literal["v1", "v2"]
NodeChange: TypeAlias = Literal["add", "remove", "drain", "resume", "down"]
HeldBy: TypeAlias = Literal["user", "operator"]
"""Who holds a job back: an operator's hold is not its user's to release."""
NodeCount = Annotated[int, Meta(ge=1, le=1_000_000)]
Word = Annotated[str, Meta(max_length=32_000)]


class SubmitError(ValueError):
    """A job that cannot be taken; ``field`` names the culprit, ``why`` and ``hint`` say the rest."""

    def __init__(self, reason: str, *, field: str = "", why: str = "", hint: str = "") -> None:
        super().__init__(reason)
        self.field = field
        self.why = why
        self.hint = hint


class JobRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job as its user asks for it.

    It is no ``JobSpec``: it has no id and no time yet, and says how to run the job, which the core does not know.

    Attributes:
        command: Program and arguments; no shell reads them. ``{hosts}`` and ``{count}`` stand for the job's nodes,
            ``{cores}`` for the cores of each place that it may use, ``{core_ids}`` for the ids of those of each node.
        nodes: Size that the user wants (rigid: the size).
        walltime_s: The job is ended after this many seconds of running.
        cwd: Folder in which the command runs; empty: the daemon's.
        environment: Variables in addition to the daemon's.
        launch: "direct" executes the command as it is; "auto" prepends a launcher, unless the command is one itself or
            has a placeholder: ``apgas.launch``, unless the daemon has an mpiexec for its jobs; "mpiexec" prepends that
            in any case.
        protocol: What the program speaks: "v2" (nothing, if it is rigid), or "v1", the published Java system's text.
        hold: Keep it back until it is released, as its user's own hold.
        priority: Jobs with a higher one are considered first.
        after_ok: Jobs that are to complete before; if one does not, this one is cancelled.
        after_any: Jobs that are to end before, however they do.
        requeue: Run it again if it is lost with a node or a machine.
        resilient: Its program goes on when a node is lost (``python -m apgas.survive``), so that it is not ended then.
        output: File for its standard output, as seen from ``cwd``; ``{job}`` stands for its id, ``{index}`` for its
            number in an array. Empty: the scheduler keeps it.
        errors: The same for its standard error; empty: where ``output`` goes if that is given.
        grace_s: Time between TERM and KILL when it is ended; None: the scheduler's.
        rho: How far the speedup stays behind the nodes, n^(1 - rho); for policies that ask for it.
        reservation: Run it on the nodes of this advance reservation, in its time; empty: on any others.
    """

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    command: Annotated[tuple[Word, ...], Meta(min_length=1, max_length=1000)]
    job_class: JobClass = "rigid"
    nodes: NodeCount = 1
    min_nodes: NodeCount | None = None
    max_nodes: NodeCount | None = None
    walltime_s: Annotated[float, Meta(gt=0, le=31_536_000)] = 3600.0
    user: Annotated[str, Meta(max_length=200)] = ""
    cwd: Word = ""
    environment: dict[str, Word] = {}
    launch: Launch = "auto"
    protocol: Protocol = "v2"
    hold: bool = False
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] = 0
    after_ok: Annotated[tuple[int, ...], Meta(max_length=10_000)] = ()
    after_any: Annotated[tuple[int, ...], Meta(max_length=10_000)] = ()
    requeue: bool = False
    resilient: bool = False
    output: Word = ""
    errors: Word = ""
    grace_s: Annotated[float, Meta(ge=0, le=3600)] | None = None
    rho: Annotated[float, Meta(ge=0, le=1)] = 0.0
    reservation: Annotated[str, Meta(max_length=100)] = ""

    def bounds(self) -> tuple[int, int, int]:
        """Return (min, wanted, max) nodes.

        Raises:
            SubmitError: The bounds contradict each other.
        """
        if self.job_class == "rigid":
            if (self.min_nodes or self.nodes) != self.nodes or (self.max_nodes or self.nodes) != self.nodes:
                raise SubmitError(
                    f"a rigid job has one size, not {self.min_nodes or self.nodes} to {self.max_nodes or self.nodes}",
                    field="min_nodes",
                    why="a rigid job keeps its nodes from start to end",
                    hint="give --nodes only, or --class malleable",
                )
            return self.nodes, self.nodes, self.nodes
        low = self.min_nodes if self.min_nodes is not None else self.nodes
        high = self.max_nodes if self.max_nodes is not None else max(low, self.nodes)
        if high < low:
            raise SubmitError(
                f"max_nodes ({high}) is below min_nodes ({low})",
                field="max_nodes",
                why="a malleable job needs min_nodes <= max_nodes",
                hint=f"set max_nodes to at least {low}",
            )
        return low, min(max(self.nodes, low), high), high


def array_job(request: JobRequest, number: int | None) -> JobRequest:
    """Return the job of an array with this number; None: the request is one job."""
    if number is None:
        return request
    environment = {**request.environment, ENV_INDEX: str(number)}
    return msgspec.structs.replace(request, name=array_name(request, number), environment=environment)


def is_resilient(request: JobRequest) -> bool:
    """Whether the job's program goes on when a node is lost."""
    return request.resilient or request.environment.get(ENV_RESILIENT) == "1"


def array_name(request: JobRequest, number: int | None) -> str:
    """Return the name of the job of an array with this number; None: the request is one job."""
    return request.name if number is None else f"{request.name}[{number}]"


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", kw_only=True):
    """Base of every request."""

    version: int = CONTROL_VERSION


class Submit(Request, frozen=True, tag="submit", kw_only=True):
    """Take a job, or one for each number of ``array``: all of them or none; answered by ``Submitted``."""

    job: JobRequest
    array: Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(max_length=ARRAY_MOST)] = ()


class Status(Request, frozen=True, tag="status"):
    """Say what runs and waits; answered by ``Snapshot``."""


class Cancel(Request, frozen=True, tag="cancel", kw_only=True):
    """End a job, waiting or running; answered by ``Done``."""

    job: Annotated[int, Meta(ge=0)]


class Resize(Request, frozen=True, tag="resize", kw_only=True):
    """Have a malleable job grow (positive ``delta``) or shrink, if its bounds and the free nodes allow; ``Done``."""

    job: Annotated[int, Meta(ge=0)]
    delta: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)]


class Explain(Request, frozen=True, tag="explain", kw_only=True):
    """Say why a job waits or was resized, and how that came about; answered by ``Explained``."""

    job: Annotated[int, Meta(ge=0)]


class Use(Request, frozen=True, tag="use", kw_only=True):
    """Let another policy decide from now on; answered by ``Done``."""

    policy: Annotated[str, Meta(max_length=200)]
    parameters: dict[str, Any] = {}


class Hold(Request, frozen=True, tag="hold", kw_only=True):
    """Keep a waiting job back, or (``held`` false) release it; answered by ``Done``.

    ``as_user``: as its user's own hold, which she may release; so is whatever its user holds.
    """

    job: Annotated[int, Meta(ge=0)]
    held: bool = True
    as_user: bool = False


class Prioritise(Request, frozen=True, tag="prioritise", kw_only=True):
    """Give a waiting job another priority; answered by ``Done``."""

    job: Annotated[int, Meta(ge=0)]
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)]


class ChangeNode(Request, frozen=True, tag="node", kw_only=True):
    """Add or remove a node, drain it, put it back into service, or take it down at once; answered by ``Done``.

    One that is removed takes no further jobs, and is forgotten when it has none.
    """

    node: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.\-]{1,255}$")]
    to: NodeChange


class LimitUsers(Request, frozen=True, tag="limit", kw_only=True):
    """Limit how many nodes the jobs of one user hold together from now on, None: not at all; answered by ``Done``."""

    nodes: NodeCount | None


class Reserve(Request, frozen=True, tag="reserve", kw_only=True):
    """Keep nodes for some jobs from a time on; answered by ``Kept``.

    Attributes:
        in_s: Seconds from now to its beginning.
        duration_s: Lasts so long.
        nodes: How many nodes; None: those that are named.
        named: Which ones; empty: any.
        name: Empty: the scheduler gives it one.
        users: Who may ask for it; empty: everybody.
        jobs: Waiting jobs that belong to it.
    """

    in_s: Annotated[float, Meta(ge=0, le=RESERVATION_MOST_S)]
    duration_s: Annotated[float, Meta(gt=0, le=RESERVATION_MOST_S)]
    nodes: NodeCount | None = None
    named: Annotated[tuple[str, ...], Meta(max_length=10_000)] = ()
    name: Annotated[str, Meta(max_length=100)] = ""
    users: Annotated[tuple[Annotated[str, Meta(max_length=200)], ...], Meta(max_length=1000)] = ()
    jobs: Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(max_length=10_000)] = ()


class Unreserve(Request, frozen=True, tag="unreserve", kw_only=True):
    """Keep the nodes of a reservation no longer; answered by ``Done``."""

    name: Annotated[str, Meta(max_length=100)]


class GetRecord(Request, frozen=True, tag="report"):
    """Give the record of the run so far; answered by ``Recorded``."""


class Shutdown(Request, frozen=True, tag="shutdown"):
    """End all jobs and the daemon, or the daemon alone; answered by ``Done`` before it begins."""

    keep_jobs: bool = False


class Submitted(msgspec.Struct, frozen=True, tag_field="type", tag="submitted"):
    """The job is queued under this id; ``jobs``: those of an array, ``job`` is the first of them."""

    job: int
    jobs: tuple[int, ...] = ()


class Done(msgspec.Struct, frozen=True, tag_field="type", tag="done"):
    """The request was carried out; ``log_behind``: why the log has not what that led to."""

    text: str = ""
    log_behind: str = ""


class Kept(msgspec.Struct, frozen=True, tag_field="type", tag="kept"):
    """The nodes are kept."""

    reservation: ReservationStatus


class Explained(msgspec.Struct, frozen=True, tag_field="type", tag="explained"):
    """Why the job is where it is."""

    explanation: Explanation


class Recorded(msgspec.Struct, frozen=True, tag_field="type", tag="recorded"):
    """The record of the run (``scheduler_bridge.record.RunRecord``) as JSON."""

    record: msgspec.Raw


class Failure(msgspec.Struct, frozen=True, tag_field="type", tag="failure"):
    """The request changed nothing, for ``reason``."""

    reason: str
    field: str = ""
    why: str = ""
    hint: str = ""


Manage: TypeAlias = Use | Hold | Prioritise | ChangeNode | LimitUsers | Unreserve
"""What an operator asks of a scheduler; a session with one program has nothing of it."""
AnyRequest: TypeAlias = Submit | Status | Cancel | Resize | Manage | Reserve | Explain | GetRecord | Shutdown
AnyReply: TypeAlias = Submitted | Snapshot | Done | Kept | Explained | Recorded | Failure

REQUESTS: Final = msgspec.json.Decoder(AnyRequest)
REPLIES: Final = msgspec.json.Decoder(AnyReply)
