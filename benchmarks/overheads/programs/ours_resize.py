"""Our places come and go on order."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal

import apgas

from ...harness.channel import Answer, Command
from .processes import Ends

LIMIT_S: Final = 40.0
_LOOK_S: Final = 0.2


class _Handler(apgas.MalleableHandler):
    """Releases the newest places, and says when a resize has been committed."""

    def __init__(self) -> None:
        self.committed = threading.Event()
        self.at_s = 0.0
        self.added: list[apgas.Place] = []

    def preGrow(self, nb_places: int) -> None:
        pass

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        return apgas.places()[-nb_places:]

    def postGrow(
        self,
        nb_places: int,  # noqa: ARG002 - the published arguments
        continued_places: Sequence[apgas.Place],  # noqa: ARG002 - the published arguments
        new_places: Sequence[apgas.Place],
    ) -> None:
        self.added = list(new_places)
        self._note()

    def postShrink(
        self,
        nb_places: int,  # noqa: ARG002 - the published arguments
        removed_places: Sequence[apgas.Place],  # noqa: ARG002 - the published arguments
    ) -> None:
        self._note()

    def _note(self) -> None:
        self.at_s = time.perf_counter()
        self.committed.set()


class Resizer:
    """Orders resizes and times them from outside: order to commit, order to the end of the processes."""

    def __init__(self) -> None:
        self._handler: _Handler | None = None

    def cycle(self, command: Command) -> Answer:
        """Grow by ``n`` and shrink by as many; ``numba``: the newcomers load it in between."""
        grow_s = self.grow(command["n"])
        answered_s = grow_s + self._have_answered()
        loaded_s = answered_s
        if command.get("numba"):
            loaded_s += self._load_numba()
        return {"grow_s": grow_s, "answered_s": answered_s, "loaded_s": loaded_s, "shrink_s": self.shrink(command["n"])}

    def grow(self, n: int) -> float:
        """Return the seconds from the order to the commit.

        Raises:
            RuntimeError: The order was not carried out.
        """
        handler = self._ready()
        before_s = time.perf_counter()
        self._order("+", n, handler.committed.wait)
        return handler.at_s - before_s

    def shrink(self, n: int) -> float:
        """Return the seconds from the order to the end of the last process.

        Raises:
            RuntimeError: The order was not carried out.
            TimeoutError: A process lives on.
        """
        self._ready()
        with Ends(apgas.at(place, os.getpid) for place in apgas.places()[-n:]) as ends:
            before_s = time.perf_counter()
            gone_s = 0.0

            def gone(_: float) -> bool:
                nonlocal gone_s
                if not gone_s:
                    ends.wait(LIMIT_S)
                    gone_s = time.perf_counter()
                return True

            self._order("-", n, gone)
        return gone_s - before_s

    def _ready(self) -> _Handler:
        """Register the handler at the first order: a program that is not resized needs none."""
        if self._handler is None:
            self._handler = _Handler()
            apgas.define_malleable_handler(self._handler)
        self._handler.committed.clear()
        return self._handler

    def _order(self, sign: Literal["+", "-"], n: int, wait: Callable[[float], bool]) -> None:
        """Give an order, let ``wait`` wait for what is timed, then wait until the order's record is there."""
        before = len(apgas.resizes())
        apgas.schedule_orders(f"0:{sign}{n}")
        until_s = time.monotonic() + LIMIT_S
        while not wait(_LOOK_S):
            if time.monotonic() > until_s or len(apgas.resizes()) > before:
                break
        while len(apgas.resizes()) == before and time.monotonic() < until_s:
            time.sleep(0.001)
        records = apgas.resizes()[before:]
        if not records or records[0].outcome != "done":
            reason = f"{records[0].outcome}: {records[0].reason}" if records else f"no end within {LIMIT_S:g} s"
            raise RuntimeError(f"{sign}{n} was not carried out, {reason}")

    def _have_answered(self) -> float:
        """Return the seconds until the newcomers have run something."""
        return self._run_on_newcomers(os.getpid)

    def _load_numba(self) -> float:
        return self._run_on_newcomers(load_numba)

    def _run_on_newcomers(self, call: Callable[[], object]) -> float:
        assert self._handler is not None
        before_s = time.perf_counter()
        with apgas.finish():
            for place in self._handler.added:
                apgas.async_at(place, call)
        return time.perf_counter() - before_s


def load_numba() -> None:
    """Load Numba, as a place does that computes."""
    __import__("numba")
