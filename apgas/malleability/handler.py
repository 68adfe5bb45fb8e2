"""The handler that a malleable program registers: methods that are called around every resize."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from apgas.core.identity import Place

if TYPE_CHECKING:
    from apgas.core.resize import ResizeRecord


class MalleableHandler(ABC):
    """The program's part in a resize (names as published: malleable APGAS 2024, section "Malleable programming").

    All methods run on place 0, one at a time, in activities of their own: they may use ``at``, ``async_at`` and
    ``finish``. ``pre*`` may wait until the program reaches a suitable phase; the order is then deferred. A ``pre*``
    that raises aborts the order, and the program goes on at its size; an error in ``post*`` is reported in the outcome.

    Orders count nodes, the methods get numbers of places. Where several places share a node
    (``APGAS_PLACES_PER_NODE``), ``preShrink`` returns all places of some nodes; ``apgas.nodes`` lists them.
    """

    @abstractmethod
    def preShrink(self, nb_places: int) -> Sequence[Place | int]:
        """Choose ``nb_places`` places to release, never the node of place 0, and move tasks and data off them.

        Args:
            nb_places: How many are to leave.

        Returns:
            The places to release, or their ids.
        """

    @abstractmethod
    def postShrink(self, nb_places: int, removed_places: Sequence[Place]) -> None:
        """Go on without the places that have left.

        Args:
            nb_places: How many have left.
            removed_places: They; nothing can be sent there any more.
        """

    @abstractmethod
    def preGrow(self, nb_places: int) -> None:
        """Prepare for newcomers, or wait until the program can take them.

        Args:
            nb_places: How many will join.
        """

    @abstractmethod
    def postGrow(self, nb_places: int, continued_places: Sequence[Place], new_places: Sequence[Place]) -> None:
        """Send data and work to the newcomers, which have joined.

        Args:
            nb_places: How many have joined.
            continued_places: The members before.
            new_places: The newcomers.
        """

    def setWorkers(self, nb_workers: int) -> None:
        """Let ``nb_workers`` threads compute in each place from now on. Programs that cannot do that leave it out.

        ``apgas.core_ids`` names the cores on which they are to compute, where the scheduler assigns cores.

        Args:
            nb_workers: How many, at least 1.

        Raises:
            NotImplementedError: The program has no workers that it could change; the order is refused.
        """
        raise NotImplementedError(f"this program does not change its workers, neither to {nb_workers} nor otherwise")

    def shrinkAborted(self, places: Sequence[Place]) -> None:  # noqa: B027 - optional; named like its siblings
        """Put places back to work that stay after all, because the shrink was aborted after ``preShrink``.

        Args:
            places: Those that ``preShrink`` had chosen.
        """

    def orderEnded(self, record: ResizeRecord) -> None:  # noqa: B027 - optional; named like its siblings
        """Take note of how an order has ended, whether it was done, aborted or refused.

        Of a grow that is aborted after ``preGrow`` nothing else is heard. It is called before any method of the next
        order, which waits for it; what it raises is logged.

        Args:
            record: The order and its outcome, as in ``apgas.resizes``.
        """


class Companion(MalleableHandler):
    """The handler of a library, which registers it; or it accompanies another one, a ``Leader``, in the same program.

    Then that one chooses who leaves, and ``evacuate`` takes the place of ``preShrink``. ``preGrow`` is not called.
    """

    @abstractmethod
    def evacuate(self, places: Sequence[Place]) -> None:
        """Move tasks off places that are to leave; ``shrinkAborted`` or ``postShrink`` follows."""


class Leader(MalleableHandler):
    """A handler that libraries may accompany: it has them evacuate the places that it chooses.

    Attributes:
        companions: Their handlers.
    """

    def __init__(self) -> None:
        self.companions: list[Companion] = []

    def evacuate(self, leavers: Sequence[Place], last: Callable[[], object]) -> None:
        """Have companions move tasks off ``leavers``, then do ``last``, the leader's own part in it.

        If that fails nothing has come of it.

        Raises:
            BaseException: What it or a companion raised; the leavers are back at work.
        """
        asked: list[Companion] = []
        try:
            for companion in self.companions:
                asked.append(companion)
                companion.evacuate(leavers)
            last()
        except BaseException:
            for companion in asked:
                companion.shrinkAborted(leavers)
            raise

    def postShrink(self, nb_places: int, removed_places: Sequence[Place]) -> None:
        """Pass it on."""
        for companion in self.companions:
            companion.postShrink(nb_places, removed_places)

    def shrinkAborted(self, places: Sequence[Place]) -> None:
        """Pass it on."""
        for companion in self.companions:
            companion.shrinkAborted(places)

    def postGrow(self, nb_places: int, continued_places: Sequence[Place], new_places: Sequence[Place]) -> None:
        """Pass it on."""
        for companion in self.companions:
            companion.postGrow(nb_places, continued_places, new_places)

    def orderEnded(self, record: ResizeRecord) -> None:
        """Pass it on."""
        for companion in self.companions:
            companion.orderEnded(record)
