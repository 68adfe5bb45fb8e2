"""Looks at the nodes of a job by asking Slurm, and judges the answer for a scheduler that runs in the job."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scheduler_bridge.backends.hosts.hostfile import Host
from scheduler_bridge.backends.slurm.driver import Slurm, SlurmError
from scheduler_bridge.backends.slurm.reading import JobInfo, NodeInfo, ReadingError

_logger = logging.getLogger(__name__)

_FRESH_S: Final = 0.2
"""Those who look within this time look together."""


class Looker:
    """Looks at nodes.

    Args:
        slurm: Whom to ask.
        job: The number of the job.
        names: Returns the nodes that there are.
    """

    def __init__(self, slurm: Slurm, job: int, names: Callable[[], Sequence[str]]) -> None:
        self._slurm = slurm
        self._job = job
        self._names = names
        self._asking: asyncio.Task[Mapping[str, Sight]] | None = None
        self._at_s = 0.0
        self._silent = False
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Ask nothing more, and wait for no answer: the scheduler ends."""
        self._stopped.set()
        self._slurm.give_up()

    async def look(self, host: Host) -> str | None:
        """Return why a node is dead; empty if it is fit, None if Slurm has not decided on that."""
        now_s = asyncio.get_running_loop().time()
        if self._asking is None or now_s - self._at_s > _FRESH_S:
            self._asking, self._at_s = asyncio.create_task(self._look((*self._names(), host.name))), now_s
        sight = (await asyncio.shield(self._asking)).get(host.name, FIT)
        return None if sight.sign is Sign.DOUBTFUL else sight.complaint

    async def complaints(self, names: Iterable[str]) -> dict[str, str]:
        """Look now; return the complaints about those of ``names`` that are not fit beyond doubt."""
        wanted = tuple(names)
        sights = await self._look(wanted) if wanted else {}
        return {name: sight.complaint for name, sight in sights.items() if sight is not FIT}

    async def _look(self, names: tuple[str, ...]) -> Mapping[str, Sight]:
        if self._stopped.is_set():
            return dict.fromkeys(names, FIT)
        try:
            job = await asyncio.to_thread(self._slurm.job, self._job)
            told = await asyncio.to_thread(self._slurm.nodes, tuple(dict.fromkeys(names)))
        except (SlurmError, ReadingError) as error:
            if self._stopped.is_set():  # that is why
                return dict.fromkeys(names, FIT)
            if not self._silent:
                _logger.warning("Slurm does not tell how the nodes are: %s", error)
            self._silent = True
            return dict.fromkeys(names, doubtful(f"Slurm does not tell how it is: {error}"))
        self._silent = False
        return judge_nodes(names, job, told)


# Verdicts on nodes. Pure ---------------------------------------------------------------------------------------------
#
# ==========================  ==========================================================================================
# the node                    what follows
# ==========================  ==========================================================================================
# is not one of the job's     dead: Slurm takes one that is down out of the job (``--no-kill``), and never gives it back
# is down, or about so        dead
# does not answer Slurm       doubtful: Slurm itself decides when it is down (``SlurmdTimeout``)
# else, also if draining      fit: the job keeps it
# ==========================  ==========================================================================================

_DEAD: Final = frozenset({"down", "fail", "inval", "future", "powered_down", "powering_down"})


class Sign(StrEnum):
    """How a node is."""

    FIT = "fit"
    DOUBTFUL = "doubtful"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Sight:
    """What is to be said of a node; ``complaint`` is empty if it is fit."""

    sign: Sign
    complaint: str = ""


FIT: Final = Sight(Sign.FIT)


def doubtful(complaint: str) -> Sight:
    """Nothing is known of a node but why nothing is."""
    return Sight(Sign.DOUBTFUL, complaint)


def judge_nodes(names: Iterable[str], job: JobInfo, told: Iterable[NodeInfo]) -> dict[str, Sight]:
    """Say how nodes are.

    Args:
        names: The nodes.
        job: Whose they were.
        told: What Slurm says of those that it knows.
    """
    if not job.nodes:
        return dict.fromkeys(names, doubtful(f"job {job.job} is {job.state.lower()}"))
    known = {info.node: info for info in told}
    own = frozenset(job.nodes)
    return {name: _judge(name in own, job.job, known.get(name)) for name in names}


def _judge(is_own: bool, job: int, info: NodeInfo | None) -> Sight:
    if info is None:
        return FIT if is_own else Sight(Sign.DEAD, f"Slurm has taken it out of job {job}")
    how = f"it is {info.state}" + (f" ({info.reason})" if info.reason else "")
    if not is_own:
        # one that was set down just now may still be called completing
        return Sight(Sign.DEAD, f"Slurm has taken it out of job {job}: {how}")
    if info.state in _DEAD:
        return Sight(Sign.DEAD, f"Slurm says that {how}")
    return FIT if info.answers else doubtful("it does not answer Slurm")
