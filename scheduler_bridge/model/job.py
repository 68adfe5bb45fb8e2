"""Jobs as users submit them."""

from __future__ import annotations

import math
from typing import Final, Literal, TypeAlias

import msgspec

JobClass: TypeAlias = Literal["rigid", "malleable"]
LARGEST: Final = 1e15
"""Of numbers that people give: from about 9e15 on, floating-point numbers do not tell one second from the next."""


class InvalidJobError(ValueError):
    """A job that no cluster could run as it is described; the text names the job and the field."""


class JobSpec(msgspec.Struct, frozen=True, gc=False):
    """A submitted job. It never changes; what becomes of it is a ``TrackedJob`` of the scheduler core.

    Attributes:
        job_id: Unique, not negative.
        name: For people; may be empty, see ``label``.
        user: Who submitted it.
        job_class: ``rigid`` jobs run on exactly ``nodes``; ``malleable`` ones on ``min_nodes`` to ``max_nodes``, and
            the scheduler may resize them while they run.
        nodes: The size that the user asked for; the walltime is meant at this size.
        min_nodes: Smallest allocation; equals ``nodes`` for a rigid job.
        max_nodes: Largest allocation; equals ``nodes`` for a rigid job.
        walltime_s: The user's bound on the runtime, in seconds.
        submit_s: When it was submitted, in seconds of the scheduler's clock.
        command: What to run; may be empty in simulations.
        rho: How far the job's speedup stays behind its nodes, as the scheduler believes: n nodes do the work of one
            n^(1 - rho) times as fast. 0 is linear [MEBF, section 2.2].
        reservation: The advance reservation on whose nodes it is to run; empty: none.
        overhead: alpha and beta of what a resize costs it, as the scheduler believes [MEBF, equation 1]; None: not
            known.
        resilient: It survives the loss of nodes, but for the first one.

    Raises:
        InvalidJobError: A field is out of range or contradicts another one.
    """

    job_id: int
    name: str
    user: str
    job_class: JobClass
    nodes: int
    min_nodes: int
    max_nodes: int
    walltime_s: float
    submit_s: float
    command: tuple[str, ...] = ()
    rho: float = 0.0
    reservation: str = ""
    overhead: tuple[float, float] | None = None
    resilient: bool = False

    def __post_init__(self) -> None:
        if self.job_id < 0:
            raise self._wrong(f"job_id is {self.job_id}, must not be negative")
        if self.job_class not in ("rigid", "malleable"):
            raise self._wrong(f"job_class is {self.job_class!r}, must be rigid or malleable")
        if not 1 <= self.min_nodes <= self.nodes <= self.max_nodes:
            raise self._wrong(self._wrong_size())
        if self.job_class == "rigid" and self.min_nodes != self.max_nodes:
            sizes = f"min_nodes is {self.min_nodes} and max_nodes is {self.max_nodes}"
            raise self._wrong(f"a rigid job has one size, but {sizes}")
        # comparisons with infinity and NaN that are false where the number will not do
        if not 0 < self.walltime_s < math.inf:
            raise self._wrong(f"walltime_s is {self.walltime_s}, must be positive and finite")
        if not 0 <= self.rho <= 1:
            raise self._wrong(f"rho is {self.rho}, must be from 0 to 1")
        if not -math.inf < self.submit_s < math.inf:
            raise self._wrong(f"submit_s is {self.submit_s}, must be finite")
        if self.overhead is not None and not all(0 <= number < math.inf for number in self.overhead):
            raise self._wrong(f"overhead is {self.overhead}, must be two finite numbers, not negative")

    def _wrong(self, what: str) -> InvalidJobError:
        return InvalidJobError(f"job {self.job_id} ({self.name!r}): {what}")

    def _wrong_size(self) -> str:
        if self.min_nodes < 1:
            return f"min_nodes is {self.min_nodes}, must be at least 1"
        if self.nodes < self.min_nodes:
            return f"nodes is {self.nodes}, below min_nodes {self.min_nodes}"
        return f"nodes is {self.nodes}, above max_nodes {self.max_nodes}"

    def walltime_at_s(self, nodes: int) -> float:
        """The walltime, which is meant at ``self.nodes``, predicted for another size by ``rho``."""
        return self.walltime_s if nodes == self.nodes else self.walltime_s * (self.nodes / nodes) ** (1.0 - self.rho)

    @property
    def label(self) -> str:
        """Its name; of a job without one, which most of a trace are, its id: as names, they would take much memory."""
        return self.name or f"job {self.job_id}"

    @property
    def is_malleable(self) -> bool:
        """Whether the scheduler may resize the job while it runs."""
        return self.job_class == "malleable"


# Files of jobs (TOML) -------------------------------------------------------------------------------------------------

JOB_FILE_KEYS: Final = (
    "name", "class", "nodes", "min_nodes", "max_nodes", "walltime_s", "command", "cwd", "env", "launch", "hold",
    "priority", "after_ok", "after_any", "requeue", "resilient", "output", "errors", "array", "user", "grace_s",
    "protocol", "rho", "reservation",
)  # fmt: skip
"""What ``malleable submit`` takes; a simulation needs some of them only, and reads others besides."""
