"""The MPI communicators of the epochs, as one place holds them.

Each epoch has two, with the members in the order of their ids: one for the transport, one for the program. They are
built on a thread of their own, in the order in which place 0 says so, while everything else goes on:

    first world     a copy of its MPI.COMM_WORLD, made by all its places when they start
    grow            place 0 and a spawned world have a bridge: the merged communicator of the spawn. All members and
                    that world make an intercommunicator over it and merge; one world after another
    shrink          those who stay make theirs alone; leavers have nothing to do with it

There is one for each epoch because MPI's communicators cannot change their members. They are built in the background
because all members are in a collective call meanwhile: a prototype that waited for it blocked every place for 20 to
70 ms at each grow, and for up to 0.5 s beside computing threads. TCP carries everything until the new one is there.

An old communicator is freed when that of the second epoch after it is there. By then nothing travels on it: no place
sends on it once the next one is there; a place that stays has ended its sends before it builds the one after that; a
leaver ends its sends before it goes; sends are synchronous, so that ended means received; and what is built here is
built by all or by none. MPICH frees a communicator without talking to others.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from apgas.errors import UsageError

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

_logger = logging.getLogger(__name__)

_TAG: Final = 77
_QUIET_S: Final = 3.0
"""How long a place waits for the end of its sends before it builds the communicator after the next, and frees this one.

Others wait for it within MPI, so it rather never frees a communicator than waits long.
"""
_UNUSED: Final = 4
"""How many communicators of past epochs are kept for a program that has not asked for them yet."""


class Build(msgspec.Struct, frozen=True, array_like=True):
    """Build the communicator of epoch ``number``; ``worlds``: the newcomers, by the worlds they were spawned in.

    The first one that a place builds is that of its first world, or it is a newcomer.
    """

    number: int
    members: tuple[int, ...]
    worlds: tuple[tuple[int, ...], ...]


class Epoch(msgspec.Struct, frozen=True):
    """One epoch's communicator for the transport: ``ranks`` are those of the places."""

    number: int
    comm: Intracomm
    ranks: Mapping[int, int]


class _ForProgram(msgspec.Struct):
    number: int
    comm: Intracomm
    fetched: bool = False


class Communicators:
    """All communicators of this place; a newcomer has a ``bridge``: the communicator of its world and place 0.

    Attributes:
        here: Its id, known from its start on.
        newest: The newest epoch whose communicator is there.
        on_installed: Called with each new communicator.
        on_failed: Called with the reason why one cannot be built.
        on_building: Called with each task that is begun.
        wait_sent: Waits for the end of all sends of an epoch, some seconds at most; returns whether they have ended.
    """

    def __init__(self, mpi: Any, bridge: Intracomm | None, name: str) -> None:
        self.here = -1
        self._mpi = mpi
        self._bridge = bridge
        self._bridges: dict[tuple[int, ...], Intracomm] = {}
        self.newest: Epoch | None = None
        self._previous: Epoch | None = None
        self._for_program: dict[tuple[int, ...], _ForProgram] = {}
        self._waiting: deque[Build] = deque()
        self._building = False
        self._failure = ""
        self._changed = threading.Condition()
        self._name = name
        self._thread: threading.Thread | None = None
        self.on_installed: Callable[[Epoch], None] = lambda _: None
        self.on_building: Callable[[Build], None] = lambda _: None
        self.on_failed: Callable[[str], None] = lambda _: None
        self.wait_sent: Callable[[int, float], bool] = lambda *_: True

    def reached(self, number: int) -> bool:
        """Return whether the communicator of epoch ``number`` or of a later one is there."""
        return (newest := self.newest) is not None and newest.number >= number

    def bridge(self, world: Iterable[int], comm: Intracomm) -> None:
        """(place 0) Keep the communicator that we share with a spawned world, until its places are members."""
        with self._changed:
            self._bridges[tuple(world)] = comm

    def worlds(self, added: Iterable[int]) -> tuple[tuple[int, ...], ...]:
        """(place 0) The spawned worlds that ``added`` came in, by their ids."""
        wanted = set(added)
        with self._changed:
            return tuple(sorted(world for world in self._bridges if wanted.issuperset(world)))

    def build(self, task: Build) -> None:
        """Build a communicator, after those asked for before. Any thread."""
        with self._changed:
            self._waiting.append(task)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def settled(self, timeout_s: float) -> bool:
        """Wait until all that was asked for is built; False if it took too long."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._building, timeout_s)

    def fetch(self, members: tuple[int, ...], timeout_s: float) -> Intracomm | None:
        """Return the program's communicator of exactly ``members``, None if there is none in time.

        Those of earlier epochs that it has had are freed.

        Raises:
            UsageError: There will be none, for one could not be built.
        """
        with self._changed:
            for_program = self._for_program
            self._changed.wait_for(lambda: members in for_program or bool(self._failure), timeout_s)
            if self._failure:
                raise UsageError(f"there is no communicator: {self._failure}")
            found = for_program.get(members)
            if found is None:
                return None
            found.fetched = True
            for known in [known for known, other in for_program.items() if other.number < found.number]:
                for_program.pop(known).comm.Free()
            return found.comm

    # the rest runs on the thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                task = self._waiting.popleft()
                self._building = True
            try:
                self._carry_out(task)
            except Exception as error:
                _logger.exception("place %d cannot build the communicator of epoch %d", self.here, task.number)
                self._failure = f"that of epoch {task.number} could not be built: {error}"
                self.on_failed(self._failure)
                return
            finally:
                with self._changed:
                    self._building = False
                    self._changed.notify_all()

    def _carry_out(self, task: Build) -> None:
        previous = self._previous
        quiet = previous is None or self.wait_sent(previous.number, _QUIET_S)
        self.on_building(task)
        if self.newest is None and self._bridge is None:
            comm = self._mpi.COMM_WORLD.Dup()
        else:
            comm = self._grow(task) if task.worlds else self._shrink(task)
        if previous is not None and quiet:
            previous.comm.Free()
        ranks = {place: rank for rank, place in enumerate(task.members)}
        self.adopt(Epoch(task.number, comm, ranks), comm.Dup())

    def _grow(self, task: Build) -> Intracomm:
        newest = self.newest
        comm = newest.comm if newest is not None else None
        for world in task.worlds:
            if self.here in world:
                assert self._bridge is not None
                merged = self._merge(self._mpi.COMM_WORLD, self._bridge, 0, newcomer=True)
                self._bridge.Free()
            elif comm is not None:
                # only the leaders' communicator matters, but at the others MPICH wants a valid one, not COMM_NULL
                bridge = self._bridges.get(world)
                merged = self._merge(comm, bridge or self._mpi.COMM_SELF, 1, newcomer=False)
                if newest is None or comm != newest.comm:
                    comm.Free()
            else:
                continue
            comm = merged
        assert comm is not None
        self._drop_bridges(task.members)
        return comm

    def _drop_bridges(self, members: tuple[int, ...]) -> None:
        """Free the bridges to worlds that are members now, and to those that came too late to become members."""
        with self._changed:
            done = [world for world in self._bridges if world[0] <= members[-1]]
            bridges = [self._bridges.pop(world) for world in done]
        for bridge in bridges:
            bridge.Free()

    def _merge(self, local: Intracomm, bridge: Intracomm, remote_leader: int, *, newcomer: bool) -> Intracomm:
        between = local.Create_intercomm(0, bridge, remote_leader, _TAG)
        merged = between.Merge(high=newcomer)
        between.Free()
        return merged

    def _shrink(self, task: Build) -> Intracomm:
        newest = self.newest
        assert newest is not None
        everyone = newest.comm.Get_group()
        staying = everyone.Incl([newest.ranks[place] for place in task.members])
        try:
            return newest.comm.Create_group(staying, _TAG)
        finally:
            everyone.Free()
            staying.Free()

    def adopt(self, epoch: Epoch, for_program: Intracomm) -> None:
        """Take a communicator that is there already."""
        members = tuple(epoch.ranks)
        with self._changed:
            self._previous, self.newest = self.newest, epoch
            unused = [known for known, other in self._for_program.items() if not other.fetched]
            for known in unused[: -_UNUSED + 1]:
                self._for_program.pop(known).comm.Free()
            self._for_program[members] = _ForProgram(epoch.number, for_program)
            self._changed.notify_all()
        self.on_installed(epoch)
