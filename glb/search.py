"""Tree search over functions of the user's: enumeration, decision and optimisation, on all places.

A search has a root and ``children(node)``. ``fold`` visits all nodes and adds up what each is worth (enumeration),
``find`` looks for one node and stops everywhere when it is found (decision), ``maximize`` and ``minimize`` look for the
best one (optimisation). With ``bound(node)`` they leave out what cannot be of use. These are the skeletons of YewPar
(B. Archibald, P. Maier, R. Stewart and P. Trinder: *YewPar: Skeletons for Exact Combinatorial Search*, PPoPP 2020).

The functions travel to each place once, as ``cloudpickle`` takes them: lambdas, closures and methods of an object with
the problem's data will do. They must depend on their argument alone; ``glb.testing.check_search`` tries them. Each node
is visited depth first, the first child first; a place that has nothing to do is given some of the nodes of another.

What is best so far is pushed to all places: to place 0, and if it is better than all that is known there, from place 0
to all others, newcomers included. A place that hears of it late, or twice, or never, visits more nodes; the result is
the same.
"""

from __future__ import annotations

import itertools
import operator
import reprlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Generic, Protocol, Self, TypeVar, overload

import apgas
from glb.config import Config
from glb.driver import Outcome, compute

__all__ = ["Best", "Fold", "find", "fold", "maximize", "minimize"]


class Ordered(Protocol):
    """What can be compared, as numbers and tuples of them can."""

    def __lt__(self, other: Any, /) -> bool:
        """Return whether this is less than ``other``."""

    def __gt__(self, other: Any, /) -> bool:
        """Return whether this is greater than ``other``."""


N = TypeVar("N")
V = TypeVar("V")
O = TypeVar("O", bound=Ordered)  # noqa: E741 - the letter stands for what is ordered
Better = Callable[[Any, Any], bool]


# What the user calls -------------------------------------------------------------------------------------------------


@overload
def fold(root: N, children: Callable[[N], Iterable[N]], *, config: Config | None = None) -> Outcome[Fold[int]]: ...
@overload
def fold(
    root: N,
    children: Callable[[N], Iterable[N]],
    value: Callable[[N], V | None],
    merge: Callable[[V, V], V] = ...,
    *,
    config: Config | None = None,
) -> Outcome[Fold[V]]: ...
def fold(
    root: N,
    children: Callable[[N], Iterable[N]],
    value: Callable[[N], Any] | None = None,
    merge: Callable[[Any, Any], Any] = operator.add,
    *,
    config: Config | None = None,
) -> Outcome[Fold[Any]]:
    """Visit every node of a tree, and merge what they are worth.

    Args:
        root: The first node.
        children: Returns the nodes below one, none for a leaf.
        value: What a node is worth; None leaves it out. By default each counts as 1.
        merge: Merges two values, in any order and grouping; it may change the first of them and return it.
        config: The settings.

    Returns:
        The outcome, with what all nodes are worth together in ``result.value``; None if no node is worth anything.

    Raises:
        TypeError: A function, or a node, cannot be sent to other places; or ``merge`` returns None.
        ExceptionGroup: Errors of the functions; a note says at which node.
        Exception: As for ``compute``.

    Example:
        >>> outcome = fold(10, range, value=lambda node: node or None)  # the nodes below n are 0 to n - 1
        >>> outcome.result.value, outcome.statistics.tasks
        (1023, 1024)
    """
    if value is None:
        value, merge = one, operator.add
    problem = Problem(children, value, merge=merge)
    return _search(problem, FoldBag, root, partial(Fold, merge), config)


def find(
    root: N,
    children: Callable[[N], Iterable[N]],
    found: Callable[[N], bool],
    bound: Callable[[N], bool] | None = None,
    *,
    config: Config | None = None,
) -> Outcome[Best[N, bool]]:
    """Look for one node, and stop on all places when it is found.

    Args:
        root: The first node.
        children: Returns the nodes below one, the most promising first, none for a leaf.
        found: Whether a node is what is looked for; what it returns counts as true or false.
        bound: False if neither a node nor any below it is; they are not visited then.
        config: The settings.

    Returns:
        The outcome, with the node in ``result.node`` and True in ``result.value``; both are None if there is none. If
        there are several it may be any of them.

    Raises:
        Exception: As for ``fold``.
    """
    problem = Problem(children, found, bound, operator.gt, first=False, target=True)
    return _search(problem, BestBag, root, partial(Best[N, bool], operator.gt), config)


def maximize(
    root: N,
    children: Callable[[N], Iterable[N]],
    value: Callable[[N], O | None],
    bound: Callable[[N], O] | None = None,
    *,
    target: O | None = None,
    config: Config | None = None,
) -> Outcome[Best[N, O]]:
    """Look for a node of the greatest value.

    Args:
        root: The first node.
        children: Returns the nodes below one, the most promising first, none for a leaf.
        value: What a node is worth; None if it is no solution.
        bound: Returns what neither a node nor any below it exceeds; those that cannot exceed the best value known are
            not visited.
        target: Stop on all places when a value of at least this is found.
        config: The settings.

    Returns:
        The outcome, with the greatest value in ``result.value`` and a node of that value in ``result.node``; both are
        None if there is no solution.

    Raises:
        ValueError: ``target`` is NaN; in an ExceptionGroup, if a value or a bound is found to be.
        Exception: As for ``fold``.
    """
    problem = Problem(children, value, bound, operator.gt, target=target)
    return _search(problem, BestBag, root, partial(Best[N, O], operator.gt), config)


def minimize(
    root: N,
    children: Callable[[N], Iterable[N]],
    value: Callable[[N], O | None],
    bound: Callable[[N], O] | None = None,
    *,
    target: O | None = None,
    config: Config | None = None,
) -> Outcome[Best[N, O]]:
    """Look for a node of the least value: as ``maximize``, with a ``bound`` that is never exceeded from below."""
    problem = Problem(children, value, bound, operator.lt, target=target)
    return _search(problem, BestBag, root, partial(Best[N, O], operator.lt), config)


class Fold(Generic[V]):
    """What all nodes are worth together.

    Attributes:
        value: It; None if no node is worth anything.
    """

    def __init__(self, merge: Callable[[V, V], V]) -> None:
        self.value: V | None = None
        self._merge = merge

    def add(self, value: V | None) -> None:
        """Merge a value, unless it is None."""
        self.value = _added(self._merge, self.value, value)

    def merge(self, other: Self) -> None:
        """Merge the value of ``other``."""
        self.add(other.value)


class Best(Generic[N, V]):
    """The best node that was found.

    Attributes:
        value: Its value; None if there is no solution.
        node: The node.
    """

    def __init__(self, better: Better) -> None:
        self.value: V | None = None
        self.node: N | None = None
        self._better = better

    def merge(self, other: Self) -> None:
        """Take the node of ``other`` if it is better."""
        if other.value is not None and (self.value is None or self._better(other.value, self.value)):
            self.value, self.node = other.value, other.node


# The bags ------------------------------------------------------------------------------------------------------------


def one(_: object) -> int:
    """Return what a node is worth where nodes are counted; it is not called."""
    return 1


@dataclass(frozen=True)
class Problem(Generic[N]):
    """The functions of a search, which every place has, and the ``first`` value, which is known before it."""

    children: Callable[[N], Iterable[N]]
    value: Callable[[N], Any]
    bound: Callable[[N], Any] | None = None
    better: Better = operator.gt
    first: Any = None
    target: Any = None
    merge: Callable[[Any, Any], Any] = operator.add
    warm_up: Callable[[], object] | None = None

    def __post_init__(self) -> None:
        if self.target != self.target:  # as NaN does
            raise ValueError(f"target is {self.target!r}, which is neither better nor worse than a node's value")


class Search(Generic[N]):
    """One search on one place: its problem, and the best value that is known here. Travels as its number.

    ``over`` is it when that is as good as is needed. ``send`` is called with a better value that was found here.
    """

    problem: Problem[N]
    """There before any node is visited."""

    def __init__(self, number: int, send: Callable[[Any], None]) -> None:
        self.number = number
        self.best: Any = None
        self.over = False
        self._send = send
        self._untold = False
        self._lock = threading.Lock()

    def begin(self, problem: Problem[N]) -> None:
        """Have the functions; values were not understood before."""
        self.best = problem.first
        self.problem = problem

    def learn(self, value: Any) -> bool:
        """Note a value that was found somewhere; return whether it is better than all that were known here."""
        with self._lock:
            problem = self.problem
            if self.best is not None and not problem.better(value, self.best):
                return False
            self.best = value
            self.over = problem.target is not None and not problem.better(problem.target, value)
            return True

    def found(self, value: Any) -> bool:
        """Note a value that was found here; ``tell`` sends it. Return whether it is better than all that were known.

        Raises:
            ValueError: It cannot be compared, not even with itself.
        """
        if value != value:  # as NaN does
            raise ValueError(f"a node's value is {value!r}, which is neither better nor worse than another")
        better = self.learn(value)
        self._untold = self._untold or better
        return better

    def tell(self) -> None:
        """Have the other places know what is best if something better was found here since the last time."""
        if self._untold:
            self._untold = False  # before the value is read: what another worker finds now is sent by one of the two
            self._send(self.best)

    def __reduce__(self) -> tuple[Any, ...]:
        return _here, (self.number,)


class Nodes(Generic[N]):
    """The nodes of a search that are still to be visited, the next one last. What both bags have in common."""

    releases_gil: Final = False

    def __init__(self, search: Search[N], nodes: list[N]) -> None:
        self.work = 0
        self.search = search
        self.nodes = nodes

    def split(self, all: bool) -> Self | None:
        """Give every other node away, the oldest included, which has the most below it; or everything."""
        if all:
            given, self.nodes = self.nodes, []
        elif len(self.nodes) > 1:
            given, self.nodes = self.nodes[::2], self.nodes[1::2]
        else:
            return None
        return type(self)(self.search, given) if given else None

    def merge(self, other: Self) -> None:
        """Take the nodes of ``other``, to be visited last."""
        self.nodes[:0] = other.nodes
        other.nodes = []

    def is_empty(self) -> bool:
        """Return whether no node is left."""
        return not self.nodes

    def is_splittable(self) -> bool:
        """Return whether there are two nodes at least."""
        return len(self.nodes) > 1

    def __len__(self) -> int:
        return len(self.nodes)


class FoldBag(Nodes[N]):
    """Nodes that are all visited, and what those were worth that have been."""

    def __init__(self, search: Search[N], nodes: list[N]) -> None:
        super().__init__(search, nodes)
        self.total: Any = None

    def process(self, n: int) -> bool:
        """Visit up to ``n`` nodes."""
        nodes, problem, total = self.nodes, self.search.problem, self.total
        children, value, merge = problem.children, problem.value, problem.merge
        visited = 0
        node = None
        try:
            for visited in range(1, n + 1 if nodes else 1):  # noqa: B007 - read after the loop
                node = nodes.pop()
                if value is not one and (worth := value(node)) is not None:
                    if total is None:
                        total = worth
                    elif (total := merge(total, worth)) is None:
                        raise TypeError(_NOT_MERGED)
                below = children(node)
                if type(below) is not list:
                    below = _listed(below)
                if below:
                    nodes += below[::-1]
                if not nodes:
                    break
        except Exception as error:
            error.add_note(f"while {reprlib.repr(node)} was visited")
            raise
        self.total = (total or 0) + visited if value is one else total
        self.work += visited
        return bool(nodes)

    def merge(self, other: Self) -> None:
        """Take the nodes of ``other``, and what those were worth that it has visited."""
        super().merge(other)
        other.submit(self)

    def add(self, value: Any) -> None:
        """Merge what nodes were worth that were visited elsewhere."""
        self.total = _added(self.search.problem.merge, self.total, value)

    def submit(self, result: Fold[Any] | Self) -> None:
        """Merge what the nodes were worth that were visited into ``result``."""
        result.add(self.total)
        self.total = None


class BestBag(Nodes[N]):
    """Nodes of which those are visited that may be better than the best one known, and the best of those visited."""

    def __init__(self, search: Search[N], nodes: list[N]) -> None:
        super().__init__(search, nodes)
        self.best: Best[N, Any] = Best(search.problem.better)

    def process(self, n: int) -> bool:
        """Visit up to ``n`` nodes; none if what is known is good enough."""
        nodes, search = self.nodes, self.search
        if search.over:
            nodes.clear()
        problem = search.problem
        children, value, bound, better = problem.children, problem.value, problem.bound, problem.better
        decides = problem.first is False  # then what the functions return counts as true or false
        visited = 0
        node = limit = None
        try:
            for visited in range(1, n + 1 if nodes else 1):  # noqa: B007 - read after the loop
                node = nodes.pop()
                best = search.best
                if bound is None or best is None or (bound(node) if decides else better(limit := bound(node), best)):
                    worth = value(node)
                    if decides:
                        worth = True if worth else None
                    if (
                        worth is not None
                        and (best is None or better(worth, best) or worth != worth)
                        and search.found(worth)
                    ):
                        self.best.value, self.best.node = worth, node
                    below = children(node)
                    if type(below) is not list:
                        below = _listed(below)
                    if below:
                        nodes += below[::-1]
                elif limit != limit:
                    raise ValueError(f"a node's bound is {limit!r}, which is neither better nor worse than a value")
                if search.over:
                    nodes.clear()
                if not nodes:
                    break
        except Exception as error:
            error.add_note(f"while {reprlib.repr(node)} was visited")
            raise
        search.tell()
        self.work += visited
        return bool(nodes)

    def merge(self, other: Self) -> None:
        """Take the nodes of ``other``, and the best one that it has visited."""
        super().merge(other)
        other.submit(self.best)

    def submit(self, result: Best[N, Any]) -> None:
        """Hand the best node over that was visited."""
        result.merge(self.best)
        self.best.value = self.best.node = None


_NOT_MERGED: Final = "merge returned None; it must return the two values merged, also if it changes the first of them"


def _added(merge: Callable[[V, V], V], total: V | None, value: V | None) -> V | None:
    if total is None or value is None:
        return value if total is None else total
    if (merged := merge(total, value)) is None:
        raise TypeError(_NOT_MERGED)
    return merged


def _listed(below: Iterable[N]) -> list[N]:
    if not isinstance(below, Iterable):
        raise TypeError(f"children returned {reprlib.repr(below)}; it must return the nodes below one, as an iterable")
    return [*below]


# On the places -------------------------------------------------------------------------------------------------------

_searches: apgas.PlaceState[dict[int, Search[Any]]] = apgas.PlaceState(dict)
_numbers = itertools.count()


def _search(
    problem: Problem[N],
    bag: Callable[[Search[N], list[N]], Any],
    root: N,
    result: Callable[[], Any],
    config: Config | None,
) -> Outcome[Any]:
    number = next(_numbers)
    config = config or Config()
    here = _here(number)
    problem = replace(problem, warm_up=config.warm_up)
    here.begin(problem)
    try:
        return compute(bag(here, [root]), result, replace(config, warm_up=partial(_join, number, problem)))
    finally:
        _forget(number)
        for place in apgas.places()[1:]:
            apgas.immediate(place, _forget, number)


def _here(number: int) -> Search[Any]:
    """Return the search with this number on this place; a bag may come before the functions have."""
    return _searches.get().setdefault(number, Search(number, partial(_tell_all, number)))


def _join(number: int, problem: Problem[Any]) -> None:
    """Take part: have the functions, and ask for the best value known."""
    searches = _searches.get()
    for older in [other for other in searches if other < number]:
        searches.pop(older, None)  # of one that ended while this place joined
    here = _here(number)
    if apgas.here().id:
        here.begin(problem)
        # what was pushed before is lost; place 0 knows it, or will, and will push it here then
        apgas.immediate(0, _asked, number, apgas.here())
    if problem.warm_up is not None:
        problem.warm_up()


def _tell_all(number: int, value: Any) -> None:
    if apgas.here().id:
        apgas.immediate(0, _improved, number, value)
    else:
        _push(number, value)


def _push(number: int, value: Any) -> None:
    for place in apgas.places()[1:]:
        apgas.immediate(place, _learned, number, value)


def _improved(number: int, value: Any) -> None:
    """(place 0) A better value was found on another place."""
    if (search := _searches.get().get(number)) is not None and search.learn(value):
        _push(number, value)


def _asked(number: int, place: apgas.Place) -> None:
    """(place 0) A place has joined."""
    if (search := _searches.get().get(number)) is not None and search.best is not None:
        apgas.immediate(place, _learned, number, search.best)


def _learned(number: int, value: Any) -> None:
    """A value was found on another place, which is better if no other came before it."""
    search = _searches.get().get(number)
    if search is not None and hasattr(search, "problem"):
        search.learn(value)


def _forget(number: int) -> None:
    """The search is over."""
    _searches.get().pop(number, None)
