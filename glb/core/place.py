"""The state machine of one place, composed of small ones. Events in, effects out.

Its phase (``Phase`` in ``core.view``) is not kept: it follows from the parts, which are ``slots`` (workers), ``pool``
(the shared bags), ``thief`` (looking for work), ``thieves`` (giving work), ``evacuation`` (leaving) and ``view`` (the
members it knows).

Long calls. A worker cannot look while it is in a call of ``process``, and no other thread may touch its bag. Before a
call that may be long, ``look`` therefore sets everything out that the call does not process: it goes to the pool, in
halves of halves, and the worker is *away*. Meanwhile the attendant, another activity of the finish, serves thieves,
free slots and an evacuation from the pool. It waits for events (``calls``) and lives until the pool is empty or no
worker is away. ``sets_out`` says for which calls this is worth its cost.
A worker that comes back takes the newest piece; when its calls become short, it takes back everything that is left.
Where all workers are away and the pool is empty, the place cannot serve its thieves soon: it refuses the random ones at
once, and looks for work for the others and for its free slots (``_nothing_left``). So their need reaches a place that
has set work out, wherever it is, for the graph is strongly connected.

Why termination is right: a bag is in a worker's hands or in the pool of a place with a living worker (both are
activities of the finish), or travels as an argument of an activity of the finish that was spawned by a living one.
Requests, refusals and registrations carry no work and are not counted. Why it is live: a waiting place is registered
at all its buddies (or the request, or loot, is on the way), the graph is strongly connected, and a registered thief is
served at the next look of any worker that has something to split, or at once while work is set out.

All methods are called under one lock per place. Bags of workers are touched by their own worker only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from glb.bag import Bag, Result
from glb.core import view
from glb.core.backup import Backup, Gift, Saver
from glb.core.effects import Attend, Effect, Ended, Forward, Give, Message, Refuse, Save, Start
from glb.core.leavers import Evacuation
from glb.core.lifelines import Graph, graph_of
from glb.core.pool import Pool, Slots, split_everything, split_half
from glb.core.thief import Search, Thief, Thieves
from glb.core.view import Phase, View
from glb.errors import LedgerError
from glb.statistics import Statistics, tasks_in

if TYPE_CHECKING:
    from random import Random

R = TypeVar("R", bound=Result)


EXPECTED_CALLS: Final = 16
"""Number of looks, after a thief has asked, during which others are expected to ask, too."""
_IDLE: Final = {Search.RESTING: Phase.JOINING, Search.ASKING: Phase.STEALING, Search.WAITING: Phase.WAITING}


class PlaceCore(Generic[R]):
    """One place in one computation. Its size does not depend on the number of members, which it shares.

    Args:
        me: Id of this place.
        members: Sorted ids of all places of the computation, this one included; kept and never changed.
        make_result: Makes an empty result.
        workers: Number of worker slots.
        random_steals: Random victims asked before the lifelines.
        lifelines: The lifeline graph.
        rng: Source of random victims.
        registered: Whether the place begins WAITING, its requests known to its buddies as theirs are to it (all places
            must agree then); else it begins JOINING.
        before: The members of before this place joined a running computation. Those that joined with it and will ask
            it for work count as waiting for it from the start. Until ``begin`` the place is cold: work that it is given
            waits for it to warm up, and random thieves are refused instead of waiting, too.
        saver: Makes backups, if the computation is to survive the loss of places.
    """

    __slots__ = (
        "_aborted",
        "_attended",
        "_cold",
        "_evacuation",
        "_expected",
        "_make_result",
        "_pool",
        "_result",
        "_saver",
        "_slots",
        "_thief",
        "_view",
        "attention",
        "calls",
        "me",
        "statistics",
        "thieves",
    )

    def __init__(
        self,
        me: int,
        members: Sequence[int],
        make_result: Callable[[], R],
        *,
        workers: int = 1,
        random_steals: int = 3,
        lifelines: Graph | None = None,
        rng: Random,
        registered: bool = False,
        before: Sequence[int] | None = None,
        saver: Saver[R] | None = None,
    ) -> None:
        self.me = me
        self.statistics = Statistics()
        self.attention = False
        """Whether a worker should call ``look`` before it goes on processing; may be read without the lock."""
        self.calls = 0
        """Counts what should wake a pausing worker and the attendant: new thieves, evacuation, abortion, other members
        or workers; and that the attendant is not needed any more.
        """
        self._result: R | None = None
        self._make_result = make_result
        self._saver = saver
        self._aborted = False
        self._attended = False
        """Whether there is an attendant, or an activity is about to become one."""
        self._cold = before is not None
        self._view = View(me, members, lifelines or graph_of())
        self._slots = Slots(workers)
        self._pool: Pool[R] = Pool()
        self._thief = Thief(self._view, random_steals, rng, registered=registered)
        waiting: Collection[int] = ()
        if registered:
            waiting = self._view.thieves
        elif before is not None:
            waiting = tuple(self._view.newcomers(before))
        self.thieves = Thieves(waiting)
        """The places that have asked this one."""
        self._evacuation = Evacuation()
        self._expected = EXPECTED_CALLS

    # what others may see ----------------------------------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        """The phase of the place; see ``core.view``."""
        if self._aborted:
            return Phase.ABORTED
        if self._evacuation.leaving:
            return Phase.EVACUATING if self._slots.alive or self._attended else Phase.EVACUATED
        return Phase.WORKING if self._slots.alive else _IDLE[self._thief.state]

    @property
    def sets_out(self) -> bool:
        """Whether a worker should set out what its next call does not process, if it is long, but not very long.

        Doing so takes some 20 us, with backups, which pickle the bag each time, 100 us: that was 2 to 6 % where a call
        takes 2 ms of CPU, and 5 ms on a busy machine. So it is done only as long as others ask: the first of them waits
        for the call to end. Siblings do not ask.
        """
        return self._slots.wanted > 1 or self._expected > 0

    @property
    def shared(self) -> tuple[Bag[R], ...]:
        """The bags that no worker holds."""
        return tuple(self._pool)

    @property
    def workers(self) -> int:
        """Number of workers that there may be."""
        return self._slots.wanted

    @property
    def alive(self) -> int:
        """Number of workers that run or are about to, retiring ones included."""
        return self._slots.alive

    @property
    def result(self) -> R:
        """The result of the workers that have ended here; made on first use."""
        if self._result is None:
            self._result = self._make_result()
        return self._result

    # loot -----------------------------------------------------------------------------------------------------------

    def receive(self, bag: Bag[R], nonce: int | None = None, ident: int | None = None) -> list[Effect[R]]:
        """Take a bag that an activity of the finish has brought; ``nonce`` if it answers a random steal.

        ``ident``: which gift it is, if there are backups.
        """
        if self._aborted:
            return []
        if self._evacuation.leaving:
            return [Forward(self._evacuation.next_in_turn(), bag, ident)]
        tasks = tasks_in(bag)
        self.statistics.received += 1
        self.statistics.tasks_received += tasks
        self.statistics.steals_won += nonce is not None
        if self._saver is not None and ident is not None:
            self._saver.take(ident, tasks)
        self._thief.rest()
        effects = self._start(bag) or self._call_attendant()
        self._refresh()
        return effects

    # workers --------------------------------------------------------------------------------------------------------

    def look(self, slot: int, bag: Bag[R], long: int = 0) -> list[Effect[R]]:
        """Let the worker in ``slot`` attend to the place between two calls of ``process``; ``Ended`` ends it.

        ``long``: about how many tasks the next call processes, if it may be a long one; 0: it will be short. The worker
        looks before and after each long call.

        Raises:
            BagError: Its ``split`` did not return another bag.
            LedgerError: It lost or doubled tasks.
        """
        self._slots.back(slot)
        self._expected = max(0, self._expected - 1)
        if self._aborted:
            return self._end(slot, bag)
        if self._evacuation.leaving:
            return self._saved([*self._hand_out(bag, self._slots.alive), *self._end(slot, bag)])
        if self._slots.retires(slot):
            return self._saved([*self._hand_over(bag), *self._call_attendant(), *self._end(slot, bag)])
        shared = len(self._pool)
        effects = self._serve(bag)
        effects += self._feed_siblings(bag)
        if long:
            self._pool.set_out(bag, long)
            self._slots.leave(slot)
        elif self._attended and not self._slots.any_away:
            self._pool.pour(bag)
        effects += [*self._call_attendant(), *self._nothing_left()]
        if self._saver is not None:
            exchanged = len(self._pool) != shared or any(isinstance(effect, Give | Start) for effect in effects)
            if exchanged or long or self._saver.wanted:
                self._hold(slot, bag)
            effects = self._saved(effects)
        self._refresh()
        return effects

    def dry(self, slot: int, bag: Bag[R], long: int = 0) -> list[Effect[R]]:
        """The worker's bag is empty: it gets shared work merged in, or ends (``Ended``).

        With ``long`` this is a ``look``, too: before a long call it gets one bag only, for it would set the others out
        again.
        """
        if self.phase is not Phase.WORKING:
            return self.look(slot, bag)
        self._slots.back(slot)
        if long and self._pool.pour_newest(bag):
            return self.look(slot, bag, long)
        if not long and self._pool.pour(bag):
            self._hold(slot, bag)
            effects = self._saved([])
            self._refresh()
            return effects
        return self._saved(self._end(slot, bag))

    def attend(self) -> list[Effect[R]]:
        """Let the attendant share out what was set out, while workers are away; ``Ended`` ends it.

        Raises:
            BagError: The ``split`` of a bag did not return another bag.
            LedgerError: A bag lost or doubled tasks while it was handed out.
        """
        effects: list[Effect[R]] = []
        if self._evacuation.leaving:
            effects += self._hand_out_shared()
        elif self._slots.any_away:
            effects += self._serve()
            while self._slots.any_free and (bag := self._pool.take()) is not None:
                effects += self._start(bag)
            effects += self._nothing_left()
        if not self._set_out:
            self._attended = False
            effects.append(Ended())
        effects = self._saved(effects)
        self._refresh()
        return effects

    def failed(self, slot: int) -> None:
        """The worker in ``slot`` has raised an error: its bag is lost, and the computation with it."""
        self._slots.release(slot)

    def give_failed(self, give: Give[R]) -> None:
        """Undo a ``Give`` to a place that is gone; the worker must merge the bag into its own."""
        self.thieves.discard(give.to)
        self.statistics.sent -= 1
        self.statistics.tasks_sent -= give.tasks
        self._refresh()

    def set_workers(self, count: int) -> list[Message]:
        """Change the number of workers; results and tasks stay.

        With more, the workers that run start siblings in the new slots as soon as their bags can be split. With fewer,
        those in slots ``count`` and above end at their next look: each hands its bag to a free lower slot (``Start``),
        else to the bag that the others share. Slots keep their numbers, 0 to ``count`` - 1, also for the driver.

        Raises:
            ValueError: ``count`` is not at least 1.
        """
        self._slots.set_wanted(count)
        self.calls += 1
        self._refresh()
        return self._nothing_left()

    def _serve(self, bag: Bag[R] | None = None) -> list[Effect[R]]:
        gifts, refusals = self.thieves.serve(self._pool, bag)
        gives = [
            view.count_given(self.statistics, to, loot, nonce, "lifeline" if nonce is None else "random")
            for to, nonce, loot in gifts
        ]
        return [*gives, *refusals]

    def _feed_siblings(self, bag: Bag[R]) -> list[Effect[R]]:
        """Start a sibling in every free slot, then stock the shared bag, as long as the worker's bag can be split."""
        effects: list[Effect[R]] = []
        while self._slots.any_free:
            part = self._pool.take()
            if part is None and (part := split_half(bag)) is None:
                return effects
            effects += self._start(part)
        if self._slots.wanted > 1:
            self._pool.stock(bag)
        return effects

    @property
    def _set_out(self) -> bool:
        """Whether there is work for an attendant: some in the pool, and a worker that is away."""
        return bool(self._pool) and self._slots.any_away

    def _call_attendant(self) -> list[Effect[R]]:
        """Start the attendant if there is work for it, or wake it."""
        if not self._set_out:
            return []
        if self._attended:
            self.calls += 1
            return []
        self._attended = True
        return [Attend()]

    def _nothing_left(self) -> list[Message]:
        """If all workers are away and nothing is set out, look for work for the thieves and for free slots."""
        if self._pool or not self._slots.all_away or self.phase is not Phase.WORKING:
            return []
        messages = self.thieves.refuse_all()
        if (self.thieves or self._slots.any_free) and self._thief.state is Search.RESTING:
            messages += view.count_asked(self.statistics, self._thief.search())
        return messages

    def _hand_over(self, bag: Bag[R]) -> list[Effect[R]]:
        """Give the bag of a worker that retires to those that stay."""
        everything = split_everything(bag)
        return [] if everything is None else self._start(everything)

    def _start(self, bag: Bag[R]) -> list[Effect[R]]:
        """Put ``bag`` to work in a free slot, else into the pool, which the workers in the others empty."""
        if (slot := self._slots.take()) is None:
            self._pool.append(bag)
            return []
        self._hold(slot, bag, new=True)
        return [Start(slot, bag)]

    def _end(self, slot: int, bag: Bag[R]) -> list[Effect[R]]:
        if not self._aborted and not bag.is_empty():
            raise LedgerError(f"a worker of place {self.me} ends with {tasks_in(bag)} tasks in its bag")
        bag.submit(self.result)
        if self._saver is not None:
            self._saver.ended(slot, bag)
        self._slots.release(slot)
        effects: list[Effect[R]] = [Ended()]
        if not (self._slots.alive or self._aborted or self._evacuation.leaving):
            effects = [*self.thieves.refuse_all(), *view.count_asked(self.statistics, self._thief.search()), *effects]
        else:
            effects = [*self._nothing_left(), *effects]
        self._refresh()
        return effects

    # backups --------------------------------------------------------------------------------------------------------

    def want_backup(self) -> None:
        """Have a backup made as soon as the workers have looked; without a saver there is none."""
        if self._saver is not None and not self._saver.wanted:
            self._saver.want(self._slots.away)
            self._refresh()

    def back_up(self) -> Backup[R] | None:
        """Make the last backup of a place that has no worker; None without a saver."""
        return None if self._saver is None else self._saver.back_up(self._pool, self.take_result())

    def _hold(self, slot: int, bag: Bag[R], *, new: bool = False) -> None:
        if self._saver is not None:
            bag.submit(self.result)
            self._saver.hold(slot, bag, new=new)

    def _saved(self, effects: list[Effect[R]]) -> list[Effect[R]]:
        """Let all bags that are given away travel with a backup, if there are backups; or make one that is wanted."""
        saver = self._saver
        if saver is None:
            return effects
        gives = [effect for effect in effects if isinstance(effect, Give)]
        if not (gives or saver.ready):
            return effects
        gifts = tuple(Gift(give.to, give.nonce, saver.freeze(give.bag)) for give in gives)
        backup = saver.back_up(self._pool, self.take_result(), gifts)
        return [Save(backup), *(effect for effect in effects if not isinstance(effect, Give))]

    # thieves, this one and others -----------------------------------------------------------------------------------

    def begin(self) -> list[Message]:
        """Be warm, and begin to steal, unless work has come before."""
        self._cold = False
        return view.count_asked(self.statistics, self._thief.search()) if self.phase is Phase.JOINING else []

    def refused(self, nonce: int) -> list[Message]:
        """Take the refusal of a random victim; an answer to an older question is ignored."""
        return view.count_asked(self.statistics, self._thief.refused(nonce))

    def requested(self, thief: int, nonce: int | None) -> list[Message]:
        """Take the question of a thief; ``nonce`` is None for a lifeline request.

        A leaver remembers lifeline thieves too: it may be called back, and one of them may believe so earlier than it.
        """
        if nonce is not None and (self._cold or self.phase is not Phase.WORKING):
            return [Refuse(thief, nonce)]
        if self._aborted:
            return []
        if nonce is not None:
            self.thieves.add_random(thief, nonce, self._slots.alive)
        else:
            self.thieves.add_lifeline(thief)
        self.calls += 1
        self._expected = EXPECTED_CALLS
        self._refresh()
        return self._nothing_left()

    # members --------------------------------------------------------------------------------------------------------

    def set_members(self, members: Sequence[int]) -> list[Message]:
        """Rewire the lifelines for new ``members`` and ask elsewhere what was asked of places that leave.

        A newcomer counts as a waiting thief at its buddies from now on, before it asks; a later change may give it
        others, which it notifies.
        """
        if self._aborted:
            return []
        self._know(members)
        if self.phase is Phase.JOINING:
            return view.count_asked(self.statistics, self._thief.register())
        asked = view.count_asked(self.statistics, self._thief.rewired())
        return [*asked, *self._nothing_left()]

    def _know(self, members: Sequence[int]) -> None:
        before = self._view.members
        self._view.change(members)
        self.thieves.keep(self._view)
        for newcomer in self._view.newcomers(before):
            self.thieves.add_lifeline(newcomer)
        self.calls += 1
        self._refresh()

    # leaver ---------------------------------------------------------------------------------------------------------

    def evacuate(self, survivors: Sequence[int], turns: Sequence[int]) -> list[Message]:
        """Begin to leave: workers hand out their bags to ``survivors`` as they stop; later bags are forwarded.

        ``turns``: which of them get the pieces, each once per piece.
        """
        if self._aborted:
            return []
        refusals = self.thieves.refuse_all()
        self._view.change(survivors)
        self.thieves.keep(self._view)
        self._thief.rest()
        self._evacuation.begin(turns)
        self.calls += 1
        self._refresh()
        return refusals

    def readmit(self, members: Sequence[int]) -> None:
        """Take part again after an evacuation that was called off; ``begin`` follows when everyone knows."""
        if self.phase is Phase.EVACUATED:
            self._evacuation.end()
            self._know(members)

    def take_result(self) -> R:
        """Hand over the place's result and begin a new one; the place has no worker."""
        taken, self._result = self.result, None
        return taken

    def abort(self) -> list[Message]:
        """Drop everything: the computation has failed."""
        refusals = self.thieves.refuse_all()
        self._aborted = True
        self._thief.rest()
        self._pool.clear()
        self.calls += 1
        self._refresh()
        return refusals

    def _hand_out_shared(self) -> list[Effect[R]]:
        """Give away the shared bags at once; the workers that are away hand out what they still have when they stop."""
        if (bag := self._pool.take()) is None:
            return []
        effects = self._hand_out(bag, 1)
        bag.submit(self.result)
        return effects

    def _hand_out(self, bag: Bag[R], workers: int) -> list[Effect[R]]:
        """Give away a bag and the shared ones; ``workers``: among how many the survivors are divided."""
        self._pool.pour(bag)
        pieces = self._evacuation.hand_out(bag, workers)
        for to, _ in pieces:
            self.thieves.discard(to)
        return [view.count_given(self.statistics, to, piece, None, "evacuation") for to, piece in pieces]

    def _refresh(self) -> None:
        slots = self._slots
        if self._attended and not self._set_out:
            self.calls += 1
        self.attention = (
            self._aborted
            or (self._evacuation.leaving and slots.alive > 0)
            or bool(self.thieves)
            or slots.any_retiring
            or (self._saver is not None and self._saver.wanted)
            or (slots.wanted > 1 and (slots.any_free or not self._pool))
        )
