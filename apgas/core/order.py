"""The life of an order: a transaction that place 0 coordinates, on nodes that come and go as a whole.

state      event            next       what happens
    IDLE       order            PRE        the handler's preGrow/preShrink is called, or the order is refused at once
    PRE        returned         SPAWN      grow: processes are spawned on the nodes
                                DRAIN      shrink: the list is checked, the leavers are asked to drain
                                UNDO       shrink: the list is wrong
               failed, timeout  IDLE       aborted; nothing had changed
               failed           UNDO       shrink: preShrink has chosen, and what it started raised
    SPAWN      spawned          POST       newcomers are committed (new epoch everywhere), postGrow is called
               failed, timeout  IDLE       aborted; the job keeps its size, late newcomers are dismissed
    DRAIN      all drained      RELEASE    the leavers are committed away (new epoch) and released
               died             DRAIN      a resilient job lost a leaver: it counts as drained and gone
               timeout          UNDO       the leavers stay
    UNDO       returned, …      IDLE       aborted: shrinkAborted has put back to work whom preShrink had named
    RELEASE    all gone         POST       their processes have ended; postShrink is called
               timeout          POST       likewise, the outcome says which process lingers
    POST       returned         IDLE       done
               failed, timeout  IDLE       done; the outcome says that the handler's post method failed
               died             POST       a resilient job lost a newcomer: the outcome does not name it

Orders wait in line while another is carried out. Calls and timers carry a token, so that an answer that arrives after
its step was given up is recognised: after a preShrink that succeeds too late, ``shrinkAborted`` is called.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from apgas.core.messages import PlaceInfo
from apgas.core.resize import (
    NO_TOKEN,
    AbortShrink,
    Bounds,
    CallHandler,
    CommitGrow,
    CommitShrink,
    Current,
    Deadlines,
    Finished,
    Method,
    OrderEffect,
    OutcomeKind,
    PrepareShrink,
    ResizeOrder,
    SetTimer,
    StartSpawn,
    TellDeferred,
    wrong_list,
)
from apgas.errors import InvariantError, UsageError


class Step(Enum):
    """Where the current order is."""

    IDLE = "idle"
    PRE = "pre"
    SPAWN = "spawn"
    DRAIN = "drain"
    UNDO = "undo"
    RELEASE = "release"
    POST = "post"


class OrderMachine:
    """Carries out orders one after another; the driver feeds it events and interprets its effects."""

    MAX_WAITING = 64

    def __init__(self, members: dict[int, PlaceInfo], deadlines: Deadlines | None = None) -> None:
        self._members = members
        self.nodes = Nodes(members)
        self.deadlines = deadlines or Deadlines()
        self.bounds = Bounds()
        self.enabled = False
        self.step = Step.IDLE
        self._waiting: deque[ResizeOrder] = deque()
        self._current: Current | None = None
        self._token = 0
        self._deferred_token = -1
        self._abandoned: dict[int, int] = {}

    # events ----------------------------------------------------------------------------------------------------------

    def enable(self) -> None:
        """A handler was registered: orders are welcome."""
        self.enabled = True

    def disable(self, now: float, why: str = "the program gave its handler up") -> list[OrderEffect]:
        """The handler was given up: what waits is refused or aborted; what has begun to move is carried out."""
        self.enabled = False
        effects: list[OrderEffect] = []
        while self._waiting:
            effects += self._refuse(self._waiting.popleft(), why, now)
        if self.step is Step.PRE:
            effects += self._abandon(why, now)
        return effects

    def end(self, now: float) -> list[OrderEffect]:
        """The program has ended: as ``disable``, and the method that is under way is not waited for any more."""
        effects = self.disable(now, "the program has ended")
        if self.step in (Step.POST, Step.UNDO):
            effects += self.failed(self._token, "the program has ended", now)
        return effects

    def note_phase(self, name: str, seconds: float) -> None:
        """Record a phase that the driver measured itself (``commit``); the next one begins after it."""
        if self._current:
            self._current.phases[name] = seconds
            self._current.phase_began_s += seconds

    def ordered(self, order: ResizeOrder, now: float) -> list[OrderEffect]:
        """An order arrived."""
        if not self.enabled:
            return self._refuse(order, "no malleable handler is registered", now)
        if len(self._waiting) >= self.MAX_WAITING:
            return self._refuse(order, f"{self.MAX_WAITING} orders wait already", now)
        self._waiting.append(order)
        return self._next(now) if self.step is Step.IDLE else []

    def withdrawn(self, order: int, now: float) -> list[OrderEffect]:
        """The scheduler takes an order back: granted while it waits in line or in ``pre*``."""
        for waiting in self._waiting:
            if waiting.order == order:
                self._waiting.remove(waiting)
                return self._refuse(waiting, "withdrawn", now)
        if self._current and self._current.order.order == order and self.step is Step.PRE:
            return self._abandon("withdrawn", now)
        return []

    def returned(self, token: int, value: Sequence[int] | None, now: float) -> list[OrderEffect]:
        """A handler method returned; ``value`` is the list of preShrink."""
        if not self.expects(token):
            count = self._abandoned.pop(token, 0)
            return [CallHandler(NO_TOKEN, "shrinkAborted", count, tuple(value))] if value and count else []
        if self.step is Step.POST:
            return self._done(now)
        if self.step is Step.UNDO:
            return self._undone("", now)
        current = self._now()
        self._phase("pre", now)
        if current.order.kind == "grow":
            names = current.order.nodes or ("",) * current.order.count
            nodes = tuple(name for name in names for _ in range(self.nodes.places_per_node))
            return self._enter(Step.SPAWN, self.deadlines.spawn_s, [StartSpawn(self._token + 1, nodes)])
        return self._start_drain(current, value)

    def expects(self, token: int) -> bool:
        """Whether the order still waits for the call of a method with this token."""
        return token == self._token and self.step in (Step.PRE, Step.POST, Step.UNDO)

    def failed(self, token: int, reason: str, now: float, chosen: Sequence[int] | None = None) -> list[OrderEffect]:
        """A handler method raised, or the spawn failed; ``chosen``: preShrink itself did not, but what it started."""
        if token != self._token:
            return self.returned(token, chosen, now)
        if self.step is Step.POST:
            self._now().remark(reason)
            return self._done(now)
        if self.step is Step.UNDO:
            return self._undone(reason, now)
        if chosen:
            self._phase("pre", now)
            return self._stay(chosen, reason)
        return self._abort(reason, now)

    def spawned(
        self, token: int, added: tuple[PlaceInfo, ...], phases: dict[str, float], now: float
    ) -> list[OrderEffect] | None:
        """The newcomers are up (``phases``: seconds of spawn and join); None: too late, dismiss them."""
        if token != self._token or self.step is not Step.SPAWN:
            return None
        current = self._now()
        current.phases.update(phases)
        current.phase_began_s = now
        current.places = tuple(info.place for info in added)
        self.nodes.add(added)
        current.nodes = tuple(info.node for info in added[:: self.nodes.places_per_node])
        before = tuple(sorted(self._members))
        effects: list[OrderEffect] = [CommitGrow(added)]
        current.seconds = now - current.began_s
        call = CallHandler(self._token + 1, "postGrow", len(added), before, current.places)
        return [*effects, *self._enter(Step.POST, self.deadlines.post_s, [call])]

    def drained(self, order: int, place: int, now: float) -> list[OrderEffect]:
        """A leaver is ready to be released."""
        current = self._current
        if current is None or self.step is not Step.DRAIN or current.order.order != order:
            return []
        current.pending.discard(place)
        if current.pending:
            return []
        self._phase("drain", now)
        alive = tuple(place for place in current.places if place not in current.died)
        if not alive:
            return self._released(now)
        current.pending = set(alive)
        return self._enter(Step.RELEASE, self.deadlines.release_s, [CommitShrink(order, alive)])

    def gone(self, place: int, now: float) -> list[OrderEffect]:
        """A released place's process has ended."""
        current = self._current
        if current is None or self.step is not Step.RELEASE or place not in current.pending:
            return []
        current.pending.discard(place)
        return [] if current.pending else self._released(now)

    def died(self, place: int, now: float) -> list[OrderEffect]:
        """A member died, in a resilient job: a leaver that drained is gone, a newcomer has not come."""
        current = self._current
        if current is None or place not in current.places:
            return []
        if self.step is Step.DRAIN:
            current.died.add(place)
            current.remark(f"place {place} died before it was released")
            return self.drained(current.order.order, place, now)
        if self.step is Step.RELEASE:
            return self.gone(place, now)
        if self.step is Step.POST and current.order.kind == "grow":
            # another one may have died already
            current.places = tuple(newcomer for newcomer in current.places if newcomer in self._members)
            current.nodes = self.nodes.names_of(current.places)
            current.remark(f"place {place} died as soon as it had joined")
        return []

    def answers_for(self, place: int) -> bool:
        """Whether the outcome of the current order will report what became of the node of ``place``."""
        current = self._current
        return current is not None and place in current.places and self.step in (Step.DRAIN, Step.POST)

    def timeout(self, token: int, now: float) -> list[OrderEffect]:
        """A timer ran out."""
        if token == self._deferred_token and self.step is Step.PRE:
            return [TellDeferred(self._now().order.order)]
        if token != self._token:
            return []
        current, step = self._current, self.step
        if current is None:
            return []
        why = f"{step.value} took longer than its deadline"
        if step is Step.RELEASE:
            current.remark(f"places {sorted(current.pending)} were released, but their processes linger")
            return self._released(now)
        if step is Step.POST:
            current.remark(f"the handler's post method did not return: {why}")
            return self._done(now)
        if step is Step.UNDO:
            return self._undone(f"shrinkAborted did not return: {why}", now)
        if step is Step.PRE:
            return self._abandon(why, now)
        if step is Step.DRAIN:
            self._phase("drain", now)
            undrained = f"places {sorted(current.pending)} did not drain: {why}"
            return self._undo(undrained, [AbortShrink(current.order.order)])
        return self._abort(why, now)

    # inside ----------------------------------------------------------------------------------------------------------

    def _next(self, now: float) -> list[OrderEffect]:
        effects: list[OrderEffect] = []
        while self._waiting and self.step is Step.IDLE:
            order = self._waiting.popleft()
            why = self._impossible(order)
            if why:
                effects += self._refuse(order, why, now)
                continue
            self._current = Current(order, now, now)
            self._deferred_token = self._token + 1
            timer = SetTimer(self._deferred_token, self.deadlines.deferred_s)
            self._token += 1
            method: Method = "preGrow" if order.kind == "grow" else "preShrink"
            wish = order.nodes if order.kind == "shrink" else ()
            places = order.count * self.nodes.places_per_node
            call = CallHandler(self._token + 1, method, places, wish=wish)
            effects += self._enter(Step.PRE, self.deadlines.pre_s, [timer, call])
        return effects

    def _impossible(self, order: ResizeOrder) -> str:
        """Why the order cannot even be tried at the present size; empty: it can."""
        size = len(self.nodes)
        if order.kind == "shrink" and order.count >= size:
            what, who = ("places", "place 0") if self.nodes.places_per_node == 1 else ("nodes", "that of place 0")
            return f"cannot release {order.count} of {size} {what}: {who} always stays"
        if order.kind == "grow" and order.nodes and len(order.nodes) != order.count:
            return f"{order.count} nodes ordered, {len(order.nodes)} named"
        wanted = size + order.count if order.kind == "grow" else size - order.count
        if not self.bounds.allow(wanted):
            return f"the program runs on {self.bounds}, not on {wanted}"
        return ""

    def _enter(self, step: Step, deadline_s: float, effects: list[OrderEffect]) -> list[OrderEffect]:
        """Begin a step under a fresh token: answers to older ones no longer count."""
        self.step = step
        self._token += 1
        return [*effects, SetTimer(self._token, deadline_s)]

    def _start_drain(self, current: Current, leavers: Sequence[int] | None) -> list[OrderEffect]:
        complaint = wrong_list(leavers, self._members) or self.nodes.complaint(leavers or (), current.order.count)
        if complaint or leavers is None:
            return self._stay(leavers or (), complaint)
        current.places = tuple(sorted(leavers))
        current.nodes = self.nodes.names_of(current.places)
        current.pending = set(current.places)
        return self._enter(Step.DRAIN, self.deadlines.drain_s, [PrepareShrink(current.order.order, current.places)])

    def _stay(self, chosen: Sequence[int], why: str) -> list[OrderEffect]:
        """Have those put back to work that preShrink has named, of which none leaves."""
        current = self._now()
        current.places = tuple(sorted(self._members.keys() & set(chosen) - {0}))
        return self._undo(why, []) if current.places else self._abort(why, current.phase_began_s)

    def _released(self, now: float) -> list[OrderEffect]:
        current = self._now()
        self._phase("release", now)
        current.seconds = now - current.began_s
        call = CallHandler(self._token + 1, "postShrink", len(current.places), current.places)
        return self._enter(Step.POST, self.deadlines.post_s, [call])

    def _done(self, now: float) -> list[OrderEffect]:
        self._phase("post", now)
        current = self._now()
        came_to_nothing = current.order.kind == "grow" and not current.places
        return self._finish("aborted" if came_to_nothing else "done", current.note, now)

    def _abandon(self, why: str, now: float) -> list[OrderEffect]:
        """Abort while ``pre*`` still runs: its late answer must be undone."""
        current = self._now()
        if current.order.kind == "shrink":
            self._abandoned[self._token] = current.order.count
        return self._abort(why, now)

    def _undo(self, why: str, effects: list[OrderEffect]) -> list[OrderEffect]:
        """Have the handler put places back to work that stay after all, before the order ends."""
        current = self._now()
        alive = tuple(place for place in current.places if place not in current.died)
        current.remark(why)
        call = CallHandler(self._token + 1, "shrinkAborted", len(alive), alive)
        return self._enter(Step.UNDO, self.deadlines.post_s, [*effects, call])

    def _undone(self, complaint: str, now: float) -> list[OrderEffect]:
        self._now().remark(complaint)
        return self._abort(self._now().note, now)

    def _abort(self, why: str, now: float) -> list[OrderEffect]:
        current = self._now()
        current.nodes, current.places = (), ()
        return self._finish("aborted", why, now)

    def _finish(self, outcome: OutcomeKind, reason: str, now: float) -> list[OrderEffect]:
        current = self._now()
        record = current.record(outcome, reason, now)
        self._current = None
        self.step = Step.IDLE
        self._token += 1
        return [Finished(record), *self._next(now)]

    def _refuse(self, order: ResizeOrder, why: str, now: float) -> list[OrderEffect]:
        return [Finished(Current(order, now, now).record("refused", why, now))]

    def _phase(self, name: str, now: float) -> None:
        current = self._now()
        current.phases[name] = now - current.phase_began_s
        current.phase_began_s = now

    def _now(self) -> Current:
        if self._current is None:
            raise InvariantError(f"step {self.step} without an order")
        return self._current


# Nodes ---------------------------------------------------------------------------------------------------------------
#
# Orders count nodes, and a node comes and goes as a whole. It is ``places_per_node`` places that were started
# together: for the first world those with one host name, in the order of their ids; for newcomers those that stand
# next to each other. Several nodes may have one name (one machine).


class Nodes:
    """The nodes of a job, whose ``members`` change meanwhile.

    Raises:
        UsageError: The present members do not fill their nodes.
    """

    def __init__(self, members: Mapping[int, PlaceInfo], places_per_node: int = 1) -> None:
        if places_per_node < 1:
            raise UsageError(f"there cannot be {places_per_node} places per node")
        self.places_per_node = places_per_node
        self._members = members
        self._of: dict[int, int] = {}
        by_name: dict[str, list[int]] = {}
        for place, info in sorted(members.items()):
            by_name.setdefault(info.node, []).append(place)
        for name, places in by_name.items():
            if len(places) % places_per_node:
                raise UsageError(
                    f"host {name} has {len(places)} places, which do not make nodes of {places_per_node}:"
                    f" start a multiple of {places_per_node} on each host"
                )
            self._number(places)

    def __len__(self) -> int:
        return len(self.held())

    def held(self) -> list[tuple[int, ...]]:
        """The places of each node, by id; the node of place 0 first. A node may have lost some of its places."""
        nodes: dict[int, list[int]] = {}
        for place in sorted(self._members):
            nodes.setdefault(self._of.get(place, place), []).append(place)
        return [tuple(places) for places in nodes.values()]

    def is_gone(self, place: int) -> bool:
        """Whether no place is left on the node that ``place`` was on."""
        node = self._of.get(place, place)
        return all(self._of.get(member, member) != node for member in self._members)

    def add(self, added: Sequence[PlaceInfo]) -> None:
        """Learn newcomers, of which those of one node stand next to each other."""
        self._number([info.place for info in added])

    def complaint(self, leavers: Iterable[int], count: int) -> str:
        """Why members cannot leave as ``count`` nodes; empty: they can."""
        chosen = set(leavers)
        beside = sorted(chosen.intersection(self.held()[0]))
        if beside:
            return f"preShrink named place {beside[0]} on the node of place 0, which always stays"
        touched = [set(places) for places in self.held() if chosen.intersection(places)]
        for places in touched:
            if not places <= chosen:
                forgotten = sorted(places - chosen)
                return f"preShrink named {sorted(places & chosen)}, but not {forgotten} of the same node"
        if len(touched) != count:
            if self.places_per_node == 1:
                return f"preShrink named {len(chosen)} places instead of {count}"
            return f"preShrink named {len(chosen)} places of {len(touched)} nodes instead of all places of {count}"
        return ""

    def names_of(self, places: Iterable[int]) -> tuple[str, ...]:
        """The host names of the nodes that some members make up, one for each node."""
        first: dict[int, str] = {}
        for place in sorted(places):
            first.setdefault(self._of.get(place, place), self._members[place].node)
        return tuple(first.values())

    def _number(self, places: Sequence[int]) -> None:
        # a node is known by its first place: ids are not used twice
        for index, place in enumerate(places):
            self._of[place] = places[index - index % self.places_per_node]
