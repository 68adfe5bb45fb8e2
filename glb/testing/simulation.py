"""Runs the state machines of many places under a random schedule and checks that nothing is lost, doubled or stuck.

Messages between two places arrive in order, otherwise after any delay; workers take turns at random, and another event
may come between any decision of a worker and its effect. Places join and leave while work is under way, and some
leavers are called back. One seed is one run.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from random import Random
from typing import assert_never

from glb.core.effects import Effect, Ended, Forward, Give, Message, Refuse, Request, Run, Start
from glb.core.ledger import Count
from glb.core.lifelines import GRAPHS, Lifelines
from glb.core.pieces import halve
from glb.core.place import Phase, PlaceCore
from glb.statistics import Statistics
from glb.testing.bags import Numbers, Total
from glb.testing.events import Begin, Evacuate, Loot, Members, Readmit, Wire, Worker


class SimulationError(AssertionError):
    """The state machine broke a promise; the text says which, and the seed repeats it."""


class Simulation:
    """One computation on simulated places.

    Args:
        seed: Determines everything.
        places: Places at the start.
        limit: The tasks are 1 to ``limit`` - 1.
        resizes: Number of grow and shrink orders.
    """

    def __init__(self, seed: int, *, places: int | None = None, limit: int | None = None, resizes: int | None = None):
        self.seed = seed
        self.rng = rng = Random(seed)
        self.limit = limit or rng.choice((2, 20, 100, 400))
        self.resizes = rng.randint(0, 4) if resizes is None else resizes
        self.members: tuple[int, ...] = tuple(range(places or rng.randint(1, 7)))
        self.slots = rng.randint(1, 3)
        self.steals = rng.randint(0, 3)
        self.chunk = rng.choice((1, 3, 10))
        self.lifelines = Lifelines(rng.choice(tuple(GRAPHS)), rng.randint(2, 4))
        self.network_share = rng.choice((0.2, 0.5, 0.8))
        self.order_share = rng.choice((0.02, 0.1, 0.4))
        self.queues: dict[tuple[int, int], deque[Wire]] = {}
        self.busy: list[tuple[int, int]] = []
        self.workers: list[Worker] = []
        self.counted = 0
        self.leaving: set[int] = set()
        self.gone: set[int] = set()
        self.unacknowledged = 0
        self.taken = Total()
        self.statistics = Statistics()
        self.initial = 0
        static = rng.random() < 0.3
        self.cores = {place: self._core(place, registered=not static) for place in self.members}
        self.orders: Iterator[None] = self._orders()
        self._start(static)

    # running --------------------------------------------------------------------------------------------------------

    def run(self, most_steps: int = 100_000) -> Statistics:
        """Run to the end and return the merged statistics.

        Raises:
            SimulationError: A promise is broken.
        """
        for step in range(most_steps):
            if self.counted == 0:
                return self._finished()
            self._step()
            if step % 16 == 0:
                self._validate()
        raise self._wrong(f"the finish is not reached after {most_steps} steps")

    def _step(self) -> None:
        rng = self.rng
        if rng.random() < self.order_share:
            next(self.orders, None)
        if self.busy and (not self.workers or rng.random() < self.network_share):
            index = rng.randrange(len(self.busy))
            pair = self.busy[index]
            queue = self.queues[pair]
            message = queue.popleft()
            if not queue:
                self.busy[index] = self.busy[-1]
                self.busy.pop()
            self._deliver(*pair, message)
        elif self.workers:
            self._work(rng.choice(self.workers))
        elif next(self.orders, self) is self:
            raise self._wrong(f"stuck: {self.counted} counted activities, but nothing can happen")

    def _work(self, worker: Worker) -> None:
        core = self.cores[worker.place]
        if worker.todo:
            self._carry_out(worker, worker.todo.popleft())
        elif core.attention or worker.fresh:
            worker.fresh = False
            worker.todo.extend(core.look(worker.slot, worker.bag))
            if not any(isinstance(effect, Ended) for effect in worker.todo):
                worker.bag.process(self.rng.randint(1, self.chunk))
        elif worker.bag.is_empty():
            worker.todo.extend(core.dry(worker.slot, worker.bag))
        else:
            worker.bag.process(self.rng.randint(1, self.chunk))
        if worker.bag.is_empty() and not worker.todo and worker in self.workers:
            worker.todo.extend(core.dry(worker.slot, worker.bag))

    def _carry_out(self, worker: Worker, effect: Effect[Total]) -> None:
        match effect:
            case Give():
                if effect.to in self.leaving or effect.to in self.gone:
                    self._give_failed(worker, effect)
                else:
                    self._send(worker.place, effect.to, Loot(_numbers(effect.bag), effect.nonce))
            case Start():
                self._spawn(worker.place, effect.slot, _numbers(effect.bag))
            case Ended():
                self.workers.remove(worker)
                self.counted -= 1
            case Request() | Refuse():
                self._say(worker.place, effect)
            case Run() | Forward():
                raise self._wrong(f"a worker was asked to {effect}")

    def _give_failed(self, worker: Worker, give: Give[Total]) -> None:
        if give.why == "evacuation":
            raise self._wrong(f"place {worker.place} evacuates to place {give.to}, which leaves too")
        self.cores[worker.place].give_failed(give)
        worker.bag.merge(_numbers(give.bag))

    def _spawn(self, place: int, slot: int, bag: Numbers) -> None:
        self.workers.append(Worker(place, slot, bag))
        self.counted += 1

    # network --------------------------------------------------------------------------------------------------------

    def _send(self, sender: int, to: int, message: Wire) -> None:
        queue = self.queues.setdefault((sender, to), deque())
        if not queue:
            self.busy.append((sender, to))
        queue.append(message)
        self.counted += isinstance(message, Loot)

    def _say(self, sender: int, message: Message) -> None:
        self._send(sender, message.to, message)

    def _deliver(self, sender: int, to: int, message: Wire) -> None:
        if to in self.gone:
            if isinstance(message, Loot):
                raise self._wrong(f"a bag arrives at place {to}, which is gone")
            return
        core = self.cores[to]
        match message:
            case Loot(bag, nonce):
                self.counted -= 1
                self._loot(to, core.receive(bag, nonce))
                return
            case Request(_, nonce):
                answers = core.requested(sender, nonce)
            case Refuse(_, nonce):
                answers = core.refused(nonce)
            case Members(members):
                answers = core.set_members(members)
                self.unacknowledged -= 1
            case Evacuate(survivors):
                answers = core.evacuate(survivors)
            case Readmit(members):
                core.readmit(members)
                answers = []
                self.unacknowledged -= 1
            case Begin():
                answers = core.begin()
            case _:
                assert_never(message)
        for answer in answers:
            self._say(to, answer)

    def _loot(self, place: int, effects: list[Effect[Total]]) -> None:
        for effect in effects:
            match effect:
                case Run(slot, bag):
                    self._spawn(place, slot, _numbers(bag))
                case Forward(to, bag):
                    self._send(place, to, Loot(_numbers(bag), None))
                case _:
                    raise self._wrong(f"an arriving bag led to {effect}")

    # place 0 --------------------------------------------------------------------------------------------------------

    def _core(self, place: int, *, registered: bool) -> PlaceCore[Total]:
        return PlaceCore(
            place,
            self.members,
            Total,
            workers=self.slots,
            random_steals=self.steals,
            lifelines=self.lifelines,
            rng=Random(self.rng.random()),
            registered=registered,
        )

    def _start(self, static: bool) -> None:
        bag = Numbers([1], self.limit)
        if not static:
            parts = [bag]
        else:
            bag.process(self.rng.randint(1, 8))
            parts = [_numbers(part) for part in halve(bag, len(self.members))]
        for place, part in zip(self.members, parts, strict=False):
            self._send(0, place, Loot(part, None))
            self.initial += 1
            self.statistics.sent += 1
            self.statistics.tasks_sent += len(part)
        if static:
            for place in self.members[len(parts) :]:
                self._send(0, place, Begin())

    def _orders(self) -> Iterator[None]:
        for _ in range(self.resizes):
            if self.rng.random() < 0.5 or len(self.members) == 1:
                yield from self._grow(self.rng.randint(1, 3))
            else:
                yield from self._shrink(self.rng.randint(1, len(self.members) - 1))
            yield None
        while self.unacknowledged:
            yield None

    def _tell(self, places: tuple[int, ...], message: Wire) -> Iterator[None]:
        for place in places:
            self._send(0, place, message)
        self.unacknowledged += len(places)
        while self.unacknowledged:
            yield None

    def _grow(self, count: int) -> Iterator[None]:
        old = self.members
        new = tuple(range(len(self.cores), len(self.cores) + count))
        self.members = old + new
        for place in new:
            self.cores[place] = self._core(place, registered=False)
        for place in new:
            self._send(0, place, Begin())
        yield from self._tell(old, Members(self.members))

    def _shrink(self, count: int) -> Iterator[None]:
        before = self.members
        leavers = tuple(self.rng.sample(before[1:], count))
        self.members = survivors = tuple(place for place in before if place not in leavers)
        yield from self._tell(survivors, Members(survivors))
        for place in leavers:
            self._send(0, place, Evacuate(survivors))
        while any(self.cores[place].phase is not Phase.EVACUATED for place in leavers):
            yield None
        for place in leavers:
            self.taken.merge(self.cores[place].take_result())
        self.leaving |= set(leavers)
        yield None
        if self.rng.random() < 0.3:
            self.leaving -= set(leavers)
            self.members = before
            yield from self._tell(leavers, Readmit(before))
            for place in leavers:
                self._send(0, place, Begin())
            yield from self._tell(survivors, Members(before))
            return
        while any(self._drains(place) for place in leavers):
            yield None
        self.leaving -= set(leavers)
        self.gone |= set(leavers)

    def _drains(self, place: int) -> bool:
        return any(worker.place == place for worker in self.workers) or any(
            isinstance(message, Loot) for (_, to), queue in self.queues.items() if to == place for message in queue
        )

    # checks ---------------------------------------------------------------------------------------------------------

    def _wrong(self, text: str) -> SimulationError:
        phases = {place: core.phase.name for place, core in self.cores.items() if place not in self.gone}
        return SimulationError(f"seed {self.seed}: {text}; phases {phases}")

    def _finished(self) -> Statistics:
        total = Total()
        total.merge(self.taken)
        for place, core in self.cores.items():
            self.statistics.merge(core.statistics)
            if core.alive or core.shared is not None:
                raise self._wrong(f"place {place} has work after the finish")
            if place in self.gone and core.result.done:
                raise self._wrong(f"place {place} left with results")
            total.merge(core.result)
        if total.done != Counter(range(1, self.limit)):
            lost = sorted(set(range(1, self.limit)) - set(total.done))
            twice = [task for task, times in total.done.items() if times > 1]
            raise self._wrong(f"tasks {lost} are lost and {twice} done more than once")
        count = Count.of(self.statistics)
        if (count.sent, count.tasks_sent) != (count.received, count.tasks_received):
            raise self._wrong(f"the ledger does not agree: {count}")
        return self.statistics

    def _validate(self) -> None:
        for place, core in self.cores.items():
            if core.shared is not None and not core.alive:
                raise self._wrong(f"place {place} holds a bag, but has no worker")
            if (core.phase in (Phase.WORKING, Phase.EVACUATING)) != bool(core.alive):
                raise self._wrong(f"place {place} is {core.phase.name} with {core.alive} workers")
            if core.thieves.random and not core.alive:
                raise self._wrong(f"place {place} owes answers, but has no worker to give them")
            if place in self.members:
                self._validate_thief(place, core)

    def _validate_thief(self, place: int, core: PlaceCore[Total]) -> None:
        """A waiting place is known to each buddy, a stealing one to its victim, or a message is under way."""
        waiting = [Request(buddy, None) for buddy in core.buddies] if core.phase is Phase.WAITING else []
        stealing = [core.asked] if core.phase is Phase.STEALING and core.asked is not None else []
        if core.phase is Phase.STEALING and not stealing:
            raise self._wrong(f"place {place} is STEALING from nobody")
        for request in waiting + stealing:
            other = request.to
            thieves = self.cores[other].thieves
            known = place in thieves.lifeline if request.nonce is None else thieves.random.get(place) == request.nonce
            if not (known or request in self._between(place, other) or self._answered(request, other, place)):
                raise self._wrong(f"place {place} waits for place {other}, which does not know it")

    def _answered(self, request: Request, sender: int, to: int) -> bool:
        return any(
            isinstance(message, Loot | Give) or (isinstance(message, Refuse) and message.nonce == request.nonce)
            for message in self._between(sender, to)
        )

    def _between(self, sender: int, to: int) -> list[Wire | Effect[Total]]:
        """Return what is under way, or about to be sent, from ``sender`` to ``to``, which is not gone."""
        if to in self.gone:
            return []
        return [
            *self.queues.get((sender, to), ()),
            *(
                effect
                for worker in self.workers
                if worker.place == sender
                for effect in worker.todo
                if isinstance(effect, Request | Refuse | Give) and effect.to == to
            ),
        ]


def _numbers(bag: object) -> Numbers:
    assert isinstance(bag, Numbers)
    return bag
