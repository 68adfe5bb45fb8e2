"""Places that are threads of one process instead of processes: built from the same parts as real ones."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Final

from apgas.core.messages import PlaceInfo
from apgas.core.place import PlaceCore
from apgas.core.resilient import ResilientPlaceCore
from apgas.errors import ApgasError, UsageError
from apgas.runtime import process, serialization
from apgas.runtime.driver import Driver, working_for
from apgas.runtime.lifetime import Identity
from apgas.runtime.validation import checked
from apgas.transport.local import LocalNetwork, LocalTransport

_NO_PID: Final = 1 << 22
"""Linux numbers no process so high: nobody who believes in a place's process can hit a real one."""


class InProcessPlaces:
    """The places of one job, each with threads of its own.

    Args:
        resilient: Whether they survive the death of others.
        setup: What each runs before it is a place, if there is something.

    Attributes:
        drivers: Those that live, by id.
    """

    def __init__(self, *, resilient: bool = False, setup: Callable[[], object] | None = None) -> None:
        self._setup = setup
        self.drivers: dict[int, Driver] = {}
        self._machine = checked(ResilientPlaceCore if resilient else PlaceCore)
        self._network = LocalNetwork()
        self._node_numbers = itertools.count()
        self._mains: dict[int, threading.Thread] = {}
        self._lock = threading.Lock()

    def node_names(self, count: int) -> tuple[str, ...]:
        """Names of ``count`` nodes that the job has not had yet."""
        return tuple(f"node{number}" for number in itertools.islice(self._node_numbers, count))

    def start(self, nodes: tuple[str, ...]) -> Driver:
        """Start the first places, one per name in ``nodes``; returns place 0."""
        if self._setup is not None:
            for _ in nodes:
                self._setup()
        transports = [self._network.transport() for _ in nodes]
        members = tuple(map(_info, range(len(nodes)), nodes, transports))
        drivers = [self._build(Identity(place, members, 0), own) for place, own in enumerate(transports)]
        return drivers[0]

    def join(self, nodes: tuple[str, ...], admit: Callable[[list[PlaceInfo]], Identity]) -> tuple[PlaceInfo, ...]:
        """Start newcomers, one per name in ``nodes``.

        Raises:
            ApgasError: ``setup`` failed.
        """
        if self._setup is not None:
            for node in nodes:
                try:
                    serialization.loads(serialization.dumps(self._setup))()
                except BaseException as error:
                    raise ApgasError(f"{node}: setup raised {type(error).__name__}: {error}") from error
        transports = [self._network.transport() for _ in nodes]
        identity = admit([_info(0, node, transport) for node, transport in zip(nodes, transports, strict=True)])
        added = identity.members[-len(nodes) :]
        for info, transport in zip(added, transports, strict=True):
            self._build(Identity(info.place, identity.members, identity.epoch), transport)
        return added

    def kill(self, place: int, timeout_s: float) -> None:
        """Let a place die, with all that it knows; its threads cannot be killed, but reach nobody any more.

        Raises:
            UsageError: There is no such place.
        """
        with self._lock:
            driver = self.drivers.pop(place, None) if place != 0 else None
            thread = self._mains.get(place)
        if driver is None or thread is None:
            raise UsageError(
                f"place {place} cannot be killed: " + ("a job ends with it" if place == 0 else "it is gone")
            )
        with driver.lock:
            driver.core.over = True
        driver.over.set()
        if not driver.transport.in_io_thread():
            thread.join(timeout_s)
        driver.give_up(ApgasError(f"place {place} was killed"))

    def close(self, timeout_s: float) -> bool:
        """Wait until the places' own threads have ended, which they do when their place is over; False: too long."""
        for thread in self._mains.values():
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._mains.values())

    def _build(self, identity: Identity, transport: LocalTransport) -> Driver:
        driver = Driver(self._machine(identity.place, identity.members, identity.epoch), transport)
        with self._lock:
            self.drivers[identity.place] = driver
        with working_for(driver):
            driver.start()
            if identity.place != 0:
                thread = threading.Thread(
                    target=self._serve, args=(driver,), name=f"apgas-place-{identity.place}", daemon=True
                )
                self._mains[identity.place] = thread
                thread.start()
        return driver

    def _serve(self, driver: Driver) -> None:
        """Be the main thread of a place."""
        driver.over.wait()
        with self._lock:
            self.drivers.pop(driver.core.here, None)
        process.close(driver)


class InProcessSpawner:
    """Starts newcomers in this process; fails where a test wants it to.

    Args:
        places: Of the job.
        places_per_node: How many share a node.
    """

    def __init__(self, places: InProcessPlaces, places_per_node: int) -> None:
        self._places = places
        self._places_per_node = places_per_node
        self.failures: dict[str, str] = {}

    def spawn(
        self, nodes: tuple[str, ...], admit: Callable[[list[PlaceInfo]], Identity], note: Callable[[str], None]
    ) -> tuple[PlaceInfo, ...]:
        """Start newcomers; see ``apgas.runtime.spawning.Spawner``.

        Raises:
            ApgasError: A test wants it so.
        """
        broken = [self.failures[node] for node in nodes if node in self.failures]
        if broken:
            raise ApgasError(broken[0])
        if not any(nodes):
            fresh = self._places.node_names(len(nodes) // self._places_per_node)
            nodes = tuple(name for name in fresh for _ in range(self._places_per_node))
        note("spawn")
        added = self._places.join(nodes, admit)
        note("join")
        return added


def _info(place: int, node: str, transport: LocalTransport) -> PlaceInfo:
    host, port = transport.address
    return PlaceInfo(place, host, port, node, _NO_PID + port)
