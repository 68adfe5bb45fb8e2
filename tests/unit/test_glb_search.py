"""``glb.search`` on simulated places, and what ``check_search`` finds."""

from __future__ import annotations

import operator
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support import ROOT

import apgas
import glb
from apgas.runtime import by_value
from apgas.testing.pytest_plugin import MakeJob
from glb import search
from glb.search import BestBag, FoldBag, Problem, Search
from glb.testing import check_bag, check_search

knapsack: Any = import_module("knapsack")
Board = tuple[int, ...]
EMPTY: Board = ()
SIZE = 6


def boards(size: int) -> Callable[[Board], Iterator[Board]]:
    """Return the children of a board of queens: another one in the next row that none attacks."""

    def children(queens: Board) -> Iterator[Board]:
        row = len(queens)
        for column in range(size if row < size else 0):
            if all(column != other and abs(column - other) != row - at for at, other in enumerate(queens)):
                yield (*queens, column)

    return children


def full(queens: Board) -> list[Board] | None:
    return [queens] if len(queens) == SIZE else None


SOLUTIONS = [(1, 3, 5, 0, 2, 4), (2, 5, 1, 4, 0, 3), (3, 0, 4, 1, 5, 2), (4, 2, 0, 5, 3, 1)]


def on_places(make_job: MakeJob, main: Callable[[], object], places: int = 3) -> None:
    make_job(main, places=places).run()


NAN = float("nan")


def one_below(node: int) -> list[int]:
    return [node + 1] if node < 3 else []


def alone(problem: Problem[Any]) -> Search[Any]:
    """Return a search that has no other places."""
    only: Search[Any] = Search(0, lambda _: None)
    only.begin(problem)
    return only


# the skeletons -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [1, 3])
def test_all_nodes_are_folded(places: int, apgas_job: MakeJob) -> None:
    def main() -> None:
        assert search.fold(EMPTY, boards(SIZE)).result.value == 153
        outcome = search.fold(EMPTY, boards(SIZE), full, operator.iadd, config=glb.Config(granularity=3))
        assert sorted(outcome.result.value or []) == SOLUTIONS
        assert outcome.statistics.tasks == 153
        assert search.fold(EMPTY, boards(SIZE), lambda _: None).result.value is None

    on_places(apgas_job, main, places)


@pytest.mark.parametrize("places", [1, 3])
def test_a_node_is_found_or_there_is_none(places: int, apgas_job: MakeJob) -> None:
    def main() -> None:
        outcome = search.find(EMPTY, boards(SIZE), lambda queens: len(queens) == SIZE)
        assert (outcome.result.value, outcome.result.node) in [(True, each) for each in SOLUTIONS]
        assert outcome.statistics.tasks < 153
        none = search.find(EMPTY, boards(3), lambda queens: len(queens) == 3, lambda queens: queens != (0,))
        assert (none.result.value, none.result.node) == (None, None)
        assert none.statistics.tasks == 5  # not those below a queen at the first corner

    on_places(apgas_job, main, places)


@pytest.mark.parametrize("places", [1, 3])
def test_the_best_node_is_found(places: int, apgas_job: MakeJob) -> None:
    task = knapsack.problem(items=14, seed=2)
    root = knapsack.Choice(0, 0, task.capacity)

    def main() -> None:
        plain = search.maximize(root, task.children, operator.attrgetter("value"))
        pruned = search.maximize(root, task.children, operator.attrgetter("value"), task.bound)
        least = search.minimize(root, task.children, lambda node: -node.value, lambda node: -task.bound(node))
        assert plain.result.value == pruned.result.value == -(least.result.value or 0)
        assert pruned.result.node is not None
        assert pruned.result.node.value == pruned.result.value
        assert pruned.statistics.tasks < plain.statistics.tasks
        enough = search.maximize(root, task.children, operator.attrgetter("value"), task.bound, target=1000)
        assert 1000 <= (enough.result.value or 0) <= (pruned.result.value or 0)
        assert enough.statistics.tasks < 5

    on_places(apgas_job, main, places)


def test_the_first_child_is_visited_first(apgas_job: MakeJob) -> None:
    def main() -> None:
        visited: list[int] = []

        def children(node: int) -> range:
            visited.append(node)
            return range(10 * node, 10 * node + 3) if node < 10 else range(0)

        search.fold(1, children)
        assert visited == [1, 10, 11, 12]

    on_places(apgas_job, main, 1)


# resizes, and bounds that are late -----------------------------------------------------------------------------------


def test_it_is_exact_while_places_come_and_go(apgas_job: MakeJob) -> None:
    task = knapsack.problem(items=18, seed=1)
    root = knapsack.Choice(0, 0, task.capacity)
    small = glb.Config(granularity=20)

    def main() -> None:
        expected = search.maximize(root, task.children, operator.attrgetter("value"), task.bound).result.value
        nodes = search.fold(root, task.children).result.value
        while len(apgas.resizes()) < 4:
            best = search.maximize(root, task.children, operator.attrgetter("value"), task.bound, config=small)
            assert best.result.value == expected
            outcome = search.fold(root, task.children, config=small)
            assert outcome.result.value == outcome.statistics.tasks == nodes

    job = apgas_job(main, places=2)
    for resize in (job.grow, job.shrink) * 2:
        resize(2 if resize == job.grow else 1)
    job.run()
    assert job.outcomes == ["done"] * 4


joined = threading.Event()


def endless(node: int) -> list[int]:
    """0 has two children: below 1 the goal is met when place 2 is at work, below -1 there is no end."""
    if apgas.here().id == 2:
        joined.set()
    if node == 0:
        time.sleep(0.2)  # so that the next call is expected to be long, and thieves need not wait for it
        return [1, *range(-5, 0)]
    if node == 1:
        assert joined.wait(60)
        return [10**9]
    return [node - 5]


def test_a_place_that_joins_late_hears_of_the_end(apgas_job: MakeJob) -> None:
    joined.clear()

    def main() -> None:
        outcome = search.find(0, endless, lambda node: node == 10**9)
        assert outcome.result.node == 10**9

    job = apgas_job(main, places=2)
    job.grow(1)
    job.run()


def test_a_bound_reaches_all_places_during_their_calls(apgas_job: MakeJob) -> None:
    """Two branches of which each alone would go on for ever: they are left when the third has found the best."""

    def children(node: tuple[str, int]) -> list[tuple[str, int]]:
        name, depth = node
        if name == "root":
            return [("best", 0), ("one", 0), ("two", 0)]
        if name == "best":
            time.sleep(0.05)
            return [("best", depth + 1)] if depth < 5 else []
        return [(name, depth + 1)]

    def main() -> None:
        def value(node: tuple[str, int]) -> int | None:
            return 100 if node == ("best", 5) else None

        outcome = search.maximize(("root", 0), children, value, lambda node: 100, target=100)
        assert outcome.result.node == ("best", 5)
        assert len([own for own in outcome.places.values() if own.tasks]) == 3
        again = search.maximize(("root", 0), children, value, lambda node: 100)  # the bound alone ends it, too
        assert again.result.node == ("best", 5)

    on_places(apgas_job, main)


def test_nothing_stays_on_the_places(apgas_job: MakeJob) -> None:
    def left() -> int:
        return len(search._searches.get())

    def main() -> None:
        search.fold(EMPTY, boards(4))
        with pytest.raises(ExceptionGroup):
            search.fold(EMPTY, lambda _: 1 / 0)  # type: ignore[arg-type, return-value]
        for place in apgas.places():
            assert apgas.at(place, left) == 0

    on_places(apgas_job, main)


# errors --------------------------------------------------------------------------------------------------------------


def failing(queens: Board) -> list[Board]:
    if queens == (1, 3):
        raise ValueError("no such board")
    return list(boards(SIZE)(queens))


@pytest.mark.parametrize(
    ("children", "kind", "words"),
    [
        (failing, ValueError, ["no such board", "while (1, 3) was visited"]),
        (lambda queens: None, TypeError, ["children returned None; it must return", "while () was visited"]),
        (lambda queens: 7, TypeError, ["children returned 7; it must return", "while () was visited"]),
    ],
)
def test_errors_say_at_which_node(children: Any, kind: type[Exception], words: list[str], apgas_job: MakeJob) -> None:
    def main() -> None:
        with pytest.raises(ExceptionGroup) as caught:
            search.fold(EMPTY, children)
        (error,) = caught.value.exceptions
        assert isinstance(error, kind)
        said = "\n".join((str(error), *error.__notes__))
        assert all(each in said for each in words), said

    on_places(apgas_job, main)


def test_what_cannot_travel_is_named(apgas_job: MakeJob, tmp_path: Path) -> None:
    def main() -> None:
        with (tmp_path / "file").open("w") as file:

            def children(node: int) -> list[int]:
                file.write("visited")
                return []

            with pytest.raises(TypeError, match=r"file \(captured by .*children\) is a _io.TextIOWrapper"):
                search.fold(0, children)

    on_places(apgas_job, main)


def test_values_that_cannot_be_compared_are_refused(apgas_job: MakeJob) -> None:
    def main() -> None:
        with pytest.raises(ExceptionGroup) as caught:
            search.maximize(0, lambda node: [], lambda node: NAN)
        assert "neither better nor worse" in str(caught.value.exceptions[0])

    on_places(apgas_job, main)


@pytest.mark.parametrize(
    ("value", "bound"), [(lambda node: NAN if node else 1.0, None), (lambda node: 1.0, lambda node: NAN)]
)
def test_what_cannot_be_compared_is_refused_though_a_value_is_known(value: Any, bound: Any) -> None:
    bag = BestBag(alone(Problem(one_below, value, bound)), [0])
    with pytest.raises(ValueError, match="is nan, which is neither better nor worse"):
        bag.process(9)


@pytest.mark.parametrize("search_for", [search.maximize, search.minimize])
def test_a_target_that_cannot_be_compared_is_refused(search_for: Any) -> None:
    with pytest.raises(ValueError, match="target is nan"):
        search_for(0, one_below, float, target=NAN)


@pytest.mark.parametrize(("yes", "no"), [(-1, 0), (0.5, None), ("yes", ""), ([0], [])])
def test_what_is_found_counts_as_true_or_false(yes: Any, no: Any, apgas_job: MakeJob) -> None:
    def main() -> None:
        best = search.find(0, one_below, lambda node: yes if node else no, lambda node: yes).result
        assert (best.node, best.value) == (1, True)
        best = search.find(0, one_below, lambda node: no, lambda node: no).result
        assert (best.node, best.value) == (None, None)

    on_places(apgas_job, main)


def test_a_merge_that_returns_nothing_is_refused() -> None:
    folded: Any = search.Fold(list.extend)
    bag = FoldBag(alone(Problem(one_below, lambda node: [node], merge=list.extend)), [0])
    folded.add([0])
    bag.process(1)
    for merged in (lambda: folded.add([1]), lambda: bag.add([1]), lambda: bag.process(1)):
        with pytest.raises(TypeError, match="merge returned None"):
            merged()


def test_outside_of_a_program_it_is_refused() -> None:
    with pytest.raises(apgas.UsageError):
        search.fold(0, lambda node: [])


warmed: list[int] = []


def warm_up() -> None:
    warmed.append(apgas.here().id)


def test_the_programs_warm_up_is_called_on_every_place(apgas_job: MakeJob) -> None:
    warmed.clear()
    on_places(apgas_job, lambda: search.fold(EMPTY, boards(4), config=glb.Config(warm_up=warm_up)))
    assert sorted(warmed) == [0, 1, 2]


# bags and checks -----------------------------------------------------------------------------------------------------


class Alone(Search[Any]):
    """On no place, so that it travels with its problem."""

    def __init__(self, problem: bytes) -> None:
        super().__init__(0, lambda _: None)
        self.begin(pickle.loads(problem))

    def __reduce__(self) -> tuple[Any, ...]:
        return Alone, (by_value.dumps(self.problem),)


def test_the_bag_keeps_the_rules() -> None:
    def make() -> FoldBag[Board]:
        return FoldBag(Alone(by_value.dumps(Problem(boards(SIZE), full, merge=operator.add))), [EMPTY])

    check_bag(make, lambda: search.Fold(operator.add), lambda fold: sorted(fold.value or []), SOLUTIONS)


def test_right_functions_pass() -> None:
    check_search(EMPTY, boards(SIZE))
    check_search(EMPTY, boards(SIZE), full, merge=operator.add, expected=sorted(SOLUTIONS))
    check_search(EMPTY, boards(3), lambda queens: len(queens) == 3, lambda queens: queens != (0,), expected=False)
    task = knapsack.problem(items=8, seed=0)
    root = knapsack.Choice(0, 0, task.capacity)
    check_search(root, task.children, operator.attrgetter("value"), task.bound)
    check_search(root, task.children, lambda node: -node.value, lambda node: -task.bound(node), minimize=True)


class Counted:
    """Children that depend on how often they were asked for."""

    def __init__(self) -> None:
        self.calls = 0

    def children(self, node: int) -> list[int]:
        self.calls += 1
        return [node + 1] * (self.calls % 3) if node < 3 else []


def yields_one_list(node: list[int]) -> Iterator[list[int]]:
    child = [*node, 0]
    for number in range(3 if len(node) < 2 else 0):
        child[-1] = number
        yield child


def changes_its_argument(node: list[int]) -> list[list[int]]:
    node.append(1)
    return [[*node]] if len(node) < 4 else []


class Local:
    """Is another one on another place."""

    def __init__(self, depth: int) -> None:
        self.depth = depth

    def __getstate__(self) -> dict[str, int]:
        return {"depth": 5}


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((0, Counted().children), {}, "does not depend on it alone"),
        (([], yields_one_list, tuple), {}, "after yielding it"),
        (([], changes_its_argument), {}, "children changes the node"),
        ((0, lambda node: [node + 1]), {"most": 100}, "more than 100 nodes"),
        ((0, lambda node: [node + 1] if node < 5 else [], float, lambda node: 4.5), {}, r"bound\(\d\) is 4.5, but"),
        (
            (0, lambda node: [node + 1] if node < 5 else [], float, lambda node: 1.5),
            {"minimize": True},
            r"bound\(\d\) is 1.5, but it or one below is worth [01]",
        ),
        ((0, lambda node: [], lambda node: NAN), {}, "neither better nor worse"),
        ((0, lambda node: [], float, lambda node: NAN), {}, r"bound\(0\) is nan, which is neither"),
        ((0, one_below, lambda node: [node]), {"merge": list.extend}, "merge returns None at the node 1"),
        ((0, lambda node: [threading.Lock()] if node == 0 else []), {}, "cannot travel"),
        (
            (Local(0), lambda node: [Local(node.depth + 1)] if node.depth < 3 else [], lambda node: node.depth),
            {},
            "on another place",
        ),
        ((0, lambda node: [1] if node == 0 else [], lambda node: node), {"expected": 2}, "yields 1 instead of 2"),
    ],
)
def test_wrong_functions_are_caught(arguments: tuple[Any, ...], options: dict[str, Any], words: str) -> None:
    with pytest.raises(glb.SearchError, match=words):
        check_search(*arguments, **options)


def test_the_guide_shows_what_is_said_of_a_bound_that_is_none() -> None:
    task = knapsack.problem(items=10, seed=2)
    root = knapsack.Choice(0, 0, task.capacity)
    with pytest.raises(glb.SearchError) as caught:
        check_search(root, task.children, operator.attrgetter("value"), lambda node: task.bound(node) - 50)
    shown = f"```\nglb.errors.SearchError: {caught.value}\n```"
    assert shown in (ROOT / "docs" / "how-to" / "write-your-own-bag.md").read_text(encoding="utf-8")


def test_the_best_node_goes_along_when_bags_are_merged() -> None:
    only = alone(Problem(range, lambda node: node))
    bags = [BestBag(only, [node]) for node in (3, 7)]
    for bag in bags:
        bag.process(1)
    bags[0].merge(bags[1])
    assert (bags[0].best.value, bags[0].best.node, len(bags[0]), len(bags[1])) == (7, 7, 10, 0)
