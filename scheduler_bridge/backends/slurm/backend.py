"""The embedded scheduler inside an allocation: its nodes are the scheduler's, and jobs reach them through srun."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from scheduler_bridge.backends.hosts import Host, Rules
from scheduler_bridge.backends.hosts.backend import NodesBackend
from scheduler_bridge.backends.hosts.watch import Watch
from scheduler_bridge.backends.slurm.allocation import Allocation
from scheduler_bridge.backends.slurm.driver import Reach, Slurm
from scheduler_bridge.backends.slurm.harvest import LOANS, Harvest
from scheduler_bridge.backends.slurm.harvester import Harvester
from scheduler_bridge.backends.slurm.reading import JobInfo, NodeInfo, SlurmError
from scheduler_bridge.backends.standin import address
from scheduler_bridge.daemon import Daemon, DaemonConfig

ENV_JOB: Final = "SLURM_JOB_ID"
FAREWELL_S: Final = 2.0
_LOOK_AGAIN_S: Final = 0.1


def this_job() -> int:
    """Return the number of the Slurm job that this process runs in.

    Raises:
        SlurmError: It runs in none.
    """
    text = os.environ.get(ENV_JOB, "")
    if not text.isdecimal():
        raise SlurmError(f"this is no allocation of Slurm: {ENV_JOB} is not set", "call it in a script for sbatch")
    return int(text)


def allocated_nodes() -> tuple[str, ...]:
    """Return the nodes of the allocation that this process runs in, the one of the batch script first.

    Raises:
        SlurmError: It runs in none, or Slurm does not answer.
    """
    return Allocation(Slurm(), this_job()).holdings.nodes


class SlurmBackend(NodesBackend):
    """What a daemon needs to drive the nodes of an allocation; made by ``inside``.

    Args:
        slurm: Answers about the allocation.
        job: The Slurm job whose allocation it is.
        config: The daemon's.
        every_s: Time between looks at the nodes.
        harvest: Where further nodes come from that can be taken back; None: the allocation keeps its size.

    Raises:
        SlurmError: There is no such allocation, or Slurm does not answer.
    """

    _complained = "node {}: {}"

    def __init__(self, slurm: Slurm, job: int, config: DaemonConfig, every_s: float, harvest: Harvest | None) -> None:
        self.reach = Reach(config.state_dir.absolute())
        super().__init__(self.reach)
        self._slurm = slurm
        self._every_s = every_s
        self._harvest = harvest
        books = config.state_dir.absolute() / LOANS if harvest is not None else None
        self._allocation = Allocation(slurm, job, changed=self.reach.know_owners, books=books, harvest=harvest)

    @asynccontextmanager
    async def harvesting(self, daemon: Daemon) -> AsyncIterator[None]:
        """Lend the daemon nodes meanwhile, if that is wanted."""
        if self._harvest is None:
            yield
            return
        harvester = Harvester(daemon, self._allocation, self._harvest)
        daemon.when_lost(harvester.lost)
        daemon.tell_loans(harvester.said)
        task = asyncio.create_task(harvester.run())
        task.add_done_callback(_log_failure)
        try:
            yield
        finally:
            daemon.note(harvester.said())
            await asyncio.to_thread(self._allocation.stop)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def close(self) -> None:
        """Remove what was written, and give all further nodes back."""
        self._allocation.close()
        super().close()

    def lacks(self, node: str) -> str:
        """Return why there can be no node of this name; empty if there can."""
        allotted = self._allocation.holdings
        if node in allotted.own:  # the allocation keeps its size
            return ""
        return f"it is none of Slurm job {allotted.job}, which has {', '.join(allotted.own)}"

    def _watching(self, daemon: Daemon) -> Watch:
        allocation = self._allocation
        job = allocation.holdings.job
        looker = Looker(self._slurm, job, lambda: daemon.nodes, lambda: allocation.holdings.companions)
        # Slurm has looked more than once before it says that a node is down
        rules = Rules(every_s=self._every_s, failures=1, together=True)
        return Watch(daemon, lambda node: Host(node, node), looker, rules)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _logger.error("no further nodes are harvested", exc_info=error)


def _see_off(slurm: Slurm) -> None:
    """Let the command that asked for the end hear of it: it is a step, and Slurm kills steps with the batch script."""
    until = time.monotonic() + FAREWELL_S
    with suppress(SlurmError):
        while time.monotonic() < until and any(step.step.isdigit() for step in slurm.steps((this_job(),))):
            time.sleep(_LOOK_AGAIN_S)


@contextmanager
def inside(
    config: DaemonConfig, every_s: float = Rules().every_s, harvest: Harvest | None = None
) -> Iterator[tuple[DaemonConfig, SlurmBackend]]:
    """Let a scheduler drive the nodes of the allocation that this process runs in.

    Yields its configuration, and what the daemon is to be made with.

    Args:
        config: Its nodes are those of the allocation.
        every_s: Time between looks at the nodes.
        harvest: Where further nodes are taken from as soon as they are idle, and given back when others want them;
            None: nowhere.

    Raises:
        SlurmError: It runs in none, it cannot harvest there, or Slurm does not answer.
    """
    slurm = Slurm()
    backend = SlurmBackend(slurm, this_job(), config, every_s, harvest)
    try:
        yield msgspec.structs.replace(config, host=address(config.nodes), reach=str(backend.reach.program)), backend
    finally:
        backend.close()
        _see_off(slurm)


# Looks at the job's nodes, by asking Slurm ---------------------------------------------------------------------------

_logger = logging.getLogger(__name__)

_FRESH_S: Final = 0.2
"""Those who look within this time look together."""


class Looker:
    """Looks at nodes.

    Args:
        slurm: Answers about them.
        job: The number of the job.
        names: Returns the nodes that there are.
        lent: Returns those that companion jobs lend.
    """

    def __init__(
        self, slurm: Slurm, job: int, names: Callable[[], Sequence[str]], lent: Callable[[], Iterable[str]] = tuple
    ) -> None:
        self._slurm = slurm
        self._job = job
        self._names = names
        self._lent = lent
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
        sight = (await asyncio.shield(self._asking)).get(host.name, Sight())
        return None if sight.doubtful else sight.complaint

    async def complaints(self, hosts: Sequence[Host]) -> dict[str, str]:
        """Look now; return the complaints about those of ``hosts`` that are not fit beyond doubt."""
        sights = await self._look(tuple(host.name for host in hosts)) if hosts else {}
        return {name: sight.complaint for name, sight in sights.items() if sight.complaint}

    async def _look(self, names: tuple[str, ...]) -> Mapping[str, Sight]:
        if self._stopped.is_set():
            return dict.fromkeys(names, Sight())
        try:
            job = await asyncio.to_thread(self._slurm.job, self._job)
            infos = await asyncio.to_thread(self._slurm.nodes, tuple(dict.fromkeys(names)))
        except SlurmError as error:
            if self._stopped.is_set():  # that is why
                return dict.fromkeys(names, Sight())
            if not self._silent:
                _logger.warning("Slurm does not say how the nodes are: %s", error)
            self._silent = True
            return dict.fromkeys(names, Sight(f"Slurm does not say how it is: {error}", doubtful=True))
        self._silent = False
        return judge_nodes(names, replace(job, nodes=(*job.nodes, *self._lent())) if job.nodes else job, infos)


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


@dataclass(frozen=True, slots=True)
class Sight:
    """What is to be said of a node: nothing, if it is fit; ``doubtful``: it may be dead, or be fit again."""

    complaint: str = ""
    doubtful: bool = False


def judge_nodes(names: Iterable[str], job: JobInfo, infos: Iterable[NodeInfo]) -> dict[str, Sight]:
    """Say how nodes are.

    Args:
        names: The nodes.
        job: Whose they were.
        infos: What Slurm says of those that it knows.
    """
    if not job.nodes:
        return dict.fromkeys(names, Sight(f"job {job.job} is {job.state.lower()}", doubtful=True))
    known = {info.node: info for info in infos}
    own = frozenset(job.nodes)
    return {name: _judge(name in own, job.job, known.get(name)) for name in names}


def _judge(is_own: bool, job: int, info: NodeInfo | None) -> Sight:
    if info is None:
        return Sight() if is_own else Sight(f"Slurm has taken it out of job {job}")
    how = f"it is {info.state}" + (f" ({info.reason})" if info.reason else "")
    if not is_own:
        # one that was set down just now may still be called completing
        return Sight(f"Slurm has taken it out of job {job}: {how}")
    if info.state in _DEAD:
        return Sight(f"Slurm says that {how}")
    return Sight() if info.answers else Sight("it does not answer Slurm", doubtful=True)
