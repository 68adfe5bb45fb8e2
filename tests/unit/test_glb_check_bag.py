"""``check_bag`` finds the mistakes that it is there for."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import Any, ClassVar

import pytest
from numbered import Numbers, Total
from support import ROOT

from glb.config import Config
from glb.errors import BagError, ConfigError
from glb.statistics import Statistics
from glb.testing import check_bag

LIMIT = 3000


class DropsResultOfEmptyBag(Numbers):
    def merge(self, other: Numbers) -> None:
        if other.tasks:
            super().merge(other)


class CopiesOnSplit(Numbers):
    def split(self, all: bool) -> Numbers | None:
        count = len(self.tasks) if all else len(self.tasks) // 2
        return type(self)(self.tasks[:count], self.limit) if count else None

    def __len__(self) -> int:
        return 0


class SharesTheList(Numbers):
    def split(self, all: bool) -> Numbers | None:
        part = super().split(all)
        if part is not None:
            part.done = self.done
        return part


class SharesTheTasks(Numbers):
    """Bag and part look at one list."""

    def split(self, all: bool) -> Numbers | None:
        part = super().split(all)
        if part is not None and not all:
            part.tasks = self.tasks = part.tasks + self.tasks
        return part

    def __len__(self) -> int:
        return 0


class KeepsItsResultInTheClass(Numbers):
    """The counter is one for all bags."""

    both: ClassVar[Counter[int]] = Counter()

    def process(self, n: int) -> bool:
        more = super().process(n)
        self.both.update(self.done)
        self.done.clear()
        return more

    def submit(self, result: Total) -> None:
        result.done.update(self.both)
        self.both.clear()


class GivesItsOwnCounterAway(Numbers):
    """The result keeps the bag's counter, and the bag goes on with it; a second submit adds nothing."""

    def submit(self, result: Total) -> None:
        if not result.done:
            result.done = self.done
        elif result.done is not self.done:
            super().submit(result)


class BecomesTheOther(Numbers):
    """Merges by taking the other's place when it has no tasks itself."""

    def merge(self, other: Numbers) -> None:
        if self.tasks:
            super().merge(other)
        else:
            self.__dict__ = other.__dict__


class LosesItsResultWithTheLastTask(Numbers):
    def split(self, all: bool) -> Numbers | None:
        part = super().split(all)
        if all and part is not None:
            self.done = Counter()
        return part


class DropsBothResults(Numbers):
    def merge(self, other: Numbers) -> None:
        super().merge(other)
        if not self.tasks:
            self.done = Counter()


class LosesATask(Numbers):
    def merge(self, other: Numbers) -> None:
        del other.tasks[:1]
        super().merge(other)


class SubmitsTwice(Numbers):
    def submit(self, result: Total) -> None:
        result.done.update(self.done)


class LiesAboutSplitting(Numbers):
    def is_splittable(self) -> bool:
        return True


class ReturnsEmptyParts(Numbers):
    def split(self, all: bool) -> Numbers | None:
        return super().split(all) or type(self)([], self.limit)


class ForgetsItsResultOnTheWay(Numbers):
    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"done": Counter()}


class DoesNotCount(Numbers):
    def process(self, n: int) -> bool:
        more = super().process(n)
        self.work = 0
        return more


class KeepsSomeBack(Numbers):
    def split(self, all: bool) -> Numbers | None:
        return super().split(False)


class PartitionsTwice(Numbers):
    def partition(self, k: int) -> list[Numbers]:
        return [type(self)(list(self.tasks), self.limit) for _ in range(k)]


def check(kind: type[Numbers]) -> None:
    check_bag(lambda: kind([1], LIMIT), Total, lambda total: dict(total.done), dict.fromkeys(range(1, LIMIT), 1))


def test_a_right_bag_passes() -> None:
    check(Numbers)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (DropsResultOfEmptyBag, "merge drops the partial result"),
        (CopiesOnSplit, "give another value"),
        (SharesTheList, "give another value|shares data|doubles work"),
        (SharesTheTasks, "give another value|share data"),
        (KeepsItsResultInTheClass, "a new bag has the partial result of another"),
        (GivesItsOwnCounterAway, "share data"),
        (BecomesTheOther, "merging everything back loses"),
        (LosesItsResultWithTheLastTask, r"split\(True\) loses"),
        (DropsBothResults, "of two bags without tasks"),
        (LosesATask, "merge made"),
        (SubmitsTwice, "does not clear"),
        (LiesAboutSplitting, "is_splittable|can be split"),
        (ReturnsEmptyParts, "without tasks"),
        (ForgetsItsResultOnTheWay, "pickled bag"),
        (DoesNotCount, "`work` did not grow"),
        (KeepsSomeBack, "left tasks behind"),
        (PartitionsTwice, "partition"),
    ],
)
def test_a_wrong_bag_is_caught(kind: type[Numbers], words: str) -> None:
    with pytest.raises(BagError, match=words):
        check(kind)


def test_a_wrong_value_is_caught() -> None:
    with pytest.raises(BagError, match="in one go"):
        check_bag(lambda: Numbers([1], 10), Total, lambda total: total.done.total(), 10)


@pytest.mark.parametrize(
    "settings",
    [
        {"workers": 0},
        {"workers": True},
        {"granularity": 0},
        {"random_steals": -1},
        {"radix": 1},
        {"rate": 0.0},
        {"rate": float("nan")},
        {"target_s": 0.0},
        {"lifelines": "star"},
    ],
)
def test_impossible_settings_are_named(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^{next(iter(settings))} is "):
        Config(**settings)


def test_statistics_merge() -> None:
    total = Statistics(tasks=3, worst_lag_s=0.5)
    total.merge(Statistics(tasks=4, worst_lag_s=0.25))
    assert (total.tasks, total.worst_lag_s) == (7, 0.5)


def test_a_lost_task_is_found_even_if_the_result_hides_it() -> None:
    with pytest.raises(BagError, match="merge made 7 tasks out of 0 \\+ 8"):
        check_bag(lambda: LosesATask([1], LIMIT), Total, lambda total: max(total.done, default=0) > 0)


def test_the_guide_shows_what_is_said_of_a_bag_that_forgets_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    knapsack = import_module("knapsack_bag")

    def merge(self: Any, other: Any) -> None:
        self.best = max(self.best, other.best)
        other.choices = []

    monkeypatch.setattr(knapsack.Knapsack, "merge", merge)
    small = knapsack.problem(items=16, seed=0)
    with pytest.raises(BagError) as caught:
        check_bag(lambda: knapsack.whole(small), knapsack.Best, lambda best: best.value)
    shown = f"```\nglb.errors.BagError: {caught.value}\n```"
    assert shown in (ROOT / "docs" / "how-to" / "write-your-own-bag.md").read_text(encoding="utf-8")
