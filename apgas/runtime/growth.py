"""(place 0) How a job gets more places: see ``Spawner``; and what has to be true of hosts before: see ``Routes``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from msgspec.structs import replace

from apgas.core.messages import PlaceInfo
from apgas.runtime import environment, probe, process, reach, spawning
from apgas.runtime.context import Scope
from apgas.runtime.driver import Driver
from apgas.runtime.lifetime import Identity
from apgas.transport.base import Address

SETTLED_S: Final = 10.0
"""How long a spawn waits for the communicator of the last resize."""


class Spawner(Protocol):
    """Starts further places of a running job."""

    def spawn(
        self, nodes: tuple[str, ...], admit: Callable[[list[PlaceInfo]], Identity], note: Callable[[str], None]
    ) -> tuple[PlaceInfo, ...]:
        """Start a place per name in ``nodes`` (this machine where empty), ready to exchange frames; may take long.

        Args:
            nodes: Where; places on one node are next to each other in what is returned.
            admit: Gives newcomers, told in that order, their ids, and names all members; called once they are up.
            note: Is told when the processes are up ("spawn") and when they know their job ("join").

        Raises:
            ApgasError: They could not be started; nothing is left of them.
        """


class MpiSpawner:
    """Has MPI start processes, wherever its launcher gets to.

    Args:
        driver: Place 0.
        token: The job's secret, which newcomers are told.
        setup: What newcomers run before they join, if there is something.
    """

    def __init__(self, driver: Driver, token: bytes, setup: Callable[[], object] | None = None) -> None:
        self._token = token
        self._setup = setup
        self._routes = Routes(driver)

    def spawn(
        self, nodes: tuple[str, ...], admit: Callable[[list[PlaceInfo]], Identity], note: Callable[[str], None]
    ) -> tuple[PlaceInfo, ...]:
        """Spawn processes; see ``Spawner``."""

        def admit_reachably(newcomers: list[PlaceInfo]) -> Identity:
            identity = admit(newcomers)
            return replace(identity, members=tuple(self._routes.reachable(identity.members)))

        nodes, towards = self._routes.prepare(nodes)
        plane = process.mpi_plane()
        if plane is None:
            return spawning.spawn_places(nodes, self._token, towards, self._setup, admit_reachably, note)
        # others would wait for us, within MPI, while it spawns
        plane.communicators.settled(SETTLED_S)
        with plane.aside():
            bridge = plane.communicators.bridge
            return spawning.spawn_places(nodes, self._token, towards, self._setup, admit_reachably, note, bridge)


class Routes:
    """Lets newcomers and members reach each other.

    A job that is all on one machine listens on loopback. When it grows to another machine for the first time, each
    member is asked to listen on an address of the network as well; newcomers are told that one.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._further: dict[int, Address] = {}

    def prepare(self, nodes: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
        """Look whether places can be spawned on ``nodes``, and let those reach the members.

        Returns:
            The nodes to spawn on, and the address of this place that newcomers must reach; empty: all are on this
            machine.

        Raises:
            ApgasError: A host cannot be used, or has no way to here; the job is as it was.
        """
        probe.look_here()
        by = probe.launcher()
        if by.stays_here:
            return nodes, self._towards()
        # without a name, mpiexec would choose one of its hosts
        here = environment.node_name()
        in_use = {place.node for place in self._driver.places()}
        if not any(nodes) and in_use == {here}:
            # A name would make mpiexec start another proxy for this host; if a place of that is killed, mpiexec's own
            # clean-up may fail and return 0.
            return nodes, self._towards()
        nodes = tuple(node or here for node in nodes)
        elsewhere = [node for node in dict.fromkeys(nodes) if not probe.is_here(node)]
        probe.look(by, [node for node in elsewhere if node not in in_use])
        if elsewhere:
            self._open(elsewhere[0])
        return nodes, self._towards()

    def reachable(self, members: Iterable[PlaceInfo]) -> list[PlaceInfo]:
        """The members with the addresses by which newcomers reach them."""
        return [
            replace(info, host=self._further[info.place][0], port=self._further[info.place][1])
            if info.place in self._further
            else info
            for info in members
        ]

    def _open(self, host: str) -> None:
        """Let every member that listens on loopback only listen where ``host`` reaches it, too."""
        with self._driver.lock:
            members = [info for info in self._driver.core.membership.staying if info.place not in self._further]
        finish = self._driver.open_finish()
        try:
            answers = {
                info.place: self._driver.spawn(
                    Scope(finish), self._driver.place(info.place), (process.listen_towards, (host,), {}), to_caller=True
                )
                for info in members
                if reach.is_loopback(info.host)
            }
            self._further.update({place: answer.result() for place, answer in answers.items()})
        finally:
            self._driver.close_finish(finish)

    def _towards(self) -> str:
        me = self._driver.core.here
        host = self._further[me][0] if me in self._further else self._driver.core.membership.members[me].host
        return "" if reach.is_loopback(host) else host
