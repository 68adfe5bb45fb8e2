"""The bags of a place that no worker holds, how bags are cut, and the slots of its workers.

| state | meaning                                                | left by                                       |
|-------|--------------------------------------------------------|-----------------------------------------------|
| empty | the next worker to look may stock it                   | append, stock, set_out -> full                |
| full  | the next worker that runs dry gets a bag, or all of it | pour, pour_newest, loot, take, clear -> empty |

A place whose pool is full has a worker: what fills it holds the place's lock and is alive or sees one alive, and a
worker ends only after it has found the pool empty under the same lock.
"""

from __future__ import annotations

import reprlib
from collections import deque
from typing import Final, TypeVar

from glb.bag import Bag, Result
from glb.errors import BagError, LedgerError
from glb.statistics import tasks_in

R = TypeVar("R", bound=Result)

MOST_PARTS: Final = 100_000
"""Halves of halves are far fewer, whatever the bag holds."""


class Pool(deque[Bag[R]]):
    """Holds bags, the oldest first, and the largest of what one worker has set out before the smaller ones."""

    __slots__ = ()

    def pour(self, into: Bag[R]) -> bool:
        """Move everything into a worker's bag; False if there is nothing."""
        poured = bool(self)
        while self:
            into.merge(self.pop())
        return poured

    def pour_newest(self, into: Bag[R]) -> bool:
        """Move the bag that was added last into a worker's bag; False if there is none."""
        if not self:
            return False
        into.merge(self.pop())
        return True

    def take(self) -> Bag[R] | None:
        """Remove and return the oldest bag."""
        return self.popleft() if self else None

    def stock(self, own: Bag[R]) -> None:
        """Fill an empty pool with a part of a worker's bag."""
        if not self and (part := split_half(own)) is not None:
            self.append(part)

    def set_out(self, own: Bag[R], tasks: int) -> None:
        """Add all of a worker's bag but what it processes next, about ``tasks`` where bags have a length, else one.

        Halves of halves: each task is split off about once until it is processed, however many there are.

        Raises:
            BagError: The bag, which has no length, can be split without end; or as for ``split_half``.
        """
        while not 0 < tasks_in(own) <= tasks and (part := split_half(own)) is not None:
            self.append(part)
            if len(self) > MOST_PARTS and not tasks_in(own):
                raise BagError(
                    f"a {type(own).__name__} was split {MOST_PARTS} times and can still be split; split(False) must "
                    "move about half of the tasks, and leave none of those in place"
                )

    def loot(self) -> Bag[R] | None:
        """Remove and return about half of everything: the oldest bag, or half of the only one if it can be split."""
        if len(self) == 1 and (part := split_half(self[0])) is not None:
            return part
        return self.take()

    def cut(self, own: Bag[R]) -> Bag[R] | None:
        """Cut loot from a worker's bag, else from the pool.

        The pool keeps what a worker with nothing in hand needs itself.
        """
        loot = split_half(own)
        if loot is None and not own.is_empty():
            loot = self.loot()
        return loot


# Cutting a bag into pieces -------------------------------------------------------------------------------------------

T = TypeVar("T")


def split_half(bag: Bag[T]) -> Bag[T] | None:
    """Split about half of the tasks off ``bag``; None if that cannot be done.

    Raises:
        BagError: As for ``split_off``, or what was split off has no task.
        LedgerError: As for ``split_off``.
    """
    if not bag.is_splittable():
        return None
    part = split_off(bag, everything=False)
    if part is not None and part.is_empty():
        raise BagError(f"split(False) of a {type(bag).__name__} returned a bag without tasks instead of None")
    return part


def cut_in_pieces(bag: Bag[T], count: int) -> list[Bag[T]]:
    """Cut ``bag`` into at most ``count`` pieces of about the same size by halving the oldest piece again and again.

    ``bag`` itself is one of the pieces.
    """
    whole: list[Bag[T]] = []
    cuttable: deque[Bag[T]] = deque([bag])
    while cuttable and len(whole) + len(cuttable) < count:
        piece = cuttable.popleft()
        part = split_half(piece)
        if part is None:
            whole.append(piece)
        else:
            cuttable.extend((piece, part))
    return [*whole, *cuttable]


def split_everything(bag: Bag[T]) -> Bag[T] | None:
    """Split all tasks off ``bag``, which keeps its result only; None if it has no task.

    Raises:
        BagError: As for ``split_off``.
        LedgerError: The bag kept, lost or doubled tasks.
    """
    everything = split_off(bag, everything=True)
    if not bag.is_empty():
        raise LedgerError(f"split(True) of a {type(bag).__name__} left {tasks_in(bag) or 'some'} tasks behind")
    return everything


def split_off(bag: Bag[T], *, everything: bool) -> Bag[T] | None:
    """Call ``bag.split``, and see that no task is lost or doubled, as far as the bag says how many it holds.

    Raises:
        BagError: What it returned is no other bag.
        LedgerError: The two bags do not hold the tasks that the one held.
    """
    held = tasks_in(bag)
    part = bag.split(everything)
    call = f"split({everything}) of a {type(bag).__name__}"
    if part is bag:
        raise BagError(f"{call} returned the bag itself; it must move the tasks to a new one")
    if part is not None and not hasattr(part, "process"):
        raise BagError(f"{call} returned {reprlib.repr(part)}; it must return a bag, or None")
    kept, taken = tasks_in(bag), 0 if part is None else tasks_in(part)
    if kept + taken != held:
        raise LedgerError(f"{call} with {held} tasks gave {taken} and kept {kept}")
    return part


# The worker slots of a place -----------------------------------------------------------------------------------------
#
# | slot     | meaning                                      | left by                                             |
# |----------|----------------------------------------------|-----------------------------------------------------|
# | free     | no worker is in it                           | take -> busy                                        |
# | busy     | a worker is in it, or an activity brings one | release -> free or closed; set_wanted -> retiring;  |
# |          |                                              | leave -> away                                       |
# | away     | busy, and the worker is in a long call, with | back -> busy; release -> free or closed             |
# |          | nothing in hand but what it processes        |                                                     |
# | retiring | busy, but there are to be fewer workers      | release -> closed; set_wanted -> busy               |
# | closed   | its number is not below the wanted one       | set_wanted -> free                                  |
#
# A slot is retiring or closed by its number alone, so that the same cores stay in use when workers go and come. There
# is always a slot that is neither, hence a worker that retires finds a free slot to move its bag to, or a worker in
# each.


class Slots:
    """Which slots are busy, as the bits of a number; ``wanted``: how many workers there may be."""

    __slots__ = ("_away", "_busy", "wanted")

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self._busy = 0
        self._away = 0

    @property
    def alive(self) -> int:
        """Number of busy slots, those of retiring workers included."""
        return self._busy.bit_count()

    @property
    def any_free(self) -> bool:
        """Whether another worker may start."""
        return bool(~self._busy & self._open)

    @property
    def any_away(self) -> bool:
        """Whether a worker is in a long call."""
        return bool(self._away)

    @property
    def away(self) -> list[int]:
        """The slots whose workers are in long calls."""
        return [slot for slot in range(self._away.bit_length()) if self._away >> slot & 1]

    @property
    def all_away(self) -> bool:
        """Whether there are workers, and all are in long calls."""
        return bool(self._busy) and self._away == self._busy

    @property
    def any_retiring(self) -> bool:
        """Whether a worker has still to make way."""
        return bool(self._busy & ~self._open)

    @property
    def _open(self) -> int:
        return (1 << self.wanted) - 1

    def retires(self, slot: int) -> bool:
        """Return whether the worker in ``slot`` is to make way."""
        return slot >= self.wanted

    def take(self) -> int | None:
        """Make the lowest free slot busy and return its number; None if there is none."""
        free = ~self._busy & self._open
        if not free:
            return None
        lowest = free & -free
        self._busy |= lowest
        return lowest.bit_length() - 1

    def release(self, slot: int) -> None:
        """Note that no worker is in ``slot`` any more."""
        self._busy &= ~(1 << slot)
        self.back(slot)

    def leave(self, slot: int) -> None:
        """Note that the worker in ``slot`` begins a long call."""
        self._away |= 1 << slot

    def back(self, slot: int) -> None:
        """Note that the worker in ``slot`` is in no call."""
        self._away &= ~(1 << slot)

    def set_wanted(self, wanted: int) -> None:
        """Allow ``wanted`` workers.

        Raises:
            ValueError: It is not at least 1.
        """
        if wanted < 1:
            raise ValueError(f"a place has at least one worker, not {wanted}")
        self.wanted = wanted
