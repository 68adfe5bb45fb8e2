"""Runs the state machines of many places under a random schedule and checks that nothing is lost, doubled or stuck.

Messages between two places arrive in order, otherwise after any delay; workers take turns at random, and another event
may come between any decision of a worker and its effect. Some calls of ``process`` are long: anything may happen during
them. Places join and leave while work is under way, some leavers are called back, workers come and go, places die. One
seed is one run, to the bit.

What is checked: each task is done exactly once and every result kept, whatever was split, merged and moved; the finish
is neither early (nothing counted happens after it) nor late (when nothing can happen, it has come); nobody who waits is
forgotten, and nobody waits longer than a bound for one that has work to spare (``checks.py``); a computation that loses
a place never yields a result, and says what is missing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import assert_never

from glb.core.effects import Attend, Effect, Ended, Forward, Give, Message, Refuse, Request, Run, Start
from glb.core.leavers import Load
from glb.core.place import PlaceCore
from glb.core.pool import halve
from glb.statistics import Statistics, tasks_in
from glb.testing.bags import Carrying, Numbers, Total, numbers
from glb.testing.checks import Checks, SimulationError
from glb.testing.control import (
    Abort,
    Ask,
    Attendant,
    Begin,
    Control,
    Evacuate,
    Join,
    Loot,
    Members,
    Network,
    Readmit,
    Scenario,
    Wire,
    Worker,
    Workers,
)

__all__ = ["Outcome", "Simulation", "SimulationError"]


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
    """

    def __init__(
        self,
        seed: int,
        *,
        places: int | None = None,
        limit: int | None = None,
        orders: int | None = None,
        losses: int | None = None,
    ) -> None:
        self.seed = seed
        self.rng = rng = Random(seed)
        self.scenario = scenario = Scenario.draw(rng, places=places, limit=limit, orders=orders, losses=losses)
        self.network = Network(rng, scenario.slow)
        self.workers: list[Worker] = []
        self.attendants: list[Attendant] = []
        self.at: dict[int, list[Worker]] = {}
        self.counted = 0
        self.over = False
        self.gone: set[int] = set()
        self.lost: set[int] = set()
        self.loot_lost = False
        self.stopped: set[int] = set()
        self.cold: set[int] = set()
        self.initial = scenario.places
        self.cores: dict[int, PlaceCore[Total]] = {}
        self._losses = scenario.losses
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
                if self.control.idle:
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

    def _step(self) -> None:
        rng = self.rng
        if rng.random() < self.scenario.order_share:
            self.control.advance()
        if self._losses and not self.over and rng.random() < 0.004:
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

    def _finished(self) -> Outcome:
        missing = self.control.collect()
        self.checks.finished(self.control.result, missing)
        events = self.control.done + self.network.delivered
        events["lost place"] = len(self.lost)
        return Outcome(self.control.statistics, missing, events, len(self.cores))

    def _start(self, members: tuple[int, ...]) -> None:
        bag = (Carrying if self.scenario.carrying else Numbers)([1], self.scenario.limit)
        parts = [bag]
        if self.scenario.static:
            bag.process(self.rng.randint(1, 8))
            parts = [numbers(part) for part in halve(bag, len(members))]
        for place, part in zip(members, parts, strict=False):
            self.send(0, place, Loot(part, None))
            self.control.ledger.dealt(len(part))
            self.control.statistics.sent += 1
            self.control.statistics.tasks_sent += len(part)
        if self.scenario.static:
            for place in members[len(parts) :]:
                self.send(0, place, Begin())

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
        bags = sum(isinstance(message, Loot) for message in self.network.cut_off(place))
        self.counted -= len(dead) + bags
        self.loot_lost = self.loot_lost or bool(dead) or bags > 0

    # workers --------------------------------------------------------------------------------------------------------

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
            if not any(isinstance(effect, Ended) for effect in worker.todo):
                self.checks.looked(worker, core)
                self.checks.processes(worker, core)
                worker.call, worker.held = long, tuple(worker.bag.tasks)
                if not long:
                    worker.bag.process(tasks)
        else:
            self.checks.processes(worker, core)
            worker.bag.process(tasks)
        if worker.bag.is_empty() and not worker.todo and not worker.call and worker in self.at[worker.place]:
            worker.back = False
            worker.todo.extend(core.dry(worker.slot, worker.bag, self._goes_long(1)))

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
            case Run() | Forward():
                raise self.wrong(f"a worker was asked to {effect}")

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
        self.counted += isinstance(message, Loot)

    def _say(self, sender: int, message: Message) -> None:
        self.send(sender, message.to, message)

    def _deliver(self, sender: int, to: int, message: Wire) -> None:
        if to in self.gone:
            if isinstance(message, Loot):
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
        for answer in self._answers(sender, core, message):
            self._say(to, answer)
        if isinstance(message, Ask | Members | Workers | Join | Readmit):
            self.control.answered(to, self._load(core), core.statistics)

    def _answers(self, sender: int, core: PlaceCore[Total], message: Wire) -> list[Message]:
        match message:
            case Request(_, nonce):
                self.checks.asked(core, sender, nonce)
                return core.requested(sender, nonce)
            case Refuse(_, nonce):
                return self.checks.refused(core, nonce, core.asked, core.refused(nonce))
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
            case Loot():
                raise AssertionError("bags are taken elsewhere")
            case _:
                assert_never(message)

    def _load(self, core: PlaceCore[Total]) -> Load:
        tasks = sum(len(worker.bag) for worker in self.at[core.me]) + sum(map(tasks_in, core.shared))
        return Load(core.me, core.alive, tasks)

    def _loot(self, place: int, effects: list[Effect[Total]]) -> None:
        for effect in effects:
            match effect:
                case Run(slot, bag):
                    self._spawn(place, slot, numbers(bag))
                case Forward(to, bag):
                    self.send(place, 0 if to in self.lost else to, Loot(numbers(bag), None))
                case Attend():
                    self._spawn_attendant(place)
                case _:
                    raise self.wrong(f"an arriving bag led to {effect}")
