"""Harvesting: nodes of a partition, or quality of service, that Slurm takes back when others want them. Pure.

``Regrowth`` says when to ask for further ones:

===================================  ========================================================================
what happens                         what follows
===================================  ========================================================================
the program begins                   a look at once
nodes came                           the next look after half the pause, ``Harvest.every_s`` at least
no node was idle, or none was given  the next look after twice the pause, ``Harvest.most_s`` at most
a node was taken back, or lost       the same, from now on: others want nodes. All that are taken back before others
                                     came count as one
===================================  ========================================================================

So Slurm is asked seldom while there is nothing to be had, and nodes that are taken back as soon as they have come are
left to others for ever longer times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from scheduler_bridge.backends.slurm.reading import JobInfo
from scheduler_bridge.model import wording

LOANS: Final = "loans"
"""The file of the state folder with the nodes that companion jobs have lent, and when."""
SLOWEST = 60
"""How many times the shortest pause the longest one is."""


@dataclass(frozen=True, slots=True)
class Harvest:
    """Where nodes come from that can be taken back.

    Attributes:
        partition: The companion jobs' partition; empty: that of the job.
        qos: Their quality of service; empty: that of the job.
        every_s: The shortest pause between two looks for idle nodes.
    """

    partition: str = ""
    qos: str = ""
    every_s: float = 5.0

    def __str__(self) -> str:
        return " and ".join(filter(None, (self.partition, f"QOS {self.qos}" if self.qos else "")))

    @property
    def most_s(self) -> float:
        """The longest pause between two looks."""
        return SLOWEST * self.every_s

    def applied(self, of: JobInfo) -> JobInfo:
        """What a companion of ``of`` is to be like: on nodes that are none of a reservation."""
        return replace(of, partition=self.partition or of.partition, qos=self.qos or of.qos, reservation="")


class Regrowth:
    """When to look for idle nodes. Times are those of any one clock.

    Args:
        harvest: The bounds of the pauses.
        now_s: The beginning.

    Attributes:
        pause_s: The present pause.
        due_s: When to look next.
    """

    def __init__(self, harvest: Harvest, now_s: float) -> None:
        self._harvest = harvest
        self.pause_s = harvest.every_s
        self.due_s = now_s
        self._taken_back = False

    def came(self, now_s: float) -> None:
        """Nodes have come."""
        self._taken_back = False
        self.pause_s = max(self.pause_s / 2, self._harvest.every_s)
        self.due_s = now_s + self.pause_s

    def in_vain(self, now_s: float) -> None:
        """None has come."""
        self.pause_s = min(2 * self.pause_s, self._harvest.most_s)
        self.due_s = now_s + self.pause_s

    def taken_back(self, now_s: float) -> None:
        """A node was taken back, or lost."""
        if not self._taken_back:
            self._taken_back = True
            self.in_vain(now_s)
        self.due_s = max(self.due_s, now_s + self.pause_s)


# The books -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loan:
    """A node that a companion job has lent. Times are in seconds since 1970; None: it has not come to that.

    Attributes:
        companion: The job.
        node: The node.
        from_s: When it has begun to lend it.
        to_s: When it has ended.
        warned_s: When Slurm has warned that it takes the node back.
        left_s: When nothing of the program was on the node any more, of its own accord.
    """

    companion: int
    node: str
    from_s: float
    to_s: float | None = None
    warned_s: float | None = None
    left_s: float | None = None

    @property
    def lost(self) -> bool:
        """Whether the node was gone before the program had left it."""
        return self.to_s is not None and self.left_s is None


def summary(loans: Iterable[Loan], now_s: float) -> str:
    """Say what was lent, used and taken back."""
    lent = tuple(loans)
    seconds = sum((loan.to_s if loan.to_s is not None else now_s) - loan.from_s for loan in lent)
    held = sum(loan.to_s is None for loan in lent)
    said = f"{len(lent)} loans so far, {held} of them now, {seconds / 3600:.2f} node-hours"
    taken = [loan for loan in lent if loan.lost or loan.warned_s is not None]
    if not taken:
        return said
    left_s = [loan.left_s - loan.warned_s for loan in taken if loan.left_s is not None and loan.warned_s is not None]
    within = f" within {max(left_s):.1f} s" if left_s else ""
    lost = sum(loan.lost for loan in taken)
    return f"{said}; taken back {wording.nodes(len(taken))}, {len(left_s)} of them left{within}, {lost} lost"
