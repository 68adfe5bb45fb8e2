"""The functions that programs call."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ParamSpec, TypeVar

from apgas.core.identity import Place
from apgas.core.resize import Bounds, Deadlines, ResizeRecord
from apgas.errors import UsageError
from apgas.malleability.handler import MalleableHandler
from apgas.runtime import current
from apgas.runtime.context import Future, Scope, current_scope, entered
from apgas.runtime.program import program
from apgas.runtime.schedule import parse_orders
from apgas.runtime.tracing import Tracing

P = ParamSpec("P")
T = TypeVar("T")


def here() -> Place:
    """Tell where this code runs.

    Returns:
        This place.

    Raises:
        UsageError: Called outside of ``apgas.run``.

    Example:
        >>> apgas.here() in apgas.places()
        True
    """
    return current.required().here


def place(number: int) -> Place:
    """Look a place up by its id.

    Args:
        number: The id.

    Returns:
        The place, whether it is a member, has left, or never was; only its use fails then.

    Raises:
        UsageError: Called outside of ``apgas.run``.

    Example:
        >>> apgas.place(0) == apgas.places()[0]
        True
    """
    return current.required().place(number)


def places() -> list[Place]:
    """List the places that the program has now.

    Returns:
        The places by id, without those that are about to leave. Ids are never used again, so there may be gaps.

    Raises:
        UsageError: Called outside of ``apgas.run``.

    Example:
        >>> [place.id for place in apgas.places()][0]
        0
    """
    return current.required().places()


def nodes() -> list[list[Place]]:
    """(place 0) Tell which places share a node: orders count nodes, and a node leaves as a whole.

    Returns:
        The places of each node, by id, the node of place 0 first; without those that are about to leave. With one place
        per node (the default, see ``APGAS_PLACES_PER_NODE``) each is a list of one.

    Raises:
        UsageError: Not on place 0.
    """
    return program().resizing.nodes()


def async_(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
    """Run ``fn`` as an activity on this place; the enclosing ``finish`` waits for it and gets its error.

    Args:
        fn: What to run, in a thread of its own.
        *args: Its arguments, passed as they are, not copied.
        **kwargs: Its keyword arguments, likewise.

    Returns:
        A future of its value.

    Raises:
        UsageError: There is no finish around the caller: it is no activity.

    Example:
        >>> apgas.async_(pow, 2, 10).result()
        1024
    """
    driver = current.required()
    return driver.spawn(current_scope(), driver.here, (fn, args, kwargs), to_caller=False)


def async_at(where: Place, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
    """Run ``fn`` as an activity on place ``where``; the enclosing ``finish`` waits for it and gets its error.

    Args:
        where: The place.
        fn: What to run there. A function of the main program travels with the present values of the global variables
            that it uses; what it assigns to them there is not kept. Use a ``PlaceLocal`` for what a place is to keep.
        *args: Its arguments, of which the other place gets copies.
        **kwargs: Its keyword arguments, likewise.

    Returns:
        A future of its value.

    Raises:
        PlaceGoneError: The place is leaving or has left, or never was.
        TypeError: The function or an argument cannot be pickled.
        UsageError: There is no finish around the caller, or the arguments are larger than 16 GiB.

    Example:
        >>> with apgas.finish():
        ...     futures = [apgas.async_at(place, pow, 2, place.id) for place in apgas.places()]
        >>> sum(future.result() for future in futures) == 2 ** len(futures) - 1
        True
    """
    return current.required().spawn(current_scope(), where, (fn, args, kwargs), to_caller=False)


def at(where: Place, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``fn`` on place ``where`` and wait for its value.

    Args:
        where: The place, which may be this one.
        fn: What to run there, as with ``async_at``.
        *args: Its arguments; another place gets copies.
        **kwargs: Its keyword arguments, likewise.

    Returns:
        What ``fn`` returned; from another place a copy.

    Raises:
        PlaceGoneError: The place is leaving or has left, or never was.
        TypeError: The function, an argument or the value cannot be pickled.
        UsageError: There is no finish around the caller, or the arguments are larger than 16 GiB.
        BaseException: What ``fn`` raised, with the place and its traceback as a note.

    Example:
        >>> last = apgas.places()[-1]
        >>> apgas.at(last, apgas.here) == last
        True
    """
    result: T = current.required().call(current_scope(), where, (fn, args, kwargs))
    return result


def immediate(where: Place, fn: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Run ``fn`` at once on the thread that receives messages at ``where``: for libraries that balance or coordinate.

    No finish counts it; it must not block; those from one place to another run in order; it is dropped if the place
    is leaving or gone. An error in it ends the job.

    Args:
        where: The place, which may be this one.
        fn: What to run there.
        *args: Its arguments, of which it gets copies.
        **kwargs: Its keyword arguments, likewise.

    Raises:
        TypeError: The function or an argument cannot be pickled.
        UsageError: Called outside of ``apgas.run``, or the arguments are larger than 16 GiB.

    Example:
        >>> import threading
        >>> heard = threading.Event()
        >>> ref = apgas.GlobalRef(heard)
        >>> def tell(to):
        ...     apgas.immediate(to.place, lambda: to.get().set())
        >>> apgas.at(apgas.places()[-1], tell, ref)
        >>> heard.wait(10)
        True
    """
    current.required().immediate(where, (fn, args, kwargs))


def uncounted(where: Place, fn: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Run ``fn`` as an activity on place ``where`` that no finish counts: nobody waits for it or hears of its end.

    An error in it is logged where it ran, at level ``ERROR`` of the logger ``apgas.uncounted``, and the job goes on. It
    runs in no finish, so it opens one to spawn or to call: ``with finish(): ...``; cancelling a finish does not reach
    it. A place that is to leave runs all that were sent to it, however long they take, before it leaves; those that
    still run when the program ends are not waited for.

    Args:
        where: The place, which may be this one.
        fn: What to run there, as with ``async_at``.
        *args: Its arguments; another place gets copies.
        **kwargs: Its keyword arguments, likewise.

    Raises:
        PlaceGoneError: The place is leaving or has left, or never was.
        TypeError: The function or an argument cannot be pickled.
        UsageError: Called outside of ``apgas.run``, or the arguments are larger than 16 GiB.

    Example:
        >>> def log(text):
        ...     with apgas.finish():
        ...         apgas.at(apgas.place(0), len, text)
        >>> apgas.uncounted(apgas.places()[-1], log, "nobody waits for this")
    """
    current.required().uncounted(where, (fn, args, kwargs))


def capture() -> Scope:
    """Take hold of the finish of the running activity, for ``attach`` on another thread while this activity still runs.

    Returns:
        What ``attach`` needs.

    Raises:
        UsageError: The caller runs in no activity.

    Example:
        >>> import threading
        >>> scope = apgas.capture()
        >>> def work():
        ...     with apgas.attach(scope):
        ...         apgas.async_(pow, 2, 10)
        >>> thread = threading.Thread(target=work)
        >>> thread.start()
        >>> thread.join()
    """
    scope = current_scope()
    if scope is None:
        raise UsageError("capture works in activities only")
    return scope


def attach(scope: Scope) -> AbstractContextManager[None]:
    """Let a thread of the program's own spawn under a captured finish, in a ``with`` block.

    Args:
        scope: What ``capture`` returned on this place. An activity of that finish has to run on this place until the
            block has ended.

    Returns:
        The context of the block.
    """
    return entered(scope)


def define_malleable_handler(
    handler: MalleableHandler,
    *,
    deadlines: Deadlines | None = None,
    min_nodes: int = 1,
    max_nodes: int | None = None,
    places_per_node: int | None = None,
) -> None:
    """(place 0) Register the program's handler: from now on it may grow and shrink. Once per program.

    Args:
        handler: What is called around every resize.
        deadlines: How long each step of an order may take; ``Deadlines()`` by default.
        min_nodes: Orders that would leave fewer nodes are refused.
        max_nodes: Orders that would lead to more nodes are refused; None: any number is fine.
        places_per_node: How many places share a node; None: what ``APGAS_PLACES_PER_NODE`` says, 1 by default.

    Raises:
        UsageError: Not on place 0, or a handler is or was registered, or the bounds are none, or the places do not fill
            their nodes.
    """
    if not isinstance(handler, MalleableHandler):
        raise UsageError(f"a MalleableHandler is needed, not {type(handler).__name__}")
    bounds = Bounds(min_nodes, max_nodes)
    program().resizing.define(handler, deadlines or Deadlines(), bounds, places_per_node)


def disable_malleable_handler() -> None:
    """(place 0) Give the handler up: the program keeps its size from now on.

    Waits until an order that is being carried out has ended, or its deadlines are over. Scheduled orders get the
    outcome ``not_due``, waiting ones are refused, requests for nodes are answered with 0.

    Raises:
        UsageError: Not on place 0, or in a method of the handler.
    """
    program().resizing.disable()


def request_grow(nodes: int) -> Future[int]:
    """(place 0) Ask the scheduler for more nodes; an order follows for what it grants.

    Args:
        nodes: How many, at least 1.

    Returns:
        A future of the number of nodes granted: 0 without a scheduler, and if it has none to give.

    Raises:
        UsageError: Not on place 0, no handler is registered, or ``nodes`` is less than 1.
    """
    return program().resizing.request(_at_least_one(nodes))


def offer_shrink(nodes: int) -> Future[int]:
    """(place 0) Offer nodes back to the scheduler; an order follows for those that it takes.

    Args:
        nodes: How many, at least 1.

    Returns:
        A future of the change granted: negative, or 0.

    Raises:
        UsageError: Not on place 0, no handler is registered, or ``nodes`` is less than 1.
    """
    return program().resizing.request(-_at_least_one(nodes))


def _at_least_one(nodes: int) -> int:
    if nodes < 1:
        raise UsageError(f"nodes must be at least 1, not {nodes}")
    return nodes


def shrink_wish() -> list[Place]:
    """(place 0, in preShrink) Tell which places the scheduler would like to be released.

    Returns:
        Those on the nodes that it named, never the node of place 0; none outside of ``preShrink``.

    Raises:
        UsageError: Not on place 0.
    """
    return program().resizing.shrink_wish()


def schedule_orders(orders: str, hosts: Sequence[str] = ()) -> None:
    """(place 0) Order resizes without a scheduler: ``"1.5:+2,3:-1"``, seconds from now.

    They are carried out one after another; an order that falls due during a resize waits. An impossible order is
    refused, and the program goes on; ``resizes`` tells how each ended.

    Args:
        orders: The schedule: ``SECONDS:+NODES`` or ``SECONDS:-NODES``, separated by commas; a node is one place unless
            ``APGAS_PLACES_PER_NODE`` says otherwise.
        hosts: The nodes that newcomers are placed on in turn; this host by default.

    Raises:
        UsageError: Not on place 0, or the text is not a schedule.
    """
    program().resizing.schedule(parse_orders(orders, tuple(hosts)))


def drain_orders() -> None:
    """(place 0) Withdraw the scheduled orders that are not due yet (outcome ``not_due``).

    Raises:
        UsageError: Not on place 0.
    """
    program().resizing.drain_scheduled()


def resizes() -> list[ResizeRecord]:
    """(place 0) Tell how the orders so far have ended.

    Returns:
        A record per order, in the order of their ends; an order that is being carried out has none yet.

    Raises:
        UsageError: Not on place 0.
    """
    return list(program().resizing.records)


def trace(path: Path | str) -> None:
    """(place 0) Trace all places from now on, newcomers too, and write the timeline when the program has ended well.

    Open the file in Perfetto or chrome://tracing: activities, what libraries note, and orders with their phases, of all
    places on one clock.

    Args:
        path: The file, JSON in the Chrome trace event format.

    Raises:
        UsageError: Tracing is on already, or the file's folder cannot be written.
    """
    resizing = program().resizing
    path = Path(path).absolute()
    if resizing.tracing is not None:
        raise UsageError("the program is traced already")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"the timeline cannot be written: {path.parent} is no folder that can be written")
    resizing.tracing = Tracing(path, at)
    resizing.tracing.join(places())


def progress(done: float, total: float | None = None, unit: str = "tasks") -> None:
    """(place 0) Tell the scheduler how far the program is; at most four messages a second are sent.

    Args:
        done: What is done, in ``unit``.
        total: What there is to do in all, in ``unit``, if that is known.
        unit: What is counted; at most 40 characters are sent.

    Raises:
        UsageError: Not on place 0, or a number is not finite.
    """
    # numbers of other libraries know no JSON
    plain_done, plain_total = float(done), None if total is None else float(total)
    if not math.isfinite(plain_done) or not math.isfinite(plain_total or 0.0):
        raise UsageError(f"progress is told in finite numbers, not {done} of {total}")
    program().resizing.progress(plain_done, plain_total, unit[:40])
