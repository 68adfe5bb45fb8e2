"""Newcomers, from the order that asks for them until they are members, or are sent home."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from apgas.core.messages import PlaceInfo, Release, encode
from apgas.runtime.driver import Driver
from apgas.runtime.growth import Spawner
from apgas.runtime.lifetime import Identity
from apgas.transport.base import TransportClosedError, UnknownPeerError


class Newcomers:
    """Starts newcomers, for one order at a time, and tells them who they are.

    Args:
        driver: Place 0.
        spawner: Starts places.
    """

    def __init__(self, driver: Driver, spawner: Spawner) -> None:
        self._driver = driver
        self._spawner = spawner
        self._admitted_to = 0

    @property
    def current(self) -> bool:
        """Whether the newcomers believe in the members that there are now. Under the driver's lock."""
        return self._admitted_to == self._driver.core.epoch + 1

    def start(self, nodes: tuple[str, ...]) -> tuple[tuple[PlaceInfo, ...], dict[str, float]]:
        """Start a place on each of ``nodes``; returns the newcomers, and the seconds of each phase.

        Raises:
            Exception: Whatever kept them from starting; nothing is left of them.
        """
        began_s = time.monotonic()
        marks: dict[str, float] = {}
        added = self._spawner.spawn(nodes, self._admit, lambda phase: marks.update({phase: time.monotonic()}))
        return added, {"spawn": marks["spawn"] - began_s, "join": marks["join"] - marks["spawn"]}

    def send_home(self, newcomers: Sequence[PlaceInfo]) -> None:
        """Release newcomers that came too late, before they ever were members."""
        transport = self._driver.transport
        transport.learn({info.place: (info.host, info.port) for info in newcomers})
        for info in newcomers:
            with suppress(UnknownPeerError, TransportClosedError):  # it has died, or the program is over
                transport.send(info.place, encode(Release(0, 0)))
            transport.forget(info.place)

    def _admit(self, newcomers: list[PlaceInfo]) -> Identity:
        """Number the newcomers; if they come too late to be members, their ids are not used again either."""
        with self._driver.lock:
            membership = self._driver.core.membership
            ids = membership.new_ids(len(newcomers))
            self._admitted_to = membership.epoch + 1
            added = [PlaceInfo(i, n.host, n.port, n.node, n.pid) for i, n in zip(ids, newcomers, strict=True)]
            return Identity(ids[0], (*membership.members.values(), *added), membership.epoch + 1)
