"""Tries a bag, the functions of a search, or a lifeline graph for mistakes that lose or double work."""

from __future__ import annotations

import operator
import pickle
import reprlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeVar

import cloudpickle

from glb.bag import Bag, Result
from glb.core.lifelines import Graph
from glb.core.pool import cut_in_pieces, split_off
from glb.errors import BagError, GraphError, LedgerError, SearchError
from glb.statistics import tasks_in

N = TypeVar("N")
R = TypeVar("R", bound=Result)
_MOST_CALLS = 1_000_000


def check_bag(
    make_bag: Callable[[], Bag[R]],
    make_result: Callable[[], R],
    value: Callable[[R], object],
    expected: object = None,
    *,
    agrees: Callable[[object, object], bool] = lambda left, right: left == right,
    granularity: int = 16,
    seed: int = 0,
) -> None:
    """Process the bag in many ways and compare the values: they must all be the same.

    Args:
        make_bag: Makes the bag with all its tasks; take a problem of some thousand tasks.
        make_result: Makes an empty result.
        value: What is compared of a result.
        expected: The right value; None: what processing the bag in one go yields.
        agrees: Comparison of values, for floating-point results.
        granularity: Tasks per call of ``process``.
        seed: Seed of the random schedule.

    Raises:
        BagError: The bag loses, doubles or shares work, or breaks the protocol otherwise; the text says how.
    """
    checker = _Checker(make_bag, make_result, value, agrees, granularity)
    alone = checker.finish([make_bag()])
    checker.expected = alone if expected is None else expected
    checker.compare(alone, "processing the bag in one go gives a wrong value")
    checker.check_fresh()
    checker.check_empty()
    checker.check_split()
    checker.check_merge_of_results()
    checker.check_merge_into_empty()
    checker.check_apart()
    checker.check_submit_twice()
    checker.check_pickle()
    checker.check_partition()
    checker.check_random(Random(seed))


@dataclass
class _Checker(Generic[R]):
    make_bag: Callable[[], Bag[R]]
    make_result: Callable[[], R]
    value: Callable[[R], object]
    agrees: Callable[[object, object], bool]
    granularity: int
    expected: object = None

    def started(self, calls: int = 3) -> Bag[R]:
        bag = self.make_bag()
        for _ in range(calls):
            self.step(bag)
        return bag

    def step(self, bag: Bag[R]) -> None:
        before = bag.work
        more = bag.process(self.granularity)
        if more == bag.is_empty():
            raise BagError(f"process returned {more}, but is_empty says {bag.is_empty()}")
        if more and bag.work == before:
            raise BagError("process returned True, but `work` did not grow: no task was processed or none counted")

    def run(self, bag: Bag[R]) -> None:
        for _ in range(_MOST_CALLS):
            if bag.is_empty():
                return
            self.step(bag)
        raise BagError(f"the bag is not empty after {_MOST_CALLS} calls of process; give check_bag a smaller problem")

    def finish(self, bags: list[Bag[R]]) -> object:
        result = self.make_result()
        for bag in bags:
            self.run(bag)
            own = self.make_result()
            bag.submit(own)
            result.merge(own)
        return self.value(result)

    def compare(self, value: object, otherwise: str) -> None:
        if not self.agrees(value, self.expected):
            raise BagError(f"{otherwise}: {reprlib.repr(value)} instead of {reprlib.repr(self.expected)}")

    def split(self, bag: Bag[R], everything: bool) -> Bag[R] | None:
        splittable = bag.is_splittable()
        try:
            part = split_off(bag, everything=everything)
        except LedgerError as error:
            raise BagError(str(error)) from error
        if part is not None and part.is_empty():
            raise BagError("split returned a bag without tasks instead of None")
        if not everything and (part is not None) != splittable:
            raise BagError(
                f"is_splittable was {splittable}, but split(False) returned {'None' if part is None else 'a bag'}"
            )
        return part

    def merge(self, bag: Bag[R], other: Bag[R]) -> None:
        held, added = tasks_in(bag), tasks_in(other)
        bag.merge(other)
        if tasks_in(bag) != held + added:
            raise BagError(f"merge made {tasks_in(bag)} tasks out of {held} + {added}")

    def check_fresh(self) -> None:
        first, result = self.make_result(), self.make_result()
        self.make_bag().submit(first)
        other = self.started()
        self.make_bag().submit(result)
        if not self.agrees(self.value(result), self.value(first)):
            raise BagError("a new bag has the partial result of another: do they share data of the class or a default?")
        other.submit(self.make_result())

    def check_empty(self) -> None:
        bag = self.make_bag()
        self.run(bag)
        if bag.is_splittable() or self.split(bag, False) is not None or self.split(bag, True) is not None:
            raise BagError("a bag without tasks can be split")

    def check_split(self) -> None:
        bag = self.started()
        part = self.split(bag, False)
        self.compare(self.finish([bag] if part is None else [bag, part]), "a split bag and its part give another value")
        bag = self.started()
        part = self.split(bag, True)
        if not bag.is_empty():
            raise BagError("split(True) left tasks behind")
        self.compare(self.finish([bag] if part is None else [bag, part]), "split(True) loses or doubles work")
        bag = self.started()
        if (part := self.split(bag, False)) is not None:
            self.run(part)
            self.compare(self.finish([bag, part]), "the part shares data with the bag that it was split from")

    def check_merge_of_results(self) -> None:
        bag = self.started()
        if (part := self.split(bag, False)) is None:
            return
        self.run(part)
        self.merge(bag, part)
        self.compare(self.finish([bag]), "merge drops the partial result of a bag without tasks")
        bag = self.started()
        if (part := self.split(bag, True)) is not None:
            part.process(self.granularity)
            self.merge(bag, part)
            self.compare(self.finish([bag]), "merging everything back loses or doubles work")

    def check_merge_into_empty(self) -> None:
        bag = self.started()
        if (part := self.split(bag, False)) is None:
            return
        self.run(bag)
        self.merge(bag, part)
        self.compare(self.finish([bag]), "a bag without tasks loses its partial result, or the tasks, when it merges")
        bag = self.started()
        if (part := self.split(bag, False)) is not None:
            self.run(bag)
            self.run(part)
            self.merge(bag, part)
            if not bag.is_empty():
                raise BagError("two bags without tasks have tasks after merge")
            self.compare(self.finish([bag]), "merge of two bags without tasks loses or doubles results")

    def check_apart(self) -> None:
        """What one bag does must not show in another, nor in a result that it was submitted to."""
        bag = self.started()
        if (part := self.split(bag, False)) is not None:
            for doer, other, name in ((part, bag, "the bag that it was split from"), (bag, part, "its part")):
                before = self.finish([pickle.loads(pickle.dumps(other))])
                self.step(doer)
                if not self.agrees(self.finish([pickle.loads(pickle.dumps(other))]), before):
                    raise BagError(f"processing a bag changes {name}: they share data")
        bag, result = self.started(), self.make_result()
        bag.submit(result)
        kept = pickle.loads(pickle.dumps(result))
        self.run(bag)
        if not self.agrees(self.value(kept), self.value(result)):
            raise BagError("a result changes when the bag that was submitted to it goes on: they share data")

    def check_submit_twice(self) -> None:
        bag, early = self.started(), self.make_result()
        bag.submit(early)
        self.run(bag)
        bag.submit(early)
        bag.submit(early)
        self.compare(self.value(early), "submit does not clear the partial result, or loses it")
        total, first = self.make_result(), self.make_result()
        bag = self.started()
        bag.submit(first)
        total.merge(first)
        late = self.make_result()
        self.run(bag)
        bag.submit(late)
        total.merge(late)
        self.compare(self.value(total), "merging results gives another value (shared data between bag and result?)")

    def check_pickle(self) -> None:
        bag = self.started()
        part = self.split(bag, False)
        bags = [pickle.loads(pickle.dumps(each)) for each in (bag, part) if each is not None]
        self.compare(self.finish(bags), "a pickled bag loses tasks or its partial result")
        result = self.make_result()
        for each in bags:
            each.submit(result)
        whole = self.make_bag()
        self.run(whole)
        whole.submit(result)
        self.compare(self.value(pickle.loads(pickle.dumps(result))), "a pickled result has another value")

    def check_partition(self) -> None:
        bag = self.make_bag()
        cut = getattr(bag, "partition", None)
        parts: list[Bag[R]] = cut_in_pieces(bag, 3) if cut is None else list(cut(3))
        if len(parts) > 3:
            raise BagError(f"partition(3) returned {len(parts)} bags")
        self.compare(self.finish(parts), "the parts of partition give another value")

    def check_random(self, rng: Random) -> None:
        bags = [self.make_bag()]
        for _ in range(200):
            bag = rng.choice(bags)
            choice = rng.random()
            if choice < 0.5:
                bag.process(rng.randint(1, self.granularity))
            elif choice < 0.8:
                part = self.split(bag, rng.random() < 0.2)
                bags += [] if part is None else [part]
            elif len(bags) > 1:
                other = bags.pop(rng.randrange(len(bags)))
                self.merge(rng.choice(bags), other)
        self.compare(self.finish(bags), "random splits and merges give another value")


# Tries the functions of a search -------------------------------------------------------------------------------------


def check_search(
    root: N,
    children: Callable[[N], Iterable[N]],
    value: Callable[[N], object] | None = None,
    bound: Callable[[N], object] | None = None,
    *,
    merge: Callable[[Any, Any], Any] | None = None,
    minimize: bool = False,
    expected: object = None,
    most: int = 100_000,
) -> None:
    """Visit all nodes in several ways, and see that the functions say the same each time and that the bound holds.

    Args:
        root: The first node.
        children: Returns the nodes below one.
        value: What a node is worth; for ``glb.search.find``, whether it is found.
        bound: What neither a node nor any below it exceeds.
        merge: Merges values, for ``glb.search.fold``.
        minimize: Whether the least value is the best one.
        expected: The best value, or all values merged; None: it is not compared.
        most: How many nodes there may be.

    Raises:
        SearchError: The functions do not depend on their argument alone, change nodes, return nodes that cannot travel,
            a tree without end, a bound that is exceeded or NaN, or no merged value; the text says which, and at which
            node.
    """
    _SearchChecker(children, value, bound, operator.lt if minimize else operator.gt, most).check(root, merge, expected)


@dataclass
class _SearchChecker(Generic[N]):
    children: Callable[[N], Iterable[N]]
    value: Callable[[N], object] | None
    bound: Callable[[N], object] | None
    better: Callable[[Any, Any], bool]
    most: int

    def look(self, node: N) -> tuple[object, object, int]:
        """Return what tells nodes apart, whatever they are: value, bound and number of children."""
        value = None if self.value is None else self.value(node)
        if value != value:  # as NaN does
            raise SearchError(
                f"value({reprlib.repr(node)}) is {value!r}, which is neither better nor worse than another"
            )
        bound = None if self.bound is None else self.bound(node)
        if bound != bound:
            raise SearchError(
                f"bound({reprlib.repr(node)}) is {bound!r}, which is neither better nor worse than a value"
            )
        return value, bound, len(list(self.children(node)))

    def below(self, node: N) -> list[N]:
        """Return the children of a node; each must still be what it was when it was yielded."""
        before = self.look(node)
        found, looks = [], []
        for child in self.children(node):
            found.append(child)
            looks.append(self.look(child))
        if self.look(node) != before:
            raise SearchError(f"children changes the node {reprlib.repr(node)}, or does not depend on it alone")
        for child, look in zip(found, looks, strict=True):
            if self.look(child) != look:
                raise SearchError(f"children changes {reprlib.repr(child)} after yielding it: make a new one each time")
        return found

    def check(self, root: N, merge: Callable[[Any, Any], Any] | None, expected: object) -> None:
        best: list[Any] = [None]  # of the subtrees that are being visited, the root's first
        total: Any = None
        seen = 0
        ahead: list[tuple[N, bool]] = [(root, True)]
        while ahead:
            node, down = ahead.pop()
            value, bound, _ = self.look(node)
            if not down:
                below = best.pop()
                if bound is not None and below is not None and self.better(below, bound):
                    raise SearchError(
                        f"bound({reprlib.repr(node)}) is {bound!r}, but it or one below is worth {below!r}"
                    )
                best[-1] = self.best(best[-1], below)
                continue
            seen += 1
            if seen > self.most:
                raise SearchError(f"there are more than {self.most} nodes; give check_search a smaller problem")
            if value is not None and merge is not None:
                total = value if total is None else merge(total, value)
                if total is None:
                    raise SearchError(
                        f"merge returns None at the node {reprlib.repr(node)}; it must return the two values merged"
                    )
            best.append(value)
            ahead.append((node, False))
            ahead += [(self.travelled(child), True) for child in reversed(self.below(node))]
        reached = best[0] if merge is None else total
        if expected is not None and reached != expected:
            raise SearchError(f"the search yields {reprlib.repr(reached)} instead of {reprlib.repr(expected)}")

    def best(self, one: Any, other: Any) -> Any:
        if one is None or other is None:
            return other if one is None else one
        return other if self.better(other, one) else one

    def travelled(self, node: N) -> N:
        """Return a node as another place gets it."""
        try:
            copy: N = pickle.loads(cloudpickle.dumps(node))
        except Exception as error:
            raise SearchError(f"the node {reprlib.repr(node)} cannot travel: {error}") from error
        if self.look(copy) != self.look(node):
            raise SearchError(f"the node {reprlib.repr(node)} has other children, or another value, on another place")
        return copy


# Tries a lifeline graph for what the balancer relies on --------------------------------------------------------------

_ALL_SOURCES = 64
_SOME_SOURCES = 4


def check_graph(graph: Graph, counts: Iterable[int]) -> None:
    """Build the whole graph for each number of places and look at it.

    The diameter is exact up to 64 places; beyond, a few places are looked at, spread evenly.

    Args:
        graph: The graph.
        counts: Numbers of places to try.

    Raises:
        GraphError: It is not connected, has loops or doubled edges, breaks its bounds, or who asks and who is asked
            disagree; the text says where.
    """
    for count in counts:
        _check(graph, count)


def _check(graph: Graph, count: int) -> None:
    asks = [list(graph.forward(position, count)) for position in range(count)]
    asked: list[set[int]] = [set() for _ in range(count)]
    for position, targets in enumerate(asks):
        _check_one(graph, count, position, targets)
        for target in targets:
            asked[target].add(position)
    for position in range(count):
        reverse = list(graph.reverse(position, count))
        if sorted(reverse) != sorted(asked[position]):
            raise GraphError(
                f"{graph}: of {count} places {sorted(asked[position])} ask place {position}, "
                f"but reverse says {sorted(reverse)}"
            )
    sources = range(count) if count <= _ALL_SOURCES else range(0, count, -(-count // _SOME_SOURCES))
    for source in sources:
        steps = _steps(asks, source)
        if steps is None:
            raise GraphError(f"{graph}: place {source} of {count} does not reach all others")
        if steps > graph.diameter(count):
            raise GraphError(f"{graph}: {steps} steps from place {source} of {count}; bound {graph.diameter(count)}")
    if count and _steps([sorted(askers) for askers in asked], 0) is None:
        raise GraphError(f"{graph}: not all of {count} places reach place 0")


def _check_one(graph: Graph, count: int, position: int, targets: Sequence[int]) -> None:
    where = f"{graph}: place {position} of {count} asks {targets}"
    if position in targets:
        raise GraphError(f"{where}: itself")
    if len(set(targets)) != len(targets):
        raise GraphError(f"{where}: one of them twice")
    if not all(0 <= target < count for target in targets):
        raise GraphError(f"{where}: one of them is none")
    if len(targets) > graph.degree(count):
        raise GraphError(f"{where}: more than the bound {graph.degree(count)}")


def _steps(asks: Sequence[Sequence[int]], source: int) -> int | None:
    """Return how many steps lead from ``source`` to the farthest position; None if they do not reach all."""
    steps, seen, border = 0, {source}, {source}
    while len(seen) < len(asks):
        border = {target for position in border for target in asks[position]} - seen
        if not border:
            return None
        seen |= border
        steps += 1
    return steps
