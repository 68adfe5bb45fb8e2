"""Random schedules of searches: the result is exact whenever bounds arrive, and every place hears of the best value."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import pytest
from numbered import Numbers, Total
from stress.glb_network import Begin, Worker
from stress.glb_simulation import Checks, Simulation, SimulationError

from glb import search
from glb.search import Best, BestBag, FoldBag, Nodes, Problem

SEEDS = 250
NUMBER = 0


class Id(NamedTuple):
    """A simulated place, as ``apgas.here()`` returns it."""

    id: int


@dataclass(frozen=True)
class Call:
    """What ``apgas.immediate`` sends."""

    fn: Callable[..., object]
    args: tuple[Any, ...]


class Visited(Numbers):
    """The numbers below ``limit`` in a bag of a search; 2t and 2t + 1 are below t."""

    def __init__(self, bag: Nodes[int], limit: int) -> None:
        self.bag = bag
        self.limit = limit

    @property
    def tasks(self) -> list[int]:  # type: ignore[override]
        return self.bag.nodes

    @property
    def work(self) -> int:  # type: ignore[override]
        return self.bag.work

    def process(self, n: int) -> bool:
        return self.bag.process(n)  # type: ignore[attr-defined, no-any-return]

    def split(self, all: bool) -> Numbers | None:
        part = self.bag.split(all)
        return None if part is None else Visited(part, self.limit)

    def merge(self, other: Numbers) -> None:
        assert isinstance(other, Visited)
        self.bag.merge(other.bag)

    def submit(self, result: Total) -> None:
        if isinstance(self.bag, FoldBag):
            result.done.update(self.bag.total or ())
            self.bag.total = None
        elif isinstance(self.bag, BestBag):
            best: Best[int, int] = Best(self.bag.search.problem.better)
            self.bag.submit(best)
            result.done.update(() if best.node is None else (best.node,))


class SearchSimulation(Simulation):
    """A search of numbers on simulated places, with the code that sends bounds between real ones."""

    def __init__(self, seed: int, kind: str, monkeypatch: pytest.MonkeyPatch, *, unreliable: bool) -> None:
        self.kind = kind
        self.unreliable = unreliable
        self.now_at = 0
        self.searches: dict[int, dict[int, search.Search[Any]]] = {}
        self.calls = 0
        self.unsent = Random(seed)
        monkeypatch.setattr(search, "apgas", self)
        monkeypatch.setattr(search, "_searches", self)
        super().__init__(seed)
        self.checks = SearchChecks(self)
        for place in range(1, self.scenario.places):
            self._join(place)

    # what stands for apgas ------------------------------------------------------------------------------------------

    def here(self) -> Id:
        return Id(self.now_at)

    def get(self) -> dict[int, search.Search[Any]]:
        return self.searches.setdefault(self.now_at, {})

    def places(self) -> list[Id]:
        return [Id(place) for place in sorted(self.cores) if place not in self.gone and place not in self.lost]

    def immediate(self, where: Id | int, fn: Callable[..., object], *args: Any) -> None:
        to = where if isinstance(where, int) else where.id
        copies = self.unsent.choice((0, 1, 1, 2)) if self.unreliable else 1
        for _ in range(copies if to not in self.lost else 0):
            self.calls += 1
            self.network.send(self.now_at, to, Call(fn, args))  # type: ignore[arg-type]

    # the search -----------------------------------------------------------------------------------------------------

    def first_bag(self) -> Numbers:
        limit = self.scenario.limit
        self.scores = scores = Random(self.seed).sample(range(10 * limit), limit)
        self.below = below = list(scores)  # the best score at or below each number
        for task in range(limit - 1, 1, -1):
            below[task // 2] = max(below[task // 2], below[task])
        self.most = below[1] if limit > 1 else None

        def children(task: int) -> range:
            return range(2 * task, min(2 * task + 2, limit))

        slack = 0 if self.seed % 2 else limit
        if self.kind == "fold":
            self.problem: Problem[int] = Problem(children, lambda task: Counter((task,)), merge=operator.add)
        elif self.kind == "find":
            self.problem = Problem(children, lambda task: scores[task] == self.most, first=False, target=True)
        else:
            self.problem = Problem(children, scores.__getitem__, lambda task: below[task] + slack)
        here = search._here(NUMBER)
        here.begin(self.problem)
        return Visited((FoldBag if self.kind == "fold" else BestBag)(here, [1]), limit)

    def _join(self, place: int) -> None:
        self.now_at = place
        here = search._here(NUMBER)
        here.begin(self.problem)
        self.immediate(0, search._asked, NUMBER, Id(place))

    def _work(self, worker: Worker) -> None:
        self.now_at = worker.place
        assert isinstance(worker.bag, Visited)
        here = worker.bag.bag.search = search._here(NUMBER)
        over, before = here.over, worker.bag.work
        super()._work(worker)
        if over and worker.bag.work > before:
            raise self.wrong(f"place {worker.place} visits nodes although it knows that the search is over")

    def _deliver(self, sender: int, to: int, message: Any) -> None:
        if isinstance(message, Call):
            self.calls -= 1
            self.now_at = to
            if to not in self.gone:
                message.fn(*message.args)
            return
        if isinstance(message, Begin) and to in self.cold:
            self._join(to)
        super()._deliver(sender, to, message)

    def _lose(self) -> None:
        self._losses = 0  # what a loss does to bags is shown elsewhere


class SearchChecks(Checks):
    """Looks at a search."""

    def __init__(self, job: SearchSimulation) -> None:
        super().__init__(job)
        self._search = job

    def validate(self) -> None:
        super().validate()
        job = self._search
        if job.calls or job.unreliable or job.kind == "fold":
            return
        known = {
            place: here[NUMBER].best
            for place, here in job.searches.items()
            if place not in job.gone and hasattr(here.get(NUMBER), "problem")
        }
        if set(known.values()) != {known[0]}:
            raise job.wrong(f"nothing is under way, but places know different values: {known}")

    def finished(self, result: Total, missing: str | None) -> None:
        job = self._search
        if job.kind == "fold":
            super().finished(result, missing)
            return
        for core in job.cores.values():
            result.merge(core.result)
        found = max((job.scores[task] for task in result.done), default=None)
        if found != job.most:
            raise job.wrong(f"the search found {found} instead of {job.most}")


def run(seeds: range, kind: str, *, unreliable: bool) -> Counter[str]:
    events = Counter[str]()
    for seed in seeds:
        with pytest.MonkeyPatch.context() as patch:
            events += SearchSimulation(seed, kind, patch, unreliable=unreliable).run().events
    return events


@pytest.mark.parametrize("kind", ["fold", "find", "maximize"])
@pytest.mark.parametrize("unreliable", [False, True])
def test_searches_are_exact(kind: str, unreliable: bool, summary: list[str]) -> None:
    events = run(range(SEEDS), kind, unreliable=unreliable)
    summary.append(f"search, {kind}, bounds {'lost and doubled' if unreliable else 'arrive'}: {dict(events)}")
    assert all(events[event] > 20 for event in ("grow", "shrink", "call back"))
    assert events["Call"] > 500


# planted defects -----------------------------------------------------------------------------------------------------


def forget_who_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_asked", lambda number, place: None)


def keep_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search.Search, "tell", lambda self: None)


def push_only_what_place_0_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    def improved(number: int, value: object) -> None:
        search._searches.get()[number].learn(value)

    monkeypatch.setattr(search, "_improved", improved)


def take_older_values(monkeypatch: pytest.MonkeyPatch) -> None:
    def learn(self: search.Search[object], value: object) -> bool:
        better = self.best is None or self.problem.better(value, self.best)
        self.best = value
        return better

    monkeypatch.setattr(search.Search, "learn", learn)


def keep_the_best_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search.BestBag, "submit", lambda self, result: None)


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (forget_who_joins, "know different values"),
        (keep_to_itself, "know different values"),
        (push_only_what_place_0_finds, "know different values"),
        (take_older_values, "know different values|instead of"),
        (keep_the_best_node, "instead of"),
    ],
)
def test_the_net_catches(
    plant: Callable[[pytest.MonkeyPatch], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(SimulationError, match=words):
        run(range(500), "maximize", unreliable=False)
