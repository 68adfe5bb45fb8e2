"""The state machine of the executor: whatever comes and goes, each task ends once, and runs once unless it was lost."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from apgas.futures.core import Effect, Lost, PoolCore, Recall, Send


class SimulatedPool(RuleBasedStateMachine):
    """Places that run tasks, report and hand back at any time, leave, and die."""

    retries = 2

    def __init__(self) -> None:
        super().__init__()
        self.core = PoolCore(self.retries)
        self.queues: dict[int, list[int]] = {}
        self.results: dict[int, list[int]] = {}
        self.recalls: dict[int, list[bool]] = {}
        self.leaving: set[int] = set()
        self.runs: Counter[int] = Counter()
        self.ended: dict[int, str] = {}
        self.unwanted: set[int] = set()
        self.submitted = 0
        self.places = 0

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(place, tasks):
                    assert place in self.queues
                    assert place not in self.leaving
                    assert tasks
                    dropped = self.unwanted.intersection(tasks)
                    self.core.dropped(place, dropped)
                    self.ended |= dict.fromkeys(dropped, "withdrawn")
                    self.queues[place] += [task for task in tasks if task not in dropped]
                    if dropped:
                        self.carry_out(self.core.fill())
                case Recall(place, everything):
                    self.recalls[place].append(everything)
                case Lost(_, tasks):
                    for task in tasks:
                        assert task not in self.ended
                        self.ended[task] = "lost"

    def pick(self, data: st.DataObject, places: list[int]) -> int:
        return data.draw(st.sampled_from(sorted(places)))

    @rule(count=st.integers(1, 40))
    def submit(self, count: int) -> None:
        for _ in range(count):
            self.core.submitted(self.submitted)
            self.submitted += 1
        self.carry_out(self.core.fill())

    @rule()
    def join(self) -> None:
        place, self.places = self.places, self.places + 1
        self.queues[place], self.results[place], self.recalls[place] = [], [], []
        self.core.joined(place)
        self.carry_out(self.core.fill())

    @precondition(lambda self: any(self.queues.values()))
    @rule(data=st.data(), count=st.integers(1, 30))
    def work(self, data: st.DataObject, count: int) -> None:
        place = self.pick(data, [place for place, queue in self.queues.items() if queue])
        tasks, self.queues[place] = self.queues[place][:count], self.queues[place][count:]
        self.runs.update(tasks)
        self.results[place] += tasks

    @precondition(lambda self: any(self.results.values()))
    @rule(data=st.data(), each_s=st.sampled_from([1e-6, 1e-3, 1.0]))
    def report(self, data: st.DataObject, each_s: float) -> None:
        place = self.pick(data, [place for place, results in self.results.items() if results])
        self._report(place, each_s)
        self.carry_out(self.core.fill())

    def _report(self, place: int, each_s: float) -> None:
        tasks, self.results[place] = self.results[place], []
        assert self.core.done(place, tasks, each_s * len(tasks)) == tasks
        for task in tasks:
            assert task not in self.ended
            self.ended[task] = "done"

    @precondition(lambda self: any(self.recalls.values()))
    @rule(data=st.data())
    def hand_back(self, data: st.DataObject) -> None:
        self._hand_back(self.pick(data, [place for place, recalls in self.recalls.items() if recalls]))
        self.carry_out(self.core.fill())

    def _hand_back(self, place: int) -> None:
        queue = self.queues[place]
        keep = 0 if self.recalls[place].pop(0) else len(queue) // 2
        back, self.queues[place] = queue[keep:], queue[:keep]
        if self.results[place]:
            self._report(place, 1e-3)
        self.core.handed_back(place, back)

    @precondition(lambda self: self.submitted > len(self.ended))
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        first, last = sorted(data.draw(st.tuples(*[st.integers(0, self.submitted)] * 2)))
        unwanted = set(range(first, last)) - self.ended.keys()
        self.unwanted |= unwanted
        ended, effects = self.core.withdraw(unwanted)
        self.ended |= dict.fromkeys(ended, "withdrawn")
        self.carry_out(effects)
        for place in self.queues:  # what has begun or is the next one goes on
            kept = self.unwanted.intersection(self.queues[place])
            assert len(kept) < 2 or any(self.recalls[place])
        self.carry_out(self.core.fill())

    @precondition(lambda self: self.queues.keys() - self.leaving)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        place = self.pick(data, sorted(self.queues.keys() - self.leaving))
        self.leaving.add(place)
        self.carry_out(self.core.leave([place]))

    @precondition(lambda self: self.leaving)
    @rule(data=st.data(), stays=st.booleans())
    def left(self, data: st.DataObject, stays: bool) -> None:
        place = self.pick(data, list(self.leaving))
        if stays:
            self.leaving.discard(place)
            self.core.joined(place)
            self.carry_out(self.core.fill())
        elif not self.core.load(place):
            self._forget(place)

    @precondition(lambda self: self.queues)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        self._forget(self.pick(data, list(self.queues)))

    def _forget(self, place: int) -> None:
        self.leaving.discard(place)
        self.carry_out(self.core.gone(place))
        del self.queues[place], self.results[place], self.recalls[place]
        assert self.core.done(place, [0], 1.0) == []
        self.core.handed_back(place, [0])
        self.carry_out(self.core.fill())

    @invariant()
    def each_task_is_somewhere(self) -> None:
        at_places = [task for queue in self.queues.values() for task in queue]
        at_places += [task for results in self.results.values() for task in results]
        assert len(set(at_places)) == len(at_places)
        assert len(at_places) + self.core.waiting + len(self.ended) == self.submitted
        assert sum(map(self.core.load, self.queues)) == len(at_places)

    @invariant()
    def no_place_is_idle_while_tasks_wait(self) -> None:
        if self.core.waiting:
            assert all(self.core.load(place) for place in self.queues.keys() - self.leaving)

    @invariant()
    def what_could_be_begun_elsewhere_is_asked_for(self) -> None:
        idle = [place for place in self.queues.keys() - self.leaving if not self.core.load(place)]
        rich = [place for place in self.queues if self.core.load(place) > 1 and not self.recalls[place]]
        assert len(idle) <= sum(map(bool, self.recalls.values())) or not rich

    def teardown(self) -> None:
        self.join()
        while len(self.ended) < self.submitted:
            for place in list(self.queues):
                while self.recalls[place]:
                    self._hand_back(place)
                tasks, self.queues[place] = self.queues[place], []
                self.runs.update(tasks)
                self.results[place] += tasks
                if self.results[place]:
                    self._report(place, 1e-3)
            self.carry_out(self.core.fill())
        assert not self.core.waiting
        assert all(runs <= self.retries + 1 for runs in self.runs.values())
        assert all(self.runs[task] for task, how in self.ended.items() if how == "done")


class SteadyPool(SimulatedPool):
    """No place dies: no task runs twice."""

    retries = 0

    @precondition(lambda self: False)
    @rule()
    def die(self) -> None:
        raise AssertionError

    @invariant()
    def none_runs_twice(self) -> None:
        assert not self.runs or max(self.runs.values()) == 1


TestSimulatedPool = SimulatedPool.TestCase
TestSimulatedPool.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSteadyPool = SteadyPool.TestCase
TestSteadyPool.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
