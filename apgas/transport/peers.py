"""Whom a transport may send to: the places that it learned, less those forgotten and lost."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from apgas.transport.base import Address, UnknownPeerError


class PeerBook:
    """The state of every place that a transport heard of. Thread-safe; ids are never reused, so entries only age."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._addresses: dict[int, Address] = {}
        self._forgotten: set[int] = set()
        self._lost: set[int] = set()

    def learn(self, peers: Mapping[int, Address]) -> None:
        """Add places; those forgotten or lost stay so."""
        with self._lock:
            self._addresses.update(peers)

    def address_of(self, place: int) -> Address:
        """Return where ``place`` listens.

        Raises:
            UnknownPeerError: Nothing may be sent to it.
        """
        with self._lock:
            if place in self._forgotten:
                raise UnknownPeerError(place, "was forgotten and is not known any more")
            if place in self._lost:
                raise UnknownPeerError(place, "was lost and is not known any more")
            if place not in self._addresses:
                raise UnknownPeerError(place)
            return self._addresses[place]

    def forget(self, place: int) -> None:
        """Let the end of connections of ``place`` be no loss, and refuse frames to it."""
        with self._lock:
            self._forgotten.add(place)

    def is_forgotten(self, place: int) -> bool:
        """Tell whether ``place`` was forgotten."""
        with self._lock:
            return place in self._forgotten

    def is_lost(self, place: int) -> bool:
        """Tell whether ``place`` was lost."""
        with self._lock:
            return place in self._lost

    def lose(self, place: int) -> bool:
        """Note a loss; return whether it is news: the place was neither forgotten nor lost before."""
        with self._lock:
            if place in self._forgotten or place in self._lost:
                return False
            self._lost.add(place)
            return True
