"""Backups: how a computation goes on without the places that die.

Each place numbers its backups. One says what there is at the place at one moment (its bags), and what has changed since
the one before: the result of the tasks done meanwhile, which bags of other places have arrived, and the bags that it
gives away. A bag travels with a backup only: place 0 takes the backup, then sends the bag on. So at every moment each
task is in one of these, as place 0 knows them: the bags of one place's last backup, one bag under way, the result.

| number of a backup       | what place 0 does with it                                         |
|--------------------------|-------------------------------------------------------------------|
| the next of its place    | take it, and those behind it that have come early                 |
| a later one              | keep it until those before it have come; its place may die before |
| of a place that is gone  | drop it: what it had done since its last backup is done again     |

Place 0's books, as they were at one moment, with the result of that moment, are a state from which the computation can
go on when all places have died (``Books``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Generic, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from glb.bag import Bag, Result
from glb.errors import LedgerError
from glb.statistics import tasks_in

R = TypeVar("R", bound=Result)

Freeze: TypeAlias = Callable[[Bag[R]], tuple[bytes, ...]]
"""Pickles a bag."""


class Frozen(msgspec.Struct, frozen=True):
    """A bag as it was, which nothing changes any more; ``tasks``: what it holds, if it has a length."""

    data: tuple[bytes, ...]
    tasks: int

    @property
    def size_bytes(self) -> int:
        """Memory that it takes."""
        return sum(map(len, self.data))


class Gift(msgspec.Struct, frozen=True):
    """A bag for place ``to``. Place 0 numbers it: ``ident``."""

    to: int
    nonce: int | None
    bag: Frozen
    ident: int = -1


class Backup(msgspec.Struct, Generic[R], frozen=True):
    """What a place has, and what has changed since its last backup.

    Attributes:
        place: Its id.
        number: Of this backup, from 1.
        bags: All tasks that it has.
        result: Of the tasks done since.
        tasks: How many those were.
        taken: The gifts that have arrived since, with the tasks found in them.
        gifts: The bags that it has given away since.
    """

    place: int
    number: int
    bags: tuple[Frozen, ...]
    result: R | None
    tasks: int
    taken: tuple[tuple[int, int], ...]
    gifts: tuple[Gift, ...]


class Books(msgspec.Struct, frozen=True):
    """All of a computation at one moment.

    Attributes:
        bags: All tasks of which no result has come.
        tasks: How many others there were.
        result: That of the others, pickled.
    """

    bags: tuple[Frozen, ...]
    tasks: int
    result: bytes


class Saver(Generic[R]):
    """A place's side.

    A worker exchanges tasks in its looks only. So its bag as it was after the last one is as good as what it has now:
    as if the tasks that it has processed since were still to do. That is held here; no worker has to stop for a backup.
    If there is no going on without place 0, that one ``holds`` none.
    """

    __slots__ = ("_freeze", "_held", "_holds", "_me", "_number", "_stale", "_taken", "_tasks", "_work", "wanted")

    def __init__(self, me: int, freeze: Freeze[R], *, holds: bool) -> None:
        self.wanted = False
        """Whether it is time for a backup, as soon as every worker that is in no long call has looked."""
        self._me = me
        self._freeze = freeze
        self._holds = holds
        self._number = 0
        self._held: dict[int, Frozen] = {}
        self._stale: set[int] = set()
        self._work: dict[int, int] = {}
        self._tasks = 0
        self._taken: list[tuple[int, int]] = []

    def want(self, away: Iterable[int]) -> None:
        """It is time for a backup; the workers in the slots ``away`` are in long calls, and held as they went."""
        self.wanted = True
        self._stale = set(self._work).difference(away)

    def hold(self, slot: int, bag: Bag[R], *, new: bool = False) -> None:
        """Hold the bag of the worker in ``slot``, which has handed in its result; ``new``: a worker begins with it."""
        self._count(slot, bag, new=new)
        if self._holds and not bag.is_empty():
            self._held[slot] = self.freeze(bag)
        else:
            self._held.pop(slot, None)

    def ended(self, slot: int, bag: Bag[R]) -> None:
        """The worker in ``slot`` has handed in its result and ends."""
        self._count(slot, bag, new=False)
        self._held.pop(slot, None)
        del self._work[slot]

    def take(self, ident: int, tasks: int) -> None:
        """A gift has arrived."""
        self._taken.append((ident, tasks))

    @property
    def ready(self) -> bool:
        """Whether a backup is wanted, and each bag has been held since."""
        return self.wanted and not self._stale

    def back_up(self, shared: Iterable[Bag[R]], result: R | None, gifts: tuple[Gift, ...] = ()) -> Backup[R]:
        """Make the next backup; ``shared``: the bags that no worker holds, ``result``: what is handed in."""
        self._number += 1
        bags = (*self._held.values(), *map(self.freeze, shared)) if self._holds else ()
        tasks, self._tasks = self._tasks, 0
        taken, self._taken = tuple(self._taken), []
        self.wanted = self.wanted and bool(self._stale)
        return Backup(self._me, self._number, bags, result, tasks, taken, gifts)

    def freeze(self, bag: Bag[R]) -> Frozen:
        """Return ``bag`` as it is now."""
        return Frozen(self._freeze(bag), tasks_in(bag))

    def _count(self, slot: int, bag: Bag[R], *, new: bool) -> None:
        self._stale.discard(slot)
        self._tasks += 0 if new else bag.work - self._work[slot]
        self._work[slot] = bag.work


class _Kept(msgspec.Struct, Generic[R]):
    """The last backup of a place that was taken, and those that wait for one before them."""

    number: int = 0
    bags: tuple[Frozen, ...] = ()
    early: dict[int, Backup[R]] = msgspec.field(default_factory=dict)


class Keeper(Generic[R]):
    """Place 0's side, which knows where every task is, and so is the ledger, too."""

    def __init__(self) -> None:
        self.tasks: Counter[int] = Counter()
        """The tasks of each place whose results were folded."""
        self.size_bytes = 0
        """Memory that the bags take."""
        self.peak_bytes = 0
        """The most that it was."""
        self.backups = 0
        """How many have come from other places."""
        self.backup_bytes = 0
        """What the bags in them took."""
        self._kept: dict[int, _Kept[R]] = {}
        self._under_way: dict[int, Gift] = {}
        self._recovered: set[int] = set()
        self._gone: set[int] = set()
        self._ident = 0

    def join(self, place: int) -> None:
        """Place ``place`` takes part from now on; it may do so already, or be gone."""
        if place not in self._gone:
            self._kept.setdefault(place, _Kept())

    def deal(self, to: int, bag: Frozen, nonce: int | None = None) -> Gift:
        """Give ``bag`` to place ``to``."""
        self._ident += 1
        gift = self._under_way[self._ident] = Gift(to, nonce, bag, self._ident)
        self._holds(bag)
        return gift

    def redirect(self, ident: int, to: int) -> Gift | None:
        """Send a gift on to place ``to``, for the place that it was for has left or died; None: it was recovered.

        Raises:
            LedgerError: It has arrived there.
        """
        if ident in self._recovered:
            return None
        gift = self._under_way.get(ident)
        if gift is None:
            raise LedgerError(f"bag {ident} is sent on to place {to}, but it has arrived before")
        self._under_way[ident] = gift = replace(gift, to=to, nonce=None)
        return gift

    def take(self, backup: Backup[R]) -> tuple[list[R], list[Gift]]:
        """Take a backup; return the results to fold, and the gifts to send.

        Raises:
            LedgerError: Bags or tasks were lost or doubled on the way.
        """
        kept = self._kept.get(backup.place)
        if kept is None:
            return [], []
        if backup.number <= kept.number or backup.number in kept.early:
            raise LedgerError(f"backup {backup.number} of place {backup.place} has come twice")
        kept.early[backup.number] = backup
        if backup.place:
            self.backups += 1
            self.backup_bytes += sum(bag.size_bytes for bag in (*backup.bags, *(gift.bag for gift in backup.gifts)))
        results: list[R] = []
        gifts: list[Gift] = []
        while (after := kept.early.pop(kept.number + 1, None)) is not None:
            kept.number += 1
            self._drops(*kept.bags)
            self._holds(*after.bags)
            kept.bags = after.bags
            self.tasks[after.place] += after.tasks
            if after.result is not None:
                results.append(after.result)
            for ident, tasks in after.taken:
                self._arrived(after.place, ident, tasks)
            gifts += [self.deal(gift.to, gift.bag, gift.nonce) for gift in after.gifts]
        return results, gifts

    def recover(self, gone: Iterable[int]) -> list[Gift]:
        """Go on without the places ``gone``; return what has to be done instead of them, for ``deal_again``.

        Until then it counts as under way to them, for else no book would have it. What still comes from them counts no
        more. Of a place that was released in order nothing is left once the finish has fired; before, what it has sent
        last may be done again.
        """
        gifts: list[Gift] = []
        for place in gone:
            self._gone.add(place)
            lost = (gift for gift in self._under_way.values() if gift.to == place)
            gifts += [gift for gift in lost if gift.ident not in self._recovered]
            if (kept := self._kept.pop(place, None)) is not None:
                self._drops(*kept.bags)
                gifts += [self.deal(place, bag) for bag in kept.bags]
        self._recovered.update(gift.ident for gift in gifts)
        return gifts

    def deal_again(self, gift: Gift, to: int) -> Gift:
        """Give what was recovered to place ``to``."""
        del self._under_way[gift.ident]
        self._drops(gift.bag)
        return self.deal(to, gift.bag)

    @property
    def open(self) -> tuple[Frozen, ...]:
        """All tasks of which no result has come: those of the last backups, and those under way."""
        kept = (bag for place in self._kept.values() for bag in place.bags)
        return (*kept, *(gift.bag for gift in self._under_way.values()))

    @property
    def early(self) -> list[Backup[R]]:
        """The backups that wait for one before them."""
        return [backup for kept in self._kept.values() for backup in kept.early.values()]

    @property
    def places(self) -> list[int]:
        """The places that take part, or have done so and are not known to be gone."""
        return sorted(self._kept)

    def close(self) -> None:
        """All results are in.

        Raises:
            LedgerError: There are tasks left somewhere, or something has not come.
        """
        if self._under_way:
            to = sorted({gift.to for gift in self._under_way.values()})
            raise LedgerError(f"{len(self._under_way)} bags were sent to places {to} and did not arrive")
        for place, kept in self._kept.items():
            if kept.bags:
                raise LedgerError(f"place {place} ends with {sum(bag.tasks for bag in kept.bags)} tasks in its backup")
            if kept.early:
                raise LedgerError(f"backup {kept.number + 1} of place {place} is missing, but there are later ones")

    def _arrived(self, place: int, ident: int, tasks: int) -> None:
        gift = self._under_way.pop(ident, None)
        if gift is None:
            raise LedgerError(f"place {place} has received bag {ident}, which is not under way: it would count twice")
        if gift.to != place:
            raise LedgerError(f"place {place} has received bag {ident}, which is for place {gift.to}")
        if gift.bag.tasks != tasks:
            raise LedgerError(f"bag {ident} left with {gift.bag.tasks} tasks and reached place {place} with {tasks}")
        self._drops(gift.bag)

    def _holds(self, *bags: Frozen) -> None:
        self.size_bytes += sum(bag.size_bytes for bag in bags)
        self.peak_bytes = max(self.peak_bytes, self.size_bytes)

    def _drops(self, *bags: Frozen) -> None:
        self.size_bytes -= sum(bag.size_bytes for bag in bags)
