"""Runs the state machines of many places under a random schedule and checks that nothing is lost, doubled or stuck.

Messages between two places arrive in order, otherwise after any delay; workers take turns at random, and another event
may come between any decision of a worker and its effect. Some calls of ``process`` are long: anything may happen during
them. Places join and leave while work is under way, some leavers are called back, workers come and go, places die. One
seed is one run, to the bit.

What is checked: each task is done exactly once and every result kept, whatever was split, merged and moved; the finish
is neither early (nothing counted happens after it) nor late (when nothing can happen, it has come); no place that waits
is forgotten, and none waits longer than a bound for one that has work to spare (``Checks``); a computation that loses a
place never yields a result, and says what is missing. With backups the result is right whichever places die; if place 0
does, all others die with it, and the computation begins anew with what its books were at some moment before
(``run_lives``).
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from random import Random
from typing import assert_never

from numbered import Numbers, Total
from stress.glb_network import (
    Abort,
    Ask,
    Attendant,
    Begin,
    Carrying,
    Counted,
    Evacuate,
    Join,
    Loot,
    Members,
    Network,
    Readmit,
    Redirect,
    Saved,
    Scenario,
    Sent,
    Wire,
    Worker,
    Workers,
    numbers,
)

from glb.bag import Bag
from glb.core.backup import Backup, Books, Frozen, Gift, Keeper, Saver
from glb.core.effects import Attend, Effect, Ended, Forward, Give, Message, Refuse, Request, Save, Start
from glb.core.leavers import Load, deal
from glb.core.ledger import Ledger
from glb.core.place import PlaceCore
from glb.core.pool import cut_in_pieces
from glb.core.view import Phase, View
from glb.statistics import Statistics, tasks_in


def freeze(bag: Bag[Total]) -> tuple[bytes, ...]:
    """Pickle a bag."""
    return (pickle.dumps(bag),)


def thaw(bag: Frozen) -> Numbers:
    """Unpickle a bag."""
    return numbers(pickle.loads(bag.data[0]))


class SimulationError(AssertionError):
    """The state machine broke a promise; the text says which, and the seed repeats it."""


class FirstPlaceLostError(Exception):
    """Place 0 has died, and its books are as they were last kept; None: they never were."""

    def __init__(self, kept: Books | None, scenario: Scenario, events: Counter[str]) -> None:
        super().__init__("place 0 has died")
        self.kept = kept
        self.scenario = scenario
        self.events = events


@dataclass(frozen=True)
class Outcome:
    """How a run went.

    Attributes:
        statistics: The counts of all places together.
        missing: What was lost with places that died; None: the result was right.
        events: How many orders of each kind were carried out, messages delivered, places lost.
        places: How many places took part in all.
    """

    statistics: Statistics
    missing: str | None
    events: Counter[str]
    places: int


class Simulation:
    """One computation on simulated places.

    Args:
        seed: Determines everything.
        places: Places at the start; this and the following are drawn from the seed if not given.
        limit: The tasks are 1 to ``limit`` - 1.
        orders: Number of grow and shrink orders, and of changes of workers.
        losses: Number of places that die.
        survives: Whether there are backups, so that the result is right whichever places die.
        mortal: Whether place 0 may die, too.
        kept: The books of the life before, with which the computation begins.
    """

    def __init__(
        self,
        seed: int,
        *,
        survives: bool = False,
        mortal: bool = False,
        kept: Books | None = None,
        places: int | None = None,
        limit: int | None = None,
        orders: int | None = None,
        losses: int | None = None,
    ) -> None:
        self.seed = seed
        self.rng = rng = Random(seed)
        # a run on many places takes as long as 20 others: with backups there are more of the others
        large = 0.012 if survives else 0.04
        self.scenario = scenario = Scenario.draw(
            rng, places=places, limit=limit, orders=orders, losses=losses, large=large
        )
        self.network = Network(rng, scenario.slow)
        self.survives = survives
        self.mortal = mortal
        self.kept = kept
        self.begun = 0 if kept is None else kept.tasks
        self.workers: list[Worker] = []
        self.attendants: list[Attendant] = []
        self.at: dict[int, list[Worker]] = {}
        self.counted = 0
        self.over = False
        self.gone: set[int] = set()
        self.lost: set[int] = set()
        self.known_lost: set[int] = set()
        self.loot_lost = False
        self.stopped: set[int] = set()
        self.cold: set[int] = set()
        self.initial = scenario.places
        self.cores: dict[int, PlaceCore[Total]] = {}
        self._losses = scenario.losses if losses is not None or not survives else rng.choice((0, 1, 2, 3, 5))
        self._loss_rate = rng.choice((0.004, 0.02, 0.1)) if survives else 0.004
        self._first_rate = rng.choice((0.001, 0.01, 0.1)) if mortal else 0.0
        self._keep_rate = rng.choice((0.003, 0.05, 0.5)) if mortal else 0.0
        members = tuple(range(scenario.places))
        for place in members:
            self._add(place, members, scenario.workers, registered=not scenario.static)
        self.control = Control(self, members, scenario.workers)
        self.checks = Checks(self)
        self._start(members)

    # running --------------------------------------------------------------------------------------------------------

    def run(self, most_steps: int = 200_000) -> Outcome:
        """Run to the end.

        Raises:
            SimulationError: A promise is broken.
            LedgerError: The books do not agree.
        """
        for step in range(most_steps):
            if self.counted == 0:
                self.over = True
                if self.control.idle and not (self.survives and self._goes_on()):
                    return self._finished()
            self._step()
            if self.over and self.counted:
                raise self.wrong("the finish was early: there is work after it")
            if step % max(16, len(self.cores)) == 0:
                self.checks.validate()
        raise self.wrong(f"the finish is not reached after {most_steps} steps")

    def wrong(self, text: str) -> SimulationError:
        """Describe a broken promise."""
        phases = {place: core.phase.name for place, core in self.cores.items() if place not in self.gone}
        return SimulationError(f"seed {self.seed}: {text}; phases {phases}")

    def keep_or_lose_place_0(self) -> None:
        """Anything may happen here: the books are kept, or place 0 dies."""
        if not self.mortal:
            return
        if self.rng.random() < self._keep_rate:
            self.kept = self.control.books()
        if self.rng.random() < self._first_rate:
            raise FirstPlaceLostError(self.kept, self.scenario, self.control.done)

    def _step(self) -> None:
        rng = self.rng
        self.keep_or_lose_place_0()
        if rng.random() < self.scenario.order_share:
            self.control.advance()
        if self.survives:
            self._survive()
        elif self._losses and not self.over and rng.random() < self._loss_rate:
            self._lose()
        if self.lost and rng.random() < 0.05:
            self.control.notice_losses()
        if self.network and (not self.workers or rng.random() < self.scenario.network_share):
            self._deliver(*self.network.deliver())
            return
        awake = [each for each in self.attendants if each.todo or self.cores[each.place].calls != each.seen]
        if awake and rng.random() < 0.5:
            self._attend(rng.choice(awake))
            return
        warm = [worker for worker in self.workers if worker.place not in self.cold] if self.cold else self.workers
        if warm:
            between = (
                [worker for worker in warm if worker.todo or not worker.call] if self.scenario.long_share else warm
            )
            if not (between or awake or self.network):
                self.checks.quiet()
            # long calls end when most of the others have done what they can
            self._work(rng.choice(between if between and rng.random() < 0.9 else warm))
        elif awake:
            self._attend(rng.choice(awake))
        elif not self.network and not self.control.advance() and self.counted:
            raise self.wrong(f"stuck: {self.counted} counted activities, but nothing can happen")

    def _survive(self) -> None:
        """Lose places, several at once now and then; make backups; do again what was lost."""
        rng, done = self.rng, self.control.done
        if self._losses and rng.random() < self._loss_rate:
            before = len(self.lost)
            self._lose()
            while self._losses and rng.random() < 0.3:
                self._lose()
            if (dead := len(self.lost) - before) and not self.over:
                done["lost at once"] += dead if dead > 1 else 0
                done[f"lost during {self.control.order}"] += dead if self.control.order else 0
        if rng.random() < 0.05:
            self.cores[rng.choice([place for place in self.cores if place not in self.lost])].want_backup()
        if (
            not self.over
            and self.lost != self.known_lost
            and rng.random() < 0.05
            and self.do_again(self.lost | self.gone)
        ):
            done["done again meanwhile"] += 1

    def _goes_on(self) -> bool:
        """The finish has fired: have the tasks done of which the result is lost; False if there are none."""
        control = self.control
        control.notice_losses()
        while control.idle and not control.collected:
            if self.do_again(self.lost | self.gone):
                self.over = False
                control.done["done again"] += 1
                return True
            # everyone hands in the rest, one after the other, and some die meanwhile
            control.collect_backups()
            control.notice_losses()
        return not control.collected

    def do_again(self, gone: set[int]) -> bool:
        """Deal what the places ``gone`` had to do, also amid a resize; False if that is nothing."""
        self.known_lost |= gone & self.lost
        keeper = self.control.keeper
        gifts = keeper.recover(gone)
        takers = [place for place in keeper.places if place not in self.control.leaving]
        for gift in gifts:
            self.keep_or_lose_place_0()
            self._send_gift(keeper.deal_again(gift, self.rng.choice(takers)))
        return bool(gifts)

    def _finished(self) -> Outcome:
        missing = self.control.collect()
        self.checks.finished(self.control.result, missing)
        events = self.control.done + self.network.delivered
        events["lost place"] = len(self.lost)
        return Outcome(self.control.statistics, missing, events, len(self.cores))

    def first_bag(self) -> Numbers:
        """Return the bag with all tasks."""
        return (Carrying if self.scenario.carrying else Numbers)([1], self.scenario.limit)

    def _start(self, members: tuple[int, ...]) -> None:
        if self.kept is not None:
            self.control.result = pickle.loads(self.kept.result)
            self._deal([(self.rng.choice(members), bag) for bag in self.kept.bags])
            for place in members:
                self.send(0, place, Begin())
            return
        bag = self.first_bag()
        parts = [bag]
        if self.scenario.static:
            bag.process(self.rng.randint(1, 8))
            self.begun = bag.work
            parts = [numbers(part) for part in cut_in_pieces(bag, len(members))]
        if self.survives:
            self._deal([(place, Frozen(freeze(part), len(part))) for place, part in zip(members, parts, strict=False)])
        for place, part in () if self.survives else zip(members, parts, strict=False):
            self.send(0, place, Loot(part, None))
            self.control.ledger.dealt(len(part))
            self.control.statistics.sent += 1
            self.control.statistics.tasks_sent += len(part)
        if self.scenario.static:
            for place in members[len(parts) :]:
                self.send(0, place, Begin())

    def _deal(self, parts: Sequence[tuple[int, Frozen]]) -> None:
        """Deal the first bags, all at once."""
        for gift in [self.control.keeper.deal(place, bag) for place, bag in parts]:
            self.keep_or_lose_place_0()
            self._send_gift(gift)

    # places ---------------------------------------------------------------------------------------------------------

    def works(self, place: int) -> bool:
        """Return whether an activity of the computation is at work on ``place``."""
        return bool(self.at[place])

    def _add(
        self,
        place: int,
        members: tuple[int, ...],
        workers: int,
        *,
        registered: bool = False,
        before: tuple[int, ...] | None = None,
    ) -> None:
        self.at[place] = []
        self.cores[place] = PlaceCore(
            place,
            members,
            Total,
            workers=workers,
            random_steals=self.scenario.random_steals,
            lifelines=self.scenario.lifelines,
            rng=Random(self.rng.random()),
            registered=registered,
            before=before,
            saver=Saver(place, freeze, holds=place != 0 or self.mortal) if self.survives else None,
        )

    def _lose(self) -> None:
        """Let a place other than 0 die."""
        self._losses -= 1
        living = [place for place in self.cores if place and place not in self.gone and place not in self.lost]
        if not living:
            return
        place = self.rng.choice(living)
        self.lost.add(place)
        dead, self.at[place] = self.at[place], []
        self.workers = [worker for worker in self.workers if worker.place != place]
        self.attendants = [each for each in self.attendants if each.place != place]
        bags = sum(isinstance(message, Counted) for message in self.network.cut_off(place))
        self.counted -= len(dead) + bags
        self.loot_lost = self.loot_lost or bool(dead) or bags > 0

    # workers --------------------------------------------------------------------------------------------------------

    def die_at_the_end(self) -> None:
        """Let a place die now and then while the results are taken."""
        if self._losses and self.rng.random() < 0.2:
            self._lose()
            self.control.done["lost at the end"] += 1
        self.keep_or_lose_place_0()

    def _work(self, worker: Worker) -> None:
        core, tasks = self.cores[worker.place], self.rng.randint(1, self.scenario.chunk)
        if worker.todo:
            self._carry_out(worker, worker.todo.popleft())
        elif worker.call:
            self.checks.comes_back(worker)
            worker.bag.process(worker.call)
            worker.call, worker.back = 0, True
        elif (long := self._goes_long(tasks)) or core.attention or worker.fresh or worker.back:
            worker.fresh = worker.back = False
            worker.todo.extend(core.look(worker.slot, worker.bag, long))
            if self._begins(worker, long) and not long:
                worker.bag.process(tasks)
        else:
            self.checks.processes(worker, core)
            worker.bag.process(tasks)
        if worker.bag.is_empty() and not worker.todo and not worker.call and worker in self.at[worker.place]:
            worker.back = False
            long = self._goes_long(1)
            worker.todo.extend(core.dry(worker.slot, worker.bag, long))
            if long:
                self._begins(worker, long)

    def _begins(self, worker: Worker, long: int) -> bool:
        """Let a worker that has looked begin a call, a long one if ``long``; whether it has not ended."""
        if any(isinstance(effect, Ended) for effect in worker.todo):
            return False
        core = self.cores[worker.place]
        self.checks.looked(worker, core)
        self.checks.processes(worker, core)
        worker.call, worker.held = long, tuple(worker.bag.tasks)
        return True

    def _goes_long(self, tasks: int) -> int:
        share = self.scenario.long_share
        return tasks if share and self.rng.random() < share else 0

    def _attend(self, attendant: Attendant) -> None:
        if attendant.todo:
            self._carry_out(attendant, attendant.todo.popleft())
            return
        core = self.cores[attendant.place]
        attendant.todo.extend(core.attend())
        attendant.seen = core.calls

    def _carry_out(self, worker: Worker, effect: Effect[Total]) -> None:
        match effect:
            case Give():
                self.checks.gives(worker.place, effect)
                if effect.to in self.control.leaving or effect.to in self.gone or effect.to in self.lost:
                    self._give_failed(worker, effect)
                else:
                    self.send(worker.place, effect.to, Loot(numbers(effect.bag), effect.nonce))
            case Save(backup):
                if worker.place == 0:
                    self._keep(backup)
                else:
                    self.send(worker.place, 0, Saved(backup))
            case Start():
                self._spawn(worker.place, effect.slot, numbers(effect.bag))
            case Attend():
                self._spawn_attendant(worker.place)
            case Ended():
                if isinstance(worker, Attendant):
                    self.attendants.remove(worker)
                else:
                    self.workers.remove(worker)
                self.at[worker.place].remove(worker)
                self.counted -= 1
            case Request() | Refuse():
                self._say(worker.place, effect)
            case Forward():
                raise self.wrong(f"a worker was asked to {effect}")

    def _keep(self, backup: Backup[Total]) -> None:
        for gift in self.control.keep(backup):
            self._send_gift(gift)

    def _send_gift(self, gift: Gift | None) -> None:
        if gift is not None and gift.to in self.control.leaving | self.gone | self.known_lost:
            gift = self.control.keeper.redirect(gift.ident, 0)
        if gift is not None:
            self.send(0, gift.to, Sent(gift))

    def _give_failed(self, worker: Worker, give: Give[Total]) -> None:
        if give.why == "evacuation" or worker.call or isinstance(worker, Attendant):
            self.send(worker.place, 0, Loot(numbers(give.bag), None))
            return
        self.cores[worker.place].give_failed(give)
        worker.bag.merge(numbers(give.bag))

    def _spawn_attendant(self, place: int) -> None:
        attendant = Attendant(place, -1, Numbers([]))
        self.attendants.append(attendant)
        self.at[place].append(attendant)
        self.counted += 1

    def _spawn(self, place: int, slot: int, bag: Numbers) -> None:
        worker = Worker(place, slot, bag)
        self.workers.append(worker)
        self.at[place].append(worker)
        self.counted += 1

    # messages -------------------------------------------------------------------------------------------------------

    def send(self, sender: int, to: int, message: Wire) -> None:
        """Let ``message`` travel; a bag is counted by the finish until it has arrived."""
        if to in self.lost:
            return
        self.network.send(sender, to, message)
        self.counted += isinstance(message, Counted)

    def _say(self, sender: int, message: Message) -> None:
        self.send(sender, message.to, message)

    def _deliver(self, sender: int, to: int, message: Wire) -> None:
        if to in self.gone:
            if isinstance(message, Loot | Sent):
                raise self.wrong(f"a bag arrives at place {to}, which is gone")
            return
        if isinstance(message, Join):
            self._add(to, message.members, message.workers, before=message.before)
            self.cold.add(to)  # until it may begin
        core = self.cores.get(to)
        if core is None:
            raise self.wrong(f"{type(message).__name__} from place {sender} finds place {to} taking no part yet")
        if isinstance(message, Loot):
            self.counted -= 1
            self._loot(to, core.receive(message.bag, message.nonce))
            return
        if isinstance(message, Saved | Sent | Redirect):
            self.counted -= 1
            self._take(to, core, message)
            return
        for answer in self._answers(sender, core, message):
            self._say(to, answer)
        if isinstance(message, Ask | Members | Workers | Join | Readmit):
            self.control.answered(to, self._load(core), core.statistics)

    def _take(self, place: int, core: PlaceCore[Total], message: Saved | Sent | Redirect) -> None:
        match message:
            case Saved(backup):
                self._keep(backup)
            case Redirect(ident, to):
                self._send_gift(self.control.keeper.redirect(ident, to))
            case Sent(gift):
                self._loot(place, core.receive(thaw(gift.bag), gift.nonce, gift.ident))

    def _answers(self, sender: int, core: PlaceCore[Total], message: Wire) -> list[Message]:
        match message:
            case Request(_, nonce):
                self.checks.asked(core, sender, nonce)
                return core.requested(sender, nonce)
            case Refuse(_, nonce):
                return self.checks.refused(core, nonce, core._thief.asked, core.refused(nonce))
            case Members(members):
                return core.set_members(members)
            case Workers(count):
                return core.set_workers(count)
            case Evacuate(survivors, turns):
                return core.evacuate(survivors, turns)
            case Readmit(members):
                core.readmit(members)
                return []
            case Begin():
                self.cold.discard(core.me)
                return core.begin()
            case Abort():
                self.stopped.add(core.me)
                return core.abort()
            case Ask() | Join():
                return []
            case Loot() | Saved() | Sent() | Redirect():
                raise AssertionError("bags are taken elsewhere")
            case _:
                assert_never(message)

    def _load(self, core: PlaceCore[Total]) -> Load:
        tasks = sum(len(worker.bag) for worker in self.at[core.me]) + sum(map(tasks_in, core.shared))
        return Load(core.me, core.alive, tasks)

    def _loot(self, place: int, effects: list[Effect[Total]]) -> None:
        for effect in effects:
            match effect:
                case Start(slot, bag):
                    self._spawn(place, slot, numbers(bag))
                case Forward(to, _, int(ident)):
                    self.send(place, 0, Redirect(ident, to))
                case Forward(to, bag):
                    self.send(place, 0 if to in self.lost else to, Loot(numbers(bag), None))
                case Attend():
                    self._spawn_attendant(place)
                case _:
                    raise self.wrong(f"an arriving bag led to {effect}")


# Place 0 dies, and all with it ---------------------------------------------------------------------------------------

MOST_LIVES = 6


def run_lives(seed: int) -> Outcome:
    """Run a computation whose places die, place 0, too, until it comes to an end in one of its lives."""
    kept: Books | None = None
    limit: int | None = None
    events: Counter[str] = Counter()
    for life in range(MOST_LIVES):
        mortal = life < MOST_LIVES - 1
        try:
            outcome = Simulation(seed + (life << 32), survives=True, mortal=mortal, kept=kept, limit=limit).run()
        except FirstPlaceLostError as lost:
            kept, limit = lost.kept, lost.scenario.limit
            events += lost.events
            events["lost place 0"] += 1
            events["went on from books"] += kept is not None
        else:
            return replace(outcome, events=outcome.events + events)
    raise AssertionError("the last life has an end")


# Place 0's side of the computation -----------------------------------------------------------------------------------


class _PlaceLostError(Exception):
    """A place that place 0 waits for has died."""


class Control:
    """Gives random orders, one after another, as the driver carries them out.

    Args:
        job: The places and what travels between them.
        members: The places at the start.
        workers: Workers per place at the start.
    """

    def __init__(self, job: Simulation, members: tuple[int, ...], workers: int) -> None:
        self.members = members
        self.workers = workers
        self.ledger = Ledger()
        self.ledger.joined(members)
        self.keeper: Keeper[Total] = Keeper()
        for place in members:
            self.keeper.join(place)
        self.collected = False
        self.result = Total()
        self._pickled: bytes | None = None
        """``result``, unless it has changed since with a backup; without any there are no books."""
        self.statistics = Statistics()
        self.leaving: set[int] = set()
        self.called_back: set[int] = set()
        self.done: Counter[str] = Counter()
        self.idle = True
        self.order = ""
        self.aborted = False
        self._job = job
        self._rng = job.rng
        self._awaited: set[int] = set()
        self._answers: dict[int, tuple[Load, Statistics]] = {}
        self._next = len(members)
        self._orders = self._all_orders()

    def advance(self) -> bool:
        """Go on with the orders; False if there is nothing more to do."""
        return next(self._orders, self) is not self

    def answered(self, place: int, load: Load, counts: Statistics) -> None:
        """Place ``place`` has carried its order out."""
        self._awaited.discard(place)
        self._answers[place] = load, replace(counts)

    def notice_losses(self) -> None:
        """Give up if a member has died, as the driver does when progress is reported, or go on without it."""
        if self._job.survives:
            if self.idle and not self._job.lost.isdisjoint(self.members):
                self.idle = False
                self._orders = chain(self._go_on(), self._orders)
            return
        if not self.aborted and not self._job.lost.isdisjoint(self.members):
            self.abort()

    def abort(self) -> None:
        """Stop all workers."""
        self.aborted = True
        for place in self._job.cores:
            if place not in self._job.gone and place not in self._job.lost:
                self._job.send(0, place, Abort())

    def collect(self) -> str | None:
        """Take the results of all members; return what is missing if one of them has died."""
        if self._job.survives:
            return None
        lost = self._job.lost.intersection(self.members)
        if self.aborted or lost or self._job.loot_lost:
            return self.ledger.missing(self._job.lost, {})
        for place in self.members:
            self._take_report(place)
        self.ledger.close()
        return None

    # backups --------------------------------------------------------------------------------------------------------

    def _go_on(self) -> Iterator[None]:
        lost = set(self._job.lost)
        self.members = tuple(place for place in self.members if place not in lost)
        yield from self._send_all(self.members, Members(self.members))
        self.done["went on"] += 1
        self.idle = True
        yield None

    def keep(self, backup: Backup[Total]) -> list[Gift]:
        """Take a backup; return what it gives."""
        results, gifts = self.keeper.take(backup)
        for result in results:
            self.result.merge(result)
            self._pickled = None
        return gifts

    def books(self) -> Books:
        """Return the books as they are."""
        if self._pickled is None:
            self._pickled = pickle.dumps(self.result)
        return Books(self.keeper.open, self.keeper.tasks.total() + self._job.begun, self._pickled)

    def collect_backups(self) -> None:
        """All hand in the rest."""
        for place in self.members:
            if place not in self._job.lost:
                self._take_report(place)
            self._job.die_at_the_end()
        if not self._job.lost.intersection(self.keeper.places):
            self.keeper.close()
            self.collected = True
            if sum(self.keeper.tasks.values()) + self._job.begun != self._job.scenario.limit - 1:
                raise self._job.wrong(f"the places count {self.keeper.tasks} tasks")

    # orders ---------------------------------------------------------------------------------------------------------

    def _all_orders(self) -> Iterator[None]:
        for _ in range(self._job.scenario.orders):
            yield None
            if self._job.over or self.aborted:
                return
            self.idle = False
            try:
                yield from self._order()
            except _PlaceLostError:
                self.abort()
            self.idle, self.order = True, ""

    def _order(self) -> Iterator[None]:
        choice = self._rng.random()
        if choice < 0.25:
            yield from self._change_workers(self._rng.randint(1, 4))
        elif choice < 0.6 or len(self.members) == 1:
            yield from self._grow(self._rng.randint(1, 3))
        else:
            yield from self._shrink(self._rng.randint(1, min(4, len(self.members) - 1)))

    def _send_all(self, places: Sequence[int], message: Wire) -> Iterator[None]:
        self._answers = {}
        self._awaited = set(places)
        for place in places:
            self._job.send(0, place, message)
        while self._awaited:
            yield None
            if not self._job.lost.isdisjoint(self._awaited):
                if not self._job.survives:
                    raise _PlaceLostError
                self._awaited -= self._job.lost

    def _wave(self) -> None:
        if self._job.survives:
            return
        self.ledger.wave({place: counts for place, (_, counts) in self._answers.items()})

    def _change_workers(self, count: int) -> Iterator[None]:
        self.order, self.workers = "change of workers", count
        yield from self._send_all(self.members, Workers(count))
        self.done["workers"] += 1

    def _grow(self, count: int) -> Iterator[None]:
        self.order = "grow"
        old = self.members
        new = tuple(range(self._next, self._next + count))
        self._next += count
        self.members = old + new
        yield from self._send_all(new, Join(self.members, old, self.workers))
        self.ledger.joined(new)
        for place in new:
            self.keeper.join(place)
        for place in new:
            self._job.send(0, place, Begin())
        yield from self._send_all(old, Members(self.members))
        self._wave()
        self.done["grow"] += 1

    def _shrink(self, count: int) -> Iterator[None]:
        self.order = "shrink"
        before = self.members
        leavers = tuple(self._rng.sample(before[1:], count))
        self.members = survivors = tuple(place for place in before if place not in leavers)
        yield from self._send_all(before, Ask())
        self._wave()
        loads = {place: load for place, (load, _) in self._answers.items()}
        leavers = tuple(place for place in leavers if place in loads)
        survivors = self.members = tuple(place for place in survivors if place in loads)
        turns = deal([loads[place] for place in leavers], [loads[place] for place in survivors])
        yield from self._send_all(survivors, Members(survivors))
        self.order = "evacuation"
        for place in leavers:
            self._job.send(0, place, Evacuate(survivors, tuple(turns[place])))
        while not all(self._is_evacuated(place) for place in leavers):
            yield None
        if not self._job.survives:
            reports = {place: replace(self._job.cores[place].statistics) for place in leavers}
            self.ledger.wave({place: counts for place, (_, counts) in self._answers.items()} | reports)
        for place in leavers:
            if place not in self._job.lost:
                self._take_report(place)
        self.leaving = set(leavers)
        yield None
        if self._rng.random() < 0.3:
            self.order = "call-back"
            yield from self._call_back(before, leavers)
            return
        while any(self._drains(place) for place in leavers):
            yield None
        self.leaving = set()
        self._job.gone |= set(leavers) - self._job.lost
        self.done["shrink"] += 1

    def _call_back(self, members: tuple[int, ...], leavers: Sequence[int]) -> Iterator[None]:
        self.leaving = set()
        self.called_back.update(leavers)
        self.members = members
        if self._job.survives:
            self.members = members = tuple(place for place in members if place not in self._job.lost)
            leavers = [place for place in leavers if place in members]
        if not self._job.lost.isdisjoint(leavers):
            raise _PlaceLostError
        yield from self._send_all(leavers, Readmit(members))
        if not self._job.survives:
            self.ledger.joined(leavers)
        yield from self._send_all(members, Members(members))
        self._wave()
        for place in leavers:
            self._job.send(0, place, Begin())
        self.done["call back"] += 1

    def _is_evacuated(self, place: int) -> bool:
        if place in self._job.lost:
            if self._job.survives:
                return True
            raise _PlaceLostError
        if self.aborted:
            raise _PlaceLostError
        return self._job.cores[place].phase is Phase.EVACUATED and not self._job.works(place)

    def _drains(self, place: int) -> bool:
        if place in self._job.lost:
            return False
        return self._job.works(place) or self._job.network.bags_to(place)

    def _take_report(self, place: int) -> None:
        core = self._job.cores[place]
        backup = core.back_up()
        if backup is None:
            self.result.merge(core.take_result())
        elif self.keep(backup):
            raise self._job.wrong(f"place {place} gives bags away when it has none")
        statistics, core.statistics = core.statistics, Statistics()
        if not self._job.survives:
            self.ledger.reported([place], statistics)
        self.statistics.merge(statistics)


# What must hold at every moment, and at the end: the checkers see all places at once ---------------------------------
#
# No place starves while another has work for it, within bounds:
#
# - A thief that is known to wait for a place is served before the next call of ``process`` of any worker there that has
#   something to split: the wait is the call under way.
# - A place that waits is known to each of its buddies, or its question, or work for it, is under way to or from there.
#   A newcomer is known to those that it will ask as soon as they know of it.
# - A random thief is answered within as many looks of its victim's workers as there were workers when it asked, and at
#   once by a place that is not warm yet.
# - While all workers are in long calls and nothing is under way, no slot of any place is idle while work is set out
#   somewhere. So coarse tasks are begun as early as by greedy list scheduling, but for the time that messages take.


class Checks:
    """Looks at a simulation.

    Args:
        job: What to look at.
    """

    def __init__(self, job: Simulation) -> None:
        self._job = job
        self._chances: dict[tuple[int, int, int], int] = {}
        # every place sees the same graph on the same members, and these are asked for again and again
        graph = job.scenario.lifelines
        self._buddies = cache(lambda place, members: View(place, members, graph).buddies)
        self._thieves = cache(lambda place, members: View(place, members, graph).thieves)

    # when a worker takes its turn -----------------------------------------------------------------------------------

    def asked(self, core: PlaceCore[Total], thief: int, nonce: int | None) -> None:
        """A thief's question is about to arrive."""
        if nonce is not None:
            self._chances[core.me, thief, nonce] = core.alive

    def looked(self, worker: Worker, core: PlaceCore[Total]) -> None:
        """A worker has attended to its place, and stays."""
        for key in [key for key in self._chances if key[0] == worker.place]:
            self._chances[key] -= 1
            _, thief, nonce = key
            if core.thieves._random.get(thief, [0])[0] != nonce:
                del self._chances[key]
            elif self._chances[key] <= 0:
                raise self._job.wrong(f"place {key[1]} has no answer though all workers of place {key[0]} have looked")

    def refused(
        self, core: PlaceCore[Total], nonce: int, asked: Request | None, answers: list[Message]
    ) -> list[Message]:
        """A place has taken a refusal, which answers what it had ``asked``, or else must change nothing."""
        if answers and (asked is None or asked.nonce != nonce):
            raise self._job.wrong(f"place {core.me} takes an old refusal for the answer to its present question")
        return answers

    def gives(self, place: int, give: Give[Total]) -> None:
        """A bag is about to be sent."""
        if give.why == "evacuation" and give.to not in self._job.control.members:
            raise self._job.wrong(f"place {place} evacuates to place {give.to}, which does not stay")

    def processes(self, worker: Worker, core: PlaceCore[Total]) -> None:
        """A worker is about to process."""
        if worker.place in self._job.stopped:
            raise self._job.wrong(f"a worker of place {worker.place} goes on after the end")
        if core.phase is not Phase.WORKING:
            raise self._job.wrong(f"a worker of place {worker.place}, which is {core.phase.name}, goes on")
        if worker.slot >= core.workers:
            raise self._job.wrong(f"the worker in slot {worker.slot} of place {worker.place} goes on")
        if not worker.bag.is_splittable():
            return
        if core.thieves:
            raise self._job.wrong(f"place {worker.place} has work to spare and goes on while others wait for it")
        self._check_waiting(core)

    def _check_waiting(self, core: PlaceCore[Total]) -> None:
        """No place waits for this one, which has work to spare, without its knowing."""
        if core.me not in self._job.control.members:
            return
        away = self._job.lost | self._job.gone | self._job.control.leaving
        for place in self._thieves(core.me, core._view.members):
            thief = self._job.cores.get(place)
            if thief is None or thief.alive or place in away or thief._view.members is not core._view.members:
                continue
            waits = thief.phase is Phase.WAITING
            new = thief.phase is Phase.JOINING and place >= self._job.initial and not thief.statistics.received
            # one that was called back asks by itself once it may begin
            if not (waits or (new and place not in self._job.control.called_back)):
                continue
            sent = [*self._between(place, core.me), *self._between(core.me, place)]
            if not any(isinstance(each, Request | Loot | Give | Sent) for each in sent):
                raise self._job.wrong(f"place {place} starves, for place {core.me} does not know that it waits")

    def comes_back(self, worker: Worker) -> None:
        """A long call ends."""
        if worker.held != tuple(worker.bag.tasks):
            raise self._job.wrong(f"the bag of a worker of place {worker.place} was touched while it was in a call")

    def quiet(self) -> None:
        """All workers are in long calls, nothing is under way, and the attendants have done what they can."""
        job = self._job
        if job.lost or job.over:
            return
        places = {place: core for place, core in job.cores.items() if place in job.control.members}
        set_out = [place for place, core in places.items() if core.shared]
        for place, core in places.items():
            if core.shared and not core._attended:
                raise job.wrong(f"no attendant serves what is set out at place {place}")
            if core.alive < core.workers and set_out and core.phase is not Phase.JOINING and place not in job.cold:
                raise job.wrong(f"place {place} has idle slots while work is set out at places {set_out}")

    # between steps --------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Look at all places."""
        job = self._job
        slots = [(worker.place, worker.slot) for worker in job.workers if not worker.todo]
        if len(set(slots)) < len(slots):
            raise job.wrong(f"two workers in one slot: {[slot for slot, held in Counter(slots).items() if held > 1]}")
        members = frozenset(job.control.members)
        for place, core in job.cores.items():
            if place in job.lost or place in job.gone:
                continue
            if core._pool and not core.alive:
                raise job.wrong(f"place {place} holds a bag, but has no worker")
            if core.thieves._random and not core.alive:
                raise job.wrong(f"place {place} owes answers, but has no worker to give them")
            if core.thieves._random and place in job.cold:
                raise job.wrong(f"place {place} lets random thieves wait until it is warm")
            if place in members and not (job.lost and job.lost.intersection(core._view.members)):
                self._validate_thief(place, core)

    def _validate_thief(self, place: int, core: PlaceCore[Total]) -> None:
        """A waiting place is known to each buddy, a stealing one to its victim, or a message is under way."""
        cores, phase = self._job.cores, core.phase
        unknown: list[Request] = []
        if phase is Phase.WAITING:
            buddies = self._buddies(place, core._view.members)
            unknown += [Request(buddy, None) for buddy in buddies if place not in cores[buddy].thieves._lifeline]
        elif phase is Phase.STEALING:
            if (asked := core._thief.asked) is None:
                raise self._job.wrong(f"place {place} is STEALING without a victim")
            unknown += [asked] if cores[asked.to].thieves._random.get(place, [0])[0] != asked.nonce else []
        for request in unknown:
            other = request.to
            if request not in self._between(place, other) and not self._answered(request, other, place):
                raise self._job.wrong(f"place {place} waits for place {other}, which does not know it")

    def _answered(self, request: Request, sender: int, to: int) -> bool:
        return any(
            isinstance(message, Loot | Give | Sent) or (isinstance(message, Refuse) and message.nonce == request.nonce)
            for message in self._between(sender, to)
        )

    def _between(self, sender: int, to: int) -> list[Wire | Effect[Total]]:
        """Return what is under way, or about to be sent, from ``sender`` to ``to``, which is not gone."""
        if to in self._job.gone:
            return []
        between: list[Wire | Effect[Total]] = [
            *self._job.network.between(sender, to),
            *(
                effect
                for worker in self._job.at[sender]
                for effect in worker.todo
                if isinstance(effect, Request | Refuse | Give) and effect.to == to
            ),
        ]
        if self._job.survives:
            # a gift goes over place 0, where its origin is not known any more
            between += [each for each in self._job.network.between(0, to) if isinstance(each, Sent)]
            todo = [each for worker in self._job.at[sender] for each in worker.todo]
            backups = self._job.control.keeper.early
            backups += [each.backup for each in self._job.network.between(sender, 0) if isinstance(each, Saved)]
            backups += [each.backup for each in todo if isinstance(each, Save)]
            between += [Sent(gift) for backup in backups for gift in backup.gifts if gift.to == to]
        return between

    # at the end -----------------------------------------------------------------------------------------------------

    def finished(self, result: Total, missing: str | None) -> None:
        """Look at the result, and at the places once the computation is over."""
        for place, core in self._job.cores.items():
            if place in self._job.lost:
                continue
            if core.alive or core.shared:
                raise self._job.wrong(f"place {place} has work after the finish")
            if missing is None and core.result.done:
                raise self._job.wrong(f"place {place} has results that were not asked for")
            result.merge(core.result)
        tasks = range(1, self._job.scenario.limit)
        twice = [task for task, times in result.done.items() if times > 1]
        if twice:
            raise self._job.wrong(f"tasks {twice} were done more than once")
        if missing is None and result.done != Counter(tasks):
            raise self._job.wrong(f"tasks {sorted(set(tasks) - set(result.done))} are lost")
        if missing is not None:
            self._check_missing(missing)

    def _check_missing(self, missing: str) -> None:
        if not self._job.lost:
            raise self._job.wrong(f"no place has died, but something is missing: {missing}")
        for place in self._job.lost:
            if f"place {place} " not in missing:
                raise self._job.wrong(f"place {place} has died, but the books do not say so: {missing}")
