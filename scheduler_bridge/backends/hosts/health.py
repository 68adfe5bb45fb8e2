"""What follows from a look at a host: pure. The failures in a row count, and how the node stands with the scheduler.

=============  ==========================  ==========================================================================
look           the node                    what follows
=============  ==========================  ==========================================================================
answered       ailing                      regain: it is back in service
answered       serving, or out by wish     nothing
failed         serving, below the limit    suspect: it gets no further jobs, those that it has go on
failed         at the limit                lose: its jobs are ended, but not those that can go on without it
failed         serving, above the limit    lose: somebody has put it back into service, and it does not answer
failed         for too long a time         end: all of its jobs are ended, once
failed         else                        nothing
=============  ==========================  ==========================================================================

Ailing is what was taken out of service for not answering. A node that an operator took out stays out: looks at it only
decide what becomes of the jobs that it still has. One that is away (out, without jobs) is not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from scheduler_bridge.daemon import Standing

_MOST_DOUBLINGS: Final = 30


class Verdict(StrEnum):
    """What is to be done with a node."""

    NOTHING = "nothing"
    SUSPECT = "suspect"
    LOSE = "lose"
    END = "end"
    REGAIN = "regain"


@dataclass(frozen=True, slots=True)
class Rules:
    """How hosts are looked at.

    Attributes:
        every_s: Time between looks at a host that answers.
        deadline_s: Time for it to answer.
        failures: After so many looks in a row without an answer it is lost.
        again_s: Time until the next look at one that has just not answered.
        spared_s: Jobs that can go on without a host have so much time, since the first failure, to notice that it is
            lost; TCP needs a minute.
        slowest_s: Looks at a lost one become rarer, down to one in this time.
        at_once: How many hosts are looked at at the same time.
        together: Whether one look tells of all hosts, so that they are best looked at in the same moment.
    """

    every_s: float = 15.0
    deadline_s: float = 10.0
    failures: int = 3
    again_s: float = 2.0
    spared_s: float = 180.0
    slowest_s: float = 120.0
    at_once: int = 32
    together: bool = False

    def wait_s(self, failed: int) -> float:
        """Return the time until the next look, after ``failed`` failures in a row."""
        if failed == 0:
            return self.every_s
        if failed < self.failures:
            return min(self.again_s, self.every_s)
        doublings = min(failed - self.failures, _MOST_DOUBLINGS)
        return max(self.every_s, min(self.every_s * 2.0**doublings, self.slowest_s))


@dataclass(frozen=True, slots=True)
class Record:
    """What is remembered of a host between looks.

    Attributes:
        failed: Looks in a row that it did not answer.
        since_s: When the first of them was.
        ended: Whether all of its jobs were ended for that.
    """

    failed: int = 0
    since_s: float = 0.0
    ended: bool = False


def judge(rules: Rules, record: Record, standing: Standing, now_s: float, *, answered: bool) -> tuple[Record, Verdict]:
    """Return what is to be remembered after a look, and what follows.

    Args:
        rules: The limits.
        record: What was remembered before it.
        standing: How the node stands.
        now_s: When the look was.
        answered: What it gave.
    """
    if answered:
        return Record(), Verdict.REGAIN if standing is Standing.AILING else Verdict.NOTHING
    failed = record.failed + 1
    since_s = record.since_s if record.failed else now_s
    if failed > rules.failures and now_s - since_s >= rules.spared_s and not record.ended:
        return Record(failed, since_s, ended=True), Verdict.END
    record = replace(record, failed=failed, since_s=since_s)
    if failed == rules.failures or (failed > rules.failures and standing is Standing.SERVING):
        return record, Verdict.LOSE
    if standing is Standing.SERVING:
        return record, Verdict.SUSPECT
    return record, Verdict.NOTHING
