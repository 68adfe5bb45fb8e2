"""How much to process at a time, and what worker slots without a bag do. Pure: the caller brings the time."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

SHORTEST_CALL_S: Final = 0.00005
"""Shorter calls of ``process`` lose 20 to 30 % to handing over the GIL between threads."""
LONG_CALL_S: Final = 0.005
"""Before calls that are expected to take longer, what they do not process is set out if others may ask for it."""
VERY_LONG_CALL_S: Final = 0.03
"""Before calls that are expected to take longer, it is set out in any case."""
SURPRISE_S: Final = 0.1
"""After a call that took longer, the next one is expected to do so, too, even if those before it were short."""
PACED_CHUNK_S: Final = 0.01
"""A worker of limited rate stays at most this long in one chunk, its pause included."""
MOST_CATCH_UP_S: Final = 0.25
"""A worker of limited rate that has fallen further behind gives up the rest."""
_GROWTH: Final = 8
_WEIGHT: Final = 0.25
_OUTLIER: Final = 2.0


class Granularity:
    """Number of tasks per call of ``process``, tuned to a target time.

    Starts at one task, because a task may take a second, and grows at most eightfold per call. A call that takes much
    longer than expected is believed when the next one does, too: most often the thread had to wait for a core, and
    shorter calls would not spare it that.

    How long calls are is known of fixed and limited ones, too: ``long`` says whether the next one may be so long that
    others should not have to wait for it, ``very_long`` whether not even the first of them should. Both are so of the
    first call.

    Args:
        fixed: Tasks per call, or None to tune.
        target_s: Seconds that a call should take.
        rate: Limit of tasks per second, or None; a chunk is then as long as ``PACED_CHUNK_S`` allows, which means fewer
            and longer calls than without a limit.
    """

    def __init__(self, fixed: int | None = None, target_s: float = 0.0003, rate: float | None = None) -> None:
        self.n = fixed or 1
        self.long = self.very_long = True
        self._fixed = fixed is not None
        self._target_s = max(target_s, SHORTEST_CALL_S)
        self._most = None if rate is None else max(1, int(rate * PACED_CHUNK_S))
        self._per_task_s = 0.0
        self._outlier_s = 0.0

    def observe(self, tasks: int, seconds: float) -> None:
        """Learn from a call that processed ``tasks`` in ``seconds``.

        A call that has processed none was ended by the bag itself, so that its worker can look.
        """
        if tasks <= 0:
            self.long = self.very_long = False
            return
        per_task_s = max(seconds / tasks, 1e-12)
        expected_s = self._per_task_s or per_task_s
        if per_task_s <= _OUTLIER * expected_s:
            self._outlier_s = 0.0
            self._per_task_s = expected_s + (per_task_s - expected_s) * _WEIGHT
        elif self._outlier_s:
            self._per_task_s = min(per_task_s, self._outlier_s)
        else:
            self._outlier_s = per_task_s
        if self._most is not None:
            self.n = min(self._most, self.n * _GROWTH)
        elif not self._fixed:
            self.n = max(1, min(round(self._target_s / self._per_task_s), self.n * _GROWTH))
        expected_s = self.n * self._per_task_s
        self.very_long = expected_s >= VERY_LONG_CALL_S or seconds >= SURPRISE_S
        self.long = self.very_long or expected_s >= LONG_CALL_S


class Pacer:
    """Holds a worker to a rate, in tasks per second: ahead of its schedule it pauses, behind it catches up, to a bound.

    Attributes:
        worst_lag_s: How far it was behind at most.
        given_up_s: What it was behind beyond the bound, in all: work that is done so much later than it should be.
    """

    def __init__(self, rate: float, now: float) -> None:
        self._seconds_per_task = 1.0 / rate
        self._due = now
        self.worst_lag_s = 0.0
        self.given_up_s = 0.0

    def resume(self, now: float) -> None:
        """Begin a new stretch of work: idle time earns no credit, but a pause still owed remains."""
        self._due = max(self._due, now)

    def done(self, tasks: int, now: float) -> float:
        """Account for ``tasks``; return the time at which the worker is on schedule (past if it is behind)."""
        self._due += tasks * self._seconds_per_task
        lag_s = now - self._due
        self.worst_lag_s = max(self.worst_lag_s, lag_s)
        if lag_s > MOST_CATCH_UP_S:
            self.given_up_s += lag_s - MOST_CATCH_UP_S
            self._due = now - MOST_CATCH_UP_S
        return self._due


MOST_BACKING_UP: Final = 0.005
"""The share of a place's time that the backups which are made because they are due may take, here and at place 0."""


class Backups:
    """When a place is to back up what it has to do: after each ``every_s`` of work, unless that would take too much.

    What it begins with place 0 knows.
    """

    def __init__(self, every_s: float, now: float) -> None:
        self._every_s = every_s
        self._due_s = now + every_s
        self._paid_s = now

    def due(self, now: float) -> bool:
        """Whether it is time for one, which is made then."""
        if now < max(self._due_s, self._paid_s):
            return False
        self.made(now)
        return True

    def made(self, now: float) -> None:
        """One was made that has all that there is."""
        self._due_s = now + self._every_s

    def spent(self, seconds: float, now: float) -> None:
        """One that was due took so much of a core's time: the next one has to wait until that is paid."""
        self._paid_s = now + seconds / MOST_BACKING_UP

    def waited(self, seconds: float) -> None:
        """The place had no core for so long, and has done no work; where six share one, a second of work takes six."""
        self._due_s += seconds
        self._paid_s += seconds


# What the worker slots of a place do while they have no bag. Pure: the caller brings the time ------------------------
#
# A slot that may have a worker and has none is idle: stealing while the place waits for the answer of a random victim,
# starving otherwise (its lifelines are asked, or its siblings have nothing to spare). A slot whose number is not below
# the wanted number of workers is closed, which is neither.

Kind: TypeAlias = Literal["stealing", "starving"]


class Stretch(msgspec.Struct, frozen=True):
    """A slot was idle in one way, from ``began`` to ``ended`` (s)."""

    slot: int
    kind: Kind
    began: float
    ended: float


class Idleness:
    """The idle slots of one place, which are all at first, and the ``busy`` ones, which have a worker."""

    def __init__(self, workers: int, now: float) -> None:
        self.wanted = workers
        self._since: dict[int, float] = dict.fromkeys(range(workers), now)
        self.busy: set[int] = set()
        self._stealing = False

    def open_s(self, now: float) -> float:
        """Return the seconds of the stretches that have not ended, together."""
        return sum(now - since for since in self._since.values())

    def stealing(self, stealing: bool, now: float) -> list[Stretch]:
        """The place begins or ceases to ask random victims."""
        if stealing == self._stealing:
            return []
        ended = self.cut(now)
        self._stealing = stealing
        return ended

    def begins(self, slot: int, now: float) -> list[Stretch]:
        """A worker begins in ``slot``."""
        self.busy.add(slot)
        return self._end(slot, now)

    def ends(self, slot: int, now: float) -> None:
        """The worker in ``slot`` ends."""
        self.busy.discard(slot)
        if slot < self.wanted:
            self._since[slot] = now

    def want(self, workers: int, now: float) -> list[Stretch]:
        """There are to be ``workers`` workers."""
        self.wanted = workers
        closed = [slot for slot in self._since if slot >= workers]
        stretches = [stretch for slot in closed for stretch in self._end(slot, now)]
        for slot in range(workers):
            if slot not in self.busy:
                self._since.setdefault(slot, now)
        return stretches

    def cut(self, now: float) -> list[Stretch]:
        """End all stretches, and begin new ones."""
        stretches = [stretch for slot in list(self._since) for stretch in self._end(slot, now)]
        self._since |= {stretch.slot: now for stretch in stretches}
        return stretches

    def _end(self, slot: int, now: float) -> list[Stretch]:
        began = self._since.pop(slot, None)
        return [] if began is None else [Stretch(slot, "stealing" if self._stealing else "starving", began, now)]
