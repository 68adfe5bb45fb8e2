"""The discrete-event simulation: the balancer's state machines on a modelled machine.

The state machine of every place is the real one; what is modelled is what it runs on:

- A worker processes at a steady pace, in calls; between two of them it looks if the place wants attention. A call
  during which no place asks changes nothing, so the worker is only woken where one does, at the end of that call.
- A message occupies its sender, is under way, then waits for its receiver and occupies it. Each place handles one
  after another, and its worker stands still meanwhile, as if they shared a core.
- The finish: a place that runs out of work reports, by the runtime's state machines of a dense finish: to its parent
  in a tree, which adds and passes on; or, to see what that is good for, to place 0. In the end each place asks those
  below it in a tree for their results and merges them; or place 0 asks all of them.
- The news of an epoch: each place passes it on as the runtime's state machine of a place says.

Nothing here looks at a clock: a run depends on its arguments only.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil
from random import Random
from typing import Any, Final, Literal, TypeAlias

from apgas.core import messages as m
from apgas.core.effects import Send
from apgas.core.finish import FinishTable, Flush, Gathered
from apgas.core.membership import Membership
from apgas.core.place import PlaceCore as MemberCore
from apgas.core.relay import DEGREE, Relay, branches, parent
from apgas.runtime.driver import GATHER_S, HOLD_S
from glb.core.effects import Effect, Ended, Give, Refuse, Request, Start
from glb.core.ledger import Ledger
from glb.core.lifelines import graph_of
from glb.core.place import PlaceCore
from glb.messages import FAN
from glb.statistics import ROW_BYTES, Statistics

from ..levelbag import Count

ENTRY_BYTES: Final = 36
"""Bytes that a subtree takes in a message, as in the bag of UTS."""
HEAD_BYTES: Final = 200
"""Bytes of a message that carries nothing."""
Handler: TypeAlias = Callable[[int, Any], None]
_GRAINS: Final = 2
"""Length of a call of ``process``, in units of what is processed in one go."""
_PROGRESS_EVENTS: Final = 20_000
ENTRY_OF_REPORT_BYTES: Final = 8
"""Bytes that a place takes in reports that are passed on: what it has left open, and how many reports it has made."""
ID_BYTES: Final = 8
"""Bytes of a place in a question for results."""


class ModelError(AssertionError):
    """The run broke a promise: nodes were lost or doubled, or it does not end."""


class Model:
    """One computation.

    ``on_progress`` is called now and then with the share of the nodes that are done and the seconds of the model.
    """

    def __init__(
        self, job: Job, machine: Machine | None = None, on_progress: Callable[[float, float], None] | None = None
    ) -> None:
        self.job = job
        self.machine = machine = machine or Machine()
        self._on_progress = on_progress
        count = job.places
        self._nodes = max(1, round(count * job.work_s / machine.node_s))
        self._grain = max(1, int(machine.call_s / machine.node_s / _GRAINS))
        self._now = 0.0
        self._heap: list[tuple[float, int, Handler, int, Any]] = []
        self._pushed = 0
        members: Sequence[int] = range(count)
        lifelines, rng = graph_of(job.lifelines, job.radix), Random(job.seed)
        self._cores = [
            PlaceCore(
                place,
                members,
                Count,
                random_steals=job.random_steals,
                lifelines=lifelines,
                rng=rng,
                registered=True,
            )
            for place in members
        ]
        self._bags: list[TreeBag | None] = [None] * count
        self._start = [0.0] * count
        """Since when each worker processes what is in its bag."""
        self._turn = [0] * count
        """How often each worker's end was set anew; an end that was set before does not count."""
        self._look_at = [-1.0] * count
        self._free = [0.0] * count
        """When each place has handled all messages that it knows of."""
        self._first_work: dict[int, float] = {}
        self._last_task_s = self._finish_s = 0.0
        self._tables = [FinishTable(place) for place in members]
        self._relays = [Relay(place) for place in members]
        self._passed_on_s = [-1.0] * count
        self._finish_id = self._tables[0].open(dense=True)
        self._missing = [0] * count
        """How many answers with results each place waits for."""
        self._asked_by: dict[int, tuple[int, int]] = {}
        """By whom each place was asked for results, and of how many places."""
        self._results_s = 0.0
        self._messages = self._home_messages = self._done = 0

    def run(self) -> Computation:
        """Compute.

        Raises:
            ModelError: Nodes were lost or doubled.
            LedgerError: Bags were.
        """
        self._tables[0].spawned(self._finish_id, 0)
        self._receive(0, (TreeBag([self._nodes], self._grain, self.machine.least_nodes), None))
        self._tables[0].ended(self._finish_id)
        heap, on_progress, events = self._heap, self._on_progress, 0
        collecting = gc.isenabled()
        gc.disable()  # millions of small objects, no cycles: looking for garbage would take most of the time
        try:
            while heap:
                self._now, _, handler, place, what = heappop(heap)
                handler(place, what)
                events += 1
                if events % _PROGRESS_EVENTS == 0 and on_progress is not None:
                    on_progress(self._done / self._nodes, self._now)
        finally:
            if collecting:
                gc.enable()
        return self._computation()

    def _computation(self) -> Computation:
        total, found, ledger = Statistics(), Count(), Ledger()
        ledger.dealt(1)
        ledger.joined(range(self.job.places))
        for place, core in enumerate(self._cores):
            total.merge(core.statistics)
            found.merge(core.result)
            ledger.reported([place], core.statistics)
        ledger.close()
        if found.value != self._nodes or any(core.alive for core in self._cores):
            raise ModelError(f"{found.value} of {self._nodes} nodes were found")
        others = self.job.places - 1
        finish_s = max(self._finish_s, self._last_task_s)
        collect_s = self._results_s - finish_s
        if self.job.finish != "tree":
            # place 0 asks all at once and takes the answers as they come, one message after another
            collect_s = (2 * others + 2) * self.machine.message_s + 2 * self.machine.latency_s if others else 0.0
            collect_s += others * self.machine.count_s
            self._messages += 2 * others
            self._home_messages += 2 * others
        total_s = finish_s + collect_s
        return Computation(
            job=self.job,
            efficiency=self.job.work_s / total_s,
            balance=self.job.work_s / self._last_task_s,
            steals=total.received / self.job.places,
            messages=self._messages / self.job.places,
            news_s=None if self.job.finish == "none" else news_s(self.job, self.machine),
            home_messages=self._home_messages,
            spread_s=spread(self._first_work.values(), self.job.places),
            last_task_s=self._last_task_s,
            finish_s=finish_s,
            total_s=total_s,
        )

    # network --------------------------------------------------------------------------------------------------------

    def _push(self, at: float, handler: Handler, place: int, what: object) -> None:
        self._pushed += 1
        heappush(self._heap, (at, self._pushed, handler, place, what))

    def _send(self, sender: int, to: int, deliver: Handler, what: object, size: int = HEAD_BYTES) -> None:
        free = self._free[sender]
        machine = self.machine
        leaves = (max(self._now, free)) + machine.message_s + size / machine.bytes_per_s
        self._free[sender] = leaves
        self._start[sender] += machine.message_s
        self._messages += 1
        self._home_messages += sender == 0 or to == 0
        self._push(leaves + machine.latency_s, self._arrive, to, (deliver, what))

    def _arrive(self, place: int, message: tuple[Handler, object]) -> None:
        deliver, what = message
        waits_until = self._free[place]
        busy = waits_until > self._now
        done = (waits_until if busy else self._now) + self.machine.message_s
        self._free[place] = done
        self._start[place] += self.machine.message_s
        if busy:
            self._push(done, deliver, place, what)
        else:
            self._now = done
            deliver(place, what)

    # what arrives ---------------------------------------------------------------------------------------------------

    def _receive(self, place: int, loot: tuple[TreeBag, int | None]) -> None:
        table = self._tables[place]
        table.arrived(self._finish_id, 0)
        effects = self._cores[place].receive(*loot)
        if not effects:  # it has work, to which this was added
            table.ended(self._finish_id)
        for effect in effects:
            assert isinstance(effect, Start)
            bag = effect.bag
            assert isinstance(bag, TreeBag)
            self._bags[place] = bag
            self._first_work.setdefault(place, self._now)
            self._start[place] = self._now
            if self._cores[place].attention:
                self._carry_out(place, self._cores[place].look(0, bag))
            else:
                self._set_end(place, bag)

    def _asked(self, place: int, question: tuple[int, int | None]) -> None:
        core = self._cores[place]
        for refusal in core.requested(*question):
            assert isinstance(refusal, Refuse)
            self._send(place, refusal.to, self._refused, refusal.nonce)
        if core.attention and self._bags[place] is not None:
            self._look_after_call(place)

    def _refused(self, place: int, nonce: int) -> None:
        for request in self._cores[place].refused(nonce):
            assert isinstance(request, Request)
            self._send(place, request.to, self._asked, (place, request.nonce))

    # the end --------------------------------------------------------------------------------------------------------

    def _reported(self, place: int, reports: Gathered) -> None:
        """Take reports, as place 0 or to pass them on with others that come meanwhile."""
        if not place:
            if self._tables[0].gathered(self._finish_id, reports):
                self._fired()
        elif self._relays[place].hold(self._finish_id, reports):
            lives = self._tables[place].lives(self._finish_id)
            wait_s = HOLD_S if lives else max(0.0, self._passed_on_s[place] + GATHER_S - self._now)
            self._push(self._now + wait_s, self._pass_on, place, None)

    def _pass_on(self, place: int, _what: None) -> None:
        held = self._relays[place].held.pop(self._finish_id, None)
        if held is not None:
            self._passed_on_s[place] = self._now
            self._report(place, held)

    def _report(self, place: int, reports: Gathered) -> None:
        to = 0
        if self.job.finish == "tree":
            to = parent(place, 0, range(self.job.places), DEGREE)
        size = HEAD_BYTES + ENTRY_OF_REPORT_BYTES * (len(reports.open) + len(reports.heard))
        self._send(place, to, self._reported, reports, size)

    def _fired(self) -> None:
        self._finish_s = self._results_s = self._now
        if self.job.finish == "tree":
            self._collect(0, (0, range(1, self.job.places)))

    def _collect(self, place: int, asked: tuple[int, Sequence[int]]) -> None:
        """Ask those below for their results; ``asked``: by whom this place is asked, and who is below it."""
        above, below = asked
        self._asked_by[place] = above, len(below) + 1
        heads = branches(below, FAN)
        self._missing[place] = len(heads)
        for branch in heads:
            size = HEAD_BYTES + ID_BYTES * len(branch)
            self._send(place, branch[0], self._collect, (place, branch[1:]), size)
        if not heads and place:
            self._send(place, above, self._merge, 1, HEAD_BYTES + ROW_BYTES)

    def _merge(self, place: int, reports: int) -> None:
        """Take the results of a branch, and hand on what has come together once nothing is missing."""
        each_s = self.machine.carry_s if place else self.machine.count_s
        self._free[place] = max(self._free[place], self._now) + reports * each_s
        self._missing[place] -= 1
        if not self._missing[place]:
            above, count = self._asked_by[place]
            if place:
                self._send(place, above, self._merge, count, HEAD_BYTES + count * ROW_BYTES)
            else:
                self._results_s = self._free[0]

    # workers --------------------------------------------------------------------------------------------------------

    def _look_after_call(self, place: int) -> None:
        """Have the worker look when the call is over that is under way."""
        passed_s, call_s = self._now - self._start[place], self.machine.call_s
        calls = int(passed_s / call_s) + 1 if passed_s > 0 else 1
        at = self._start[place] + calls * call_s
        if not 0 <= self._look_at[place] <= at:
            self._look_at[place] = at
            self._push(at, self._look, place, at)

    def _look(self, place: int, at: float) -> None:
        bag = self._bags[place]
        if bag is None or self._look_at[place] != at:
            return
        self._look_at[place] = -1.0
        self._process(place, bag, round((self._now - self._start[place]) / self.machine.node_s))
        self._carry_out(place, self._cores[place].look(0, bag) if bag.subtrees else self._cores[place].dry(0, bag))

    def _process(self, place: int, bag: TreeBag, nodes: int) -> None:
        """Bring the bag to the present; what was done beyond that takes its time."""
        if nodes > 0:
            before = bag.work
            bag.process(nodes)
            done = bag.work - before
            self._done += done
            self._now += max(0.0, self._start[place] + done * self.machine.node_s - self._now)
            self._start[place] = self._now

    def _set_end(self, place: int, bag: TreeBag) -> None:
        self._turn[place] += 1
        self._push(self._start[place] + bag.total * self.machine.node_s, self._end, place, self._turn[place])

    def _end(self, place: int, turn: int) -> None:
        bag = self._bags[place]
        if bag is None or turn != self._turn[place]:
            return
        due = self._start[place] + bag.total * self.machine.node_s
        if due > self._now:  # messages have held the worker up
            self._push(due, self._end, place, turn)
            return
        self._done += bag.total
        bag.process(bag.total)
        self._start[place] = self._now
        self._carry_out(place, self._cores[place].dry(0, bag))

    def _carry_out(self, place: int, effects: list[Effect[Any]]) -> None:
        """Do what the worker is to do, then let it go on."""
        ended = False
        for effect in effects:
            match effect:
                case Give(to, TreeBag() as loot, nonce):
                    self._tables[place].spawned(self._finish_id, to)
                    self._send(place, to, self._receive, (loot, nonce), HEAD_BYTES + ENTRY_BYTES * len(loot.subtrees))
                case Refuse(to, nonce):
                    self._send(place, to, self._refused, nonce)
                case Request(to, nonce):
                    self._send(place, to, self._asked, (place, nonce))
                case Ended():
                    ended = True
                case _:
                    raise ModelError(f"a worker was asked to {effect}")
        if ended:
            self._rest(place)
        elif (bag := self._bags[place]) is not None:
            self._set_end(place, bag)
            if self._cores[place].attention and bag.total > 2 * self.machine.least_nodes:
                self._look_after_call(place)

    def _rest(self, place: int) -> None:
        self._bags[place] = None
        self._look_at[place] = -1.0
        self._last_task_s = max(self._last_task_s, self._now)
        outcome = self._tables[place].ended(self._finish_id)
        if self.job.finish == "none":
            return
        if isinstance(outcome, Flush):
            self._report(place, self._relays[place].own(outcome))
        elif outcome is not None:
            self._fired()


# The modelled machine and job: what a run of the model depends on ----------------------------------------------------

Finish: TypeAlias = Literal["home", "tree", "none"]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Cores and network. The defaults are this runtime's figures for two places of one machine.

    Attributes:
        node_s: Seconds to process one node of the tree.
        call_s: Seconds of one call of ``process``, between two looks at the thieves.
        latency_s: Seconds that a message is under way.
        message_s: CPU seconds that a message costs at each end; a place handles one after another, and its worker
            stands still meanwhile.
        bytes_per_s: Bandwidth of a place.
        least_nodes: A smaller subtree is not given away.
        count_s: CPU seconds of place 0 for what one place has counted: to ask for it, add it up and close the books.
        carry_s: CPU seconds of another place to hand it on.
        member_s: CPU seconds of any place, for each member of the job, to take the news of an epoch.
    """

    node_s: float = 2.5e-9
    call_s: float = 3e-4
    latency_s: float = 5e-6
    message_s: float = 20e-6
    bytes_per_s: float = 1e10
    least_nodes: int = 256
    count_s: float = 0.7e-6
    carry_s: float = 0.07e-6
    member_s: float = 0.007e-6


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is computed, on how many places, balanced how.

    Attributes:
        places: Number of places, one worker each.
        work_s: Compute per place, in seconds.
        random_steals: Random victims asked before the lifelines (w).
        lifelines: Kind of the lifeline graph.
        radix: Radix of the hypercube (z).
        seed: Seed of the choice of victims.
        finish: To whom places report when they run out of work, and hand in results: to their parent in a tree
            (``tree``), as in the runtime; to place 0 (``home``); to no place (``none``), to see the stealing alone.
    """

    places: int
    work_s: float = 10.0
    random_steals: int = 3
    lifelines: str = "hypercube"
    radix: int = 2
    seed: int = 0
    finish: Finish = "tree"


# What a run of the model yields --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Computation:
    """One computation on the modelled machine; seconds are those of the model.

    Attributes:
        job: What was computed.
        efficiency: The least time that the places could have needed over the time that they did, the end included.
        balance: The same up to the last task: what the stealing alone achieves.
        steals: Bags received per place.
        messages: Messages sent per place.
        home_messages: Messages that place 0 sent or received.
        spread_s: When 99 % of the places had had work; None if never.
        last_task_s: When the last task had been processed.
        finish_s: When place 0 knew that all had been.
        total_s: From the first task to the folded result on place 0.
        news_s: In the same job, from the commit of a grow until the last place has entered the new epoch; None if it is
            to show the stealing alone.
    """

    job: Job
    efficiency: float
    balance: float
    steals: float
    messages: float
    home_messages: int
    spread_s: float | None
    last_task_s: float
    finish_s: float
    total_s: float
    news_s: float | None

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Computation:
        """Return what ``dataclasses.asdict`` wrote."""
        return cls(**{**content, "job": Job(**content["job"])})

    @property
    def end_s(self) -> float:
        """From the last task to the folded result."""
        return self.total_s - self.last_task_s

    @property
    def collect_s(self) -> float:
        """From the end of the finish to the folded result."""
        return self.total_s - self.finish_s


def spread(first_work_s: Collection[float], places: int) -> float | None:
    """Return when 99 % of ``places`` had had work, given when each that ever had first did; None if never."""
    needed = ceil(0.99 * places)
    return sorted(first_work_s)[needed - 1] if needed <= len(first_work_s) else None


# The news of an epoch ------------------------------------------------------------------------------------------------


def news_s(job: Job, machine: Machine) -> float:
    """Return the seconds from the commit of a grow by one place until the last place has entered the new epoch.

    Raises:
        ModelError: A place heard of it twice, or never.
    """
    infos = [m.PlaceInfo(place, "host", 1, "node", 1) for place in range(job.places + 1)]
    known = Membership(infos[:-1], 0)

    def core_of(place: int) -> MemberCore:
        """Make one place, as it is before the commit; all of them at once would take the square of the memory."""
        core = MemberCore(place, infos[:1], 0)
        core.membership = copy(known)
        core.membership.members = known.members.copy()
        core.news_degree = job.places if job.finish == "home" else DEGREE
        return core

    heard: set[int] = set()
    entered_s = 0.0
    waiting: deque[tuple[float, int, int, m.AnyMessage | None]] = deque([(0.0, 0, 0, None)])
    while waiting:
        now, src, place, news = waiting.popleft()
        core = core_of(place)
        effects = core.commit_grow((infos[-1],)) if news is None else core.received(src, news, [])
        if core.epoch != 1 or place in heard:
            raise ModelError(f"place {place} hears of an epoch twice")
        heard.add(place)
        now += job.places * machine.member_s
        entered_s = max(entered_s, now)
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, m.Members):
                now += machine.message_s + HEAD_BYTES / machine.bytes_per_s
                waiting.append((now + machine.latency_s + machine.message_s, place, effect.dst, effect.message))
    if len(heard) != job.places:
        raise ModelError(f"{len(heard)} of {job.places} places entered the epoch")
    return entered_s


# A tree of known size that is searched without visiting every node ---------------------------------------------------
#
# A subtree is its number of nodes, nothing else: how it divides follows from that number by a hash. So a worker that is
# left alone for a second processes a billion nodes in one step, and the tree is the same however it is searched.

_WORD: Final = (1 << 64) - 1
_SPREAD: Final = 0x9E3779B97F4A7C15
_STEP: Final = 6364136223846793005
_SHIFT: Final = 1442695040888963407


def children(size: int) -> list[int]:
    """Return the sizes of the subtrees below the root of a tree of ``size`` > 1 nodes.

    There are 1 to 5, and each but the last takes a random part of what is left (a stick that is broken again and
    again), so that they are very unequal.
    """
    mixed = size * _SPREAD & _WORD
    mixed ^= mixed >> 32
    rest = size - 1
    found = []
    for _ in range(1 + mixed % 4):
        mixed = (mixed * _STEP + _SHIFT) & _WORD
        part = rest * (mixed >> 40) >> 24
        if part:
            found.append(part)
            rest -= part
    found.append(rest)
    return found


class TreeBag:
    """Subtrees to be searched, those nearest to the root first.

    Args:
        subtrees: Their sizes; ``total`` is their sum.
        grain: Nodes that are processed in one go, however few are asked for.
        least: A smaller subtree is not worth a message.
    """

    __slots__ = ("_grain", "_least", "count", "subtrees", "total", "work")

    def __init__(self, subtrees: list[int], grain: int, least: int) -> None:
        self.subtrees = subtrees
        self.total = sum(subtrees)
        self.work = 0
        self.count = 0
        self._grain = grain
        self._least = least

    def __len__(self) -> int:
        return len(self.subtrees)

    def process(self, n: int) -> bool:
        """Process ``n`` nodes, and at most a grain more."""
        subtrees, left, grain = self.subtrees, n, self._grain
        while left > 0 and subtrees:
            size = subtrees.pop()
            if size <= left or size <= grain:
                left -= size
            else:
                left -= 1
                subtrees += children(size)
        done = n - left
        self.work += done
        self.count += done
        self.total -= done
        return bool(subtrees)

    def split(self, all: bool) -> TreeBag | None:
        """Give every other subtree that is worth it, the first one included, or everything."""
        if self.is_empty() or not (all or self.is_splittable()):
            return None
        kept: list[int] = []
        given: list[int] = [] if not all else self.subtrees
        gives = False
        for size in () if all else self.subtrees:
            gives = size >= self._least and not gives
            (given if gives else kept).append(size)
        part = TreeBag(given, self._grain, self._least)
        self.subtrees = kept
        self.total -= part.total
        return part

    def merge(self, other: TreeBag) -> None:
        """Take the subtrees and the count of ``other``."""
        self.subtrees = other.subtrees + self.subtrees
        self.total += other.total
        self.count += other.count
        other.subtrees, other.total, other.count = [], 0, 0

    def is_empty(self) -> bool:
        """Return whether nothing is left."""
        return not self.subtrees

    def is_splittable(self) -> bool:
        """Return whether two subtrees are worth a message."""
        found = 0
        for size in self.subtrees:
            found += size >= self._least
            if found > 1:
                return True
        return False

    def submit(self, result: Count) -> None:
        """Hand the count over."""
        result.value += self.count
        self.count = 0
