"""Runs the state machines of many places under a random schedule and checks that nothing is lost, doubled or stuck.

Messages between two places arrive in order, otherwise after any delay; workers take turns at random, and another event
may come between any decision of a worker and its effect. Some calls of ``process`` are long: anything may happen during
them. Places join and leave while work is under way, some leavers are called back, workers come and go, places die. One
seed is one run, to the bit.

What is checked: each task is done exactly once and every result kept, whatever was split, merged and moved; the finish
is neither early (nothing counted happens after it) nor late (when nothing can happen, it has come); no place that waits
is forgotten, and none waits longer than a bound for one that has work to spare (``Checks``); a computation that loses a
place never yields a result, and says what is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import assert_never

from stress.glb_network import (
    Abort,
    Ask,
    Attendant,
    Begin,
    Carrying,
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
    numbers,
)

from glb.core.effects import Attend, Effect, Ended, Forward, Give, Message, Refuse, Request, Run, Start
from glb.core.leavers import Load, deal
from glb.core.ledger import Ledger
from glb.core.place import PlaceCore
from glb.core.pool import cut_in_pieces
from glb.core.view import Phase
from glb.statistics import Statistics, tasks_in
from glb.testing import Numbers, Total


class SimulationError(AssertionError):
    """The state machine broke a promise; the text says which, and the seed repeats it."""


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
            parts = [numbers(part) for part in cut_in_pieces(bag, len(members))]
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
        self.result = Total()
        self.statistics = Statistics()
        self.leaving: set[int] = set()
        self.called_back: set[int] = set()
        self.done: Counter[str] = Counter()
        self.idle = True
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
        """Give up if a member has died, as the driver does when progress is reported."""
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
        lost = self._job.lost.intersection(self.members)
        if self.aborted or lost or self._job.loot_lost:
            return self.ledger.missing(self._job.lost, {})
        for place in self.members:
            self._take_report(place)
        self.ledger.close()
        return None

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
            self.idle = True

    def _order(self) -> Iterator[None]:
        choice = self._rng.random()
        if choice < 0.25:
            yield from self._change_workers(self._rng.randint(1, 4))
        elif choice < 0.6 or len(self.members) == 1:
            yield from self._grow(self._rng.randint(1, 3))
        else:
            yield from self._shrink(self._rng.randint(1, min(4, len(self.members) - 1)))

    def _tell(self, places: Sequence[int], message: Wire) -> Iterator[None]:
        self._answers = {}
        self._awaited = set(places)
        for place in places:
            self._job.send(0, place, message)
        while self._awaited:
            yield None
            if not self._job.lost.isdisjoint(self._awaited):
                raise _PlaceLostError

    def _wave(self) -> None:
        self.ledger.wave({place: counts for place, (_, counts) in self._answers.items()})

    def _change_workers(self, count: int) -> Iterator[None]:
        self.workers = count
        yield from self._tell(self.members, Workers(count))
        self.done["workers"] += 1

    def _grow(self, count: int) -> Iterator[None]:
        old = self.members
        new = tuple(range(self._next, self._next + count))
        self._next += count
        self.members = old + new
        yield from self._tell(new, Join(self.members, old, self.workers))
        self.ledger.joined(new)
        for place in new:
            self._job.send(0, place, Begin())
        yield from self._tell(old, Members(self.members))
        self._wave()
        self.done["grow"] += 1

    def _shrink(self, count: int) -> Iterator[None]:
        before = self.members
        leavers = tuple(self._rng.sample(before[1:], count))
        self.members = survivors = tuple(place for place in before if place not in leavers)
        yield from self._tell(before, Ask())
        self._wave()
        loads = {place: load for place, (load, _) in self._answers.items()}
        turns = deal([loads[place] for place in leavers], [loads[place] for place in survivors])
        yield from self._tell(survivors, Members(survivors))
        for place in leavers:
            self._job.send(0, place, Evacuate(survivors, tuple(turns[place])))
        while not all(self._is_evacuated(place) for place in leavers):
            yield None
        reports = {place: replace(self._job.cores[place].statistics) for place in leavers}
        self.ledger.wave({place: counts for place, (_, counts) in self._answers.items()} | reports)
        for place in leavers:
            self._take_report(place)
        self.leaving = set(leavers)
        yield None
        if self._rng.random() < 0.3:
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
        if not self._job.lost.isdisjoint(leavers):
            raise _PlaceLostError
        yield from self._tell(leavers, Readmit(members))
        self.ledger.joined(leavers)
        yield from self._tell(members, Members(members))
        self._wave()
        for place in leavers:
            self._job.send(0, place, Begin())
        self.done["call back"] += 1

    def _is_evacuated(self, place: int) -> bool:
        if place in self._job.lost:
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
        self.result.merge(core.take_result())
        statistics, core.statistics = core.statistics, Statistics()
        self.ledger.reported(place, statistics)
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

    # when a worker takes its turn -----------------------------------------------------------------------------------

    def asked(self, core: PlaceCore[Total], thief: int, nonce: int | None) -> None:
        """A thief's question is about to arrive."""
        if nonce is not None:
            self._chances[core.me, thief, nonce] = core.alive

    def looked(self, worker: Worker, core: PlaceCore[Total]) -> None:
        """A worker has attended to its place, and stays."""
        known = {(worker.place, thief, nonce) for thief, nonce in core.thieves.random.items()}
        for key in [key for key in self._chances if key[0] == worker.place]:
            self._chances[key] -= 1
            if key not in known:
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
        for place in self._job.scenario.lifelines.thieves(core.me, core.members):
            thief = self._job.cores.get(place)
            if thief is None or thief.alive or place in away or thief.members is not core.members:
                continue
            waits = thief.phase is Phase.WAITING
            new = thief.phase is Phase.JOINING and place >= self._job.initial and not thief.statistics.received
            # one that was called back asks by itself once it may begin
            if not (waits or (new and place not in self._job.control.called_back)):
                continue
            sent = [*self._between(place, core.me), *self._between(core.me, place)]
            if not any(isinstance(each, Request | Loot | Give) for each in sent):
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
            if core.shared and not core.attended:
                raise job.wrong(f"no attendant serves what is set out at place {place}")
            if core.alive < core.workers and set_out and core.phase is not Phase.JOINING and place not in job.cold:
                raise job.wrong(f"place {place} has idle slots while work is set out at places {set_out}")

    # between steps --------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Look at all places."""
        slots = Counter((worker.place, worker.slot) for worker in self._job.workers if not worker.todo)
        if slots and max(slots.values()) > 1:
            raise self._job.wrong(f"two workers in one slot: {[slot for slot, held in slots.items() if held > 1]}")
        for place, core in self._job.cores.items():
            if place in self._job.lost or place in self._job.gone:
                continue
            if core.shared and not core.alive:
                raise self._job.wrong(f"place {place} holds a bag, but has no worker")
            if core.thieves.random and not core.alive:
                raise self._job.wrong(f"place {place} owes answers, but has no worker to give them")
            if core.thieves.random and place in self._job.cold:
                raise self._job.wrong(f"place {place} lets random thieves wait until it is warm")
            if place in self._job.control.members and not self._job.lost:
                self._validate_thief(place, core)

    def _validate_thief(self, place: int, core: PlaceCore[Total]) -> None:
        """A waiting place is known to each buddy, a stealing one to its victim, or a message is under way."""
        waiting = [Request(buddy, None) for buddy in core.buddies] if core.phase is Phase.WAITING else []
        stealing = [core.asked] if core.phase is Phase.STEALING and core.asked is not None else []
        if core.phase is Phase.STEALING and not stealing:
            raise self._job.wrong(f"place {place} is STEALING from nobody")
        for request in waiting + stealing:
            other = request.to
            known = self._job.cores[other].thieves.knows(place, request.nonce)
            if not (known or request in self._between(place, other) or self._answered(request, other, place)):
                raise self._job.wrong(f"place {place} waits for place {other}, which does not know it")

    def _answered(self, request: Request, sender: int, to: int) -> bool:
        return any(
            isinstance(message, Loot | Give) or (isinstance(message, Refuse) and message.nonce == request.nonce)
            for message in self._between(sender, to)
        )

    def _between(self, sender: int, to: int) -> list[Wire | Effect[Total]]:
        """Return what is under way, or about to be sent, from ``sender`` to ``to``, which is not gone."""
        if to in self._job.gone:
            return []
        return [
            *self._job.network.between(sender, to),
            *(
                effect
                for worker in self._job.at[sender]
                for effect in worker.todo
                if isinstance(effect, Request | Refuse | Give) and effect.to == to
            ),
        ]

    # at the end -----------------------------------------------------------------------------------------------------

    def finished(self, result: Total, missing: str | None) -> None:
        """Look at the result, and at the places once the computation is over."""
        for place, core in self._job.cores.items():
            if place in self._job.lost:
                continue
            if core.alive or core.shared:
                raise self._job.wrong(f"place {place} has work after the finish")
            if missing is None and core.result.done:
                raise self._job.wrong(f"place {place} has results that nobody has asked for")
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
