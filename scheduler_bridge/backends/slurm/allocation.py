"""A job's nodes: takes further ones from Slurm, and gives them back. Blocks; one ``grow`` or ``give_back`` at once."""

from __future__ import annotations

import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from scheduler_bridge.backends.slurm import holdings
from scheduler_bridge.backends.slurm.driver import SilentError, Slurm
from scheduler_bridge.backends.slurm.harvest import Harvest, Loan
from scheduler_bridge.backends.slurm.holdings import Holdings
from scheduler_bridge.backends.slurm.lease import LOST_S, WITNESS, Leases
from scheduler_bridge.backends.slurm.reading import JobInfo, SlurmError, explained
from scheduler_bridge.backends.standin import address

_logger = logging.getLogger(__name__)

GrowBy: TypeAlias = Literal["companion", "expand"]
Recalled: TypeAlias = Callable[[str, str], None]
"""Called, in a thread, with a node that Slurm takes back, or has taken back unasked, and with words that say so."""

GONE_S: Final = 30.0
"""How long the last process of the job may take to leave a node that is given back."""

BEGINS_S: Final = 60.0
"""How long a companion job may take from its start to its word: prologues, a node that has to boot."""

_LOOK_AGAIN_S = 0.05
_ASK_AGAIN_S = 1.0
_MOST_S = 8.0
_ENDS_S = 5.0
_WAITS_AGAIN: Final = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
"""How a companion job is that has run, and was requeued; until its node has done its epilog it is COMPLETING, too."""
_TAKES: Final = "Slurm takes it back"
_BEFORE_THE_END: Final = frozenset({"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "REQUEUED"})


def read_loans(books: Path) -> tuple[Loan, ...]:
    """Read what an ``Allocation`` has written down; nothing, if no node was ever lent."""
    return _loans_of(_read(books))


def _read(books: Path) -> dict[int, dict[str, Any]]:
    loans: dict[int, dict[str, Any]] = {}
    for line in books.read_text(encoding="utf-8").splitlines() if books.exists() else ():
        entry = json.loads(line)
        loans.setdefault(entry["companion"], {}).update(entry)
    return loans


def _loans_of(entries: dict[int, dict[str, Any]]) -> tuple[Loan, ...]:
    # of one that Slurm has taken back before it was used no more may be said than that
    return tuple(Loan(**entry) for entry in tuple(entries.values()) if "node" in entry)


class Allocation:
    """The nodes of the Slurm job that we run in.

    Args:
        slurm: Gives and takes nodes.
        job: The number of the job.
        grow_by: How it grows.
        changed: Called with the holdings whenever they change.
        books: The file where the loans are kept, by Slurm's clock; None: nowhere.
        harvest: Where companion jobs get nodes that can be taken back; None: where the job has its own from.
        lease_s: How long a companion job stays after the host of this process was lost.

    Raises:
        SlurmError: The job cannot be used so; the text says why.
    """

    def __init__(
        self,
        slurm: Slurm,
        job: int,
        grow_by: GrowBy = "companion",
        changed: Callable[[Holdings], None] = lambda _: None,
        books: Path | None = None,
        harvest: Harvest | None = None,
        lease_s: int = LOST_S,
    ) -> None:
        self._slurm = slurm
        self._books = books
        self._lease_s = lease_s
        self._leases: Leases | None = None
        self._open: set[int] = set()
        self._unsure = False  # whether a companion job may be left that waits for a node
        self._over: set[int] = set()  # those that have ended by themselves
        self._most_minutes: int | None = None
        self._grow_by = grow_by
        self._changed = changed
        self._harvest = harvest
        self._recalled: Recalled = lambda _node, _words: None
        self._one_call = threading.Lock()
        self._holding = threading.Lock()
        self._closed = False
        limits = slurm.limits()
        if grow_by == "expand" and not limits.expansion:
            raise SlurmError(
                "this Slurm expands no jobs: SchedulerParameters has no permit_job_expansion",
                "leave --grow-by out: companion jobs need no permission",
            )
        if harvest is not None and grow_by == "expand":
            raise SlurmError("nodes that become part of the job cannot be taken back", "leave --grow-by expand out")
        if harvest is not None and harvest.partition and not slurm.partition(harvest.partition):
            raise SlurmError(f"Slurm has no partition {harvest.partition} that you may use", "sinfo lists them")
        if harvest is not None and harvest.partition:
            self._most_minutes = slurm.time_limit(harvest.partition)
        self._info = slurm.job(job)
        if not self._info.nodes:
            raise SlurmError(f"job {job} has no nodes: it is {self._info.state.lower()}")
        host = self._info.batch_host or self._info.nodes[0]
        own = (host, *(node for node in self._info.nodes if node != host))
        self.holdings = Holdings(job, host, own)
        self._loans = _read(books) if books is not None else {}
        if self._loans:
            self._succeed()
        self._changed(self.holdings)

    def _succeed(self) -> None:
        """An earlier process of ours has lent nodes: its companion jobs have ended with it, but for those that wait."""
        self._unsure = True
        self._cancel_waiting()
        self._open = {companion for companion, entry in self._loans.items() if "to_s" not in entry}
        self._settle(tuple(self._open))

    def listen(self, recalled: Recalled) -> None:
        """Have ``recalled`` called when Slurm is about to take a node back, and when it has, unasked."""
        self._recalled = recalled

    def loans(self) -> tuple[Loan, ...]:
        """Return what was lent so far."""
        return _loans_of(self._loans)

    def idle(self) -> int:
        """Return how many nodes Slurm has idle where companion jobs get theirs.

        Raises:
            SlurmError: It does not answer.
        """
        return sum(node.state == "idle" and node.answers for node in self._slurm.partition(self._like.partition))

    @property
    def _like(self) -> JobInfo:
        """What companion jobs are like."""
        return self._info if self._harvest is None else self._harvest.applied(self._info)

    def grow(self, count: int, wait_s: float, *, at_least: int | None = None) -> tuple[str, ...]:
        """Take ``count`` nodes; all or none.

        Args:
            count: How many.
            wait_s: How long Slurm may look for each of them.
            at_least: Be content with that many; None: with all of them only.

        Raises:
            SlurmError: Slurm does not have them for us now.
        """
        with self._one_call:
            before = self.holdings
            try:
                if self._grow_by == "expand":
                    for _ in range(count):
                        self._expand(max(1, math.ceil(wait_s)))
                else:
                    self._borrow(count, wait_s, count if at_least is None else at_least)
            except SlurmError:
                new = set(self.holdings.nodes) - set(before.nodes)
                if at_least is None or len(new) < at_least:
                    try:
                        self._give_back(new)
                    except SlurmError as error:
                        _logger.error("%s stay unused to the end of the job: %s", ", ".join(sorted(new)), error)
                    raise
            return tuple(node for node in self.holdings.nodes if node not in before.nodes)

    def _minutes(self) -> int | None:
        """How long further nodes are needed: until the end of the job."""
        if self._closed:
            raise SlurmError(f"job {self.holdings.job} is ending")
        left = None if self._info.ends_s is None else max(1, math.ceil((self._info.ends_s - time.time()) / 60))
        return min((minutes for minutes in (left, self._most_minutes) if minutes is not None), default=None)

    def _expand(self, wait_s: int) -> None:
        """Have the node of a further job merged into ours."""
        companion = self._slurm.allocate(holdings.allocate_expansion(self._info, wait_s, self._minutes()), wait_s)
        try:
            if self._closed:
                raise SlurmError(f"job {self.holdings.job} is ending")
            self._slurm.run(holdings.give_up(companion))
            nodes = self._slurm.job(self.holdings.job).nodes
            self._hold(lambda held: held.expanded(nodes))
        except SlurmError as error:
            with suppress(SlurmError):  # the first error is what is reported
                self._slurm.run(holdings.cancel(companion))
            raise SlurmError(f"companion job {companion} cannot be used: {error}") from error

    def _borrow(self, count: int, wait_s: float, at_least: int) -> None:
        """Have companion jobs lend us their nodes, as many of them as can be submitted."""
        if self._leases is None:
            witness = holdings.witness_step() if self._harvest is not None else ()
            self._leases = Leases(self._ended_by_itself, self._taken_back, witness, self._lease_s)
        leases = self._leases
        script = leases.script((self.holdings.batch_host, address(self.holdings.nodes)))
        asked: list[int] = []
        try:
            for _ in range(count):
                words = holdings.submit_companion(self._like, self._minutes(), warned=self._harvest is not None)
                try:
                    asked.append(leases.ask(lambda: self._slurm.submit(words, script)))  # noqa: B023 - called at once
                except SlurmError as error:
                    if len(asked) < at_least:
                        raise
                    self._unsure |= isinstance(error, SilentError)
                    break
            for companion in asked:
                info = self._awaited(leases, companion, wait_s)
                (node,) = info.nodes
                self._open.add(companion)
                self._note(companion, node=node, from_s=info.starts_s or time.time())
                self._hold(lambda held: held.lent(node, companion))  # noqa: B023 - called at once
                if "warned_s" in self._loans[companion]:
                    self._recalled(node, _TAKES)
                if companion in self._over:  # before its node was known
                    self._ended_by_itself(companion)
        except (SlurmError, ValueError) as error:
            for companion in set(asked) - set(self.holdings.companions.values()):
                leases.end(companion)
                try:
                    self._slurm.run(holdings.cancel(companion))
                except SlurmError:  # if it starts all the same, it is not let in, and ends
                    self._unsure = True
            self._unsure |= isinstance(error, SilentError)
            raise SlurmError(str(error)) from error

    def _awaited(self, leases: Leases, companion: int, wait_s: float) -> JobInfo:
        """Wait until a companion job has its node, and reaches us from there; return what Slurm says of it then."""
        until, pause_s, starts = time.monotonic() + wait_s, _ASK_AGAIN_S, False
        while not leases.wait(companion, max(0.0, min(pause_s, until - time.monotonic()))):
            if self._closed:
                raise SlurmError(f"job {self.holdings.job} is ending")
            info, late = self._slurm.job(companion), time.monotonic() > until
            if info.state not in _BEFORE_THE_END:
                raise SlurmError(f"companion job {companion} has ended: it is {info.state.lower()} ({info.reason})")
            if info.state != "PENDING" and not starts:
                starts, until = True, time.monotonic() + BEGINS_S
            elif starts and late:
                here, there = self.holdings.batch_host, ", ".join(info.nodes)
                raise SlurmError(f"companion job {companion} on {there} does not reach {here} within {BEGINS_S:g} s")
            elif late:
                raise SlurmError(f"Slurm gives no node: {explained(info.reason)}")
            pause_s = min(2 * pause_s, _MOST_S)
        return self._slurm.job(companion)

    def _node_of(self, companion: int) -> str:
        """Return the node that a companion job lends; empty: none, not yet or not any more."""
        return next((node for node, job in self.holdings.companions.items() if job == companion), "")

    def _taken_back(self, companion: int) -> None:
        """Slurm is about to end a companion job."""
        self._note(companion, warned_s=time.time())
        node = self._node_of(companion)
        if not node:
            return
        self._recalled(node, _TAKES)
        with suppress(SlurmError):  # the program leaves it meanwhile, if Slurm says when or not
            ends_s = self._slurm.job(companion).ends_s
            if ends_s is not None and ends_s > time.time():
                self._recalled(node, f"{_TAKES}, at {time.strftime('%H:%M:%S', time.localtime(ends_s))}")

    def _ended_by_itself(self, companion: int) -> None:
        """A companion job has ended that was not to: cancelled, preempted, or its node has died."""
        self._over.add(companion)
        node = self._node_of(companion)
        if self._closed or not node:
            return
        self._recalled(node, "Slurm has taken it back")
        self._settle([companion])
        try:
            info = self._slurm.job(companion)
            why = f"it is {info.state.lower()} ({info.reason})"
        except SlurmError as error:
            why = str(error)
        _logger.warning("companion job %d has ended and taken %s back: %s", companion, node, why)

    def check_release(self, count: int) -> None:
        """See that the ``count`` nodes that came last could be given back; else a ``SlurmError`` says why not."""
        self.holdings.check_release(count, self._slurm.limits())

    def give_back(self, nodes: Iterable[str]) -> None:
        """Give ``nodes`` back as soon as nothing of the job runs there.

        Raises:
            SlurmError: They stay ours; the text says why.
        """
        with self._one_call:
            self._give_back(set(nodes))

    def leave(self, node: str) -> None:
        """Give the node of a companion job back that nothing of the job uses, at once, also beside another call."""
        companion = self.holdings.companions.get(node)
        if companion is not None:
            if companion not in self._over:  # else what was there is lost
                self._note(companion, left_s=time.time())
            self.lost((node,))

    def _give_back(self, nodes: set[str]) -> None:
        if not nodes:
            return
        ending, steps = self.holdings.giving_back(nodes, self._slurm.limits())
        # Slurm kills what runs on a node that is given back, and the job with it
        self._await_quiet(nodes)
        for companion in ending:
            self._note(companion, left_s=time.time())
            self._end(companion)
        for words in steps:
            self._slurm.run(words)
        self._hold(lambda held: held.without(nodes))
        self._settle(ending)

    def _end(self, companion: int) -> None:
        if companion not in self._open:
            return  # it has ended by itself
        if self._leases is None or not self._leases.end(companion):
            self._slurm.run(holdings.cancel(companion))

    def _settle(self, companions: Iterable[int]) -> None:
        """Write down when companion jobs have ended: as Slurm says, which bills them, or by our clock if it is away.

        Its commands try for long to reach a slurmctld that is away, so one that does not answer is asked once for all.
        """
        until, now_s = time.monotonic() + _ENDS_S, time.time()
        for companion in self._open.intersection(companions):
            self._open.discard(companion)
            to_s = now_s
            try:
                while (left_s := until - time.monotonic()) > 0:
                    info = self._slurm.job(companion, left_s)
                    if info.state in _WAITS_AGAIN or (info.state == "COMPLETING" and info.may_come_back):
                        self._slurm.run(holdings.cancel(companion))  # it would come back, and is not let in
                        break
                    if info.state not in _BEFORE_THE_END:
                        to_s = info.ends_s or now_s
                        break
                    time.sleep(_LOOK_AGAIN_S)
            except SlurmError:
                until = 0.0
            self._note(companion, to_s=to_s)

    def _note(self, companion: int, **what: object) -> None:
        self._loans.setdefault(companion, {"companion": companion}).update(what)
        if self._books is None:
            return
        with self._books.open("a", encoding="utf-8") as books:
            books.write(json.dumps({"companion": companion, **what}) + "\n")

    def _await_quiet(self, nodes: set[str]) -> None:
        until = time.monotonic() + GONE_S
        while True:
            steps = self._slurm.steps(self.holdings.jobs)
            here = [step for step in steps if step.step not in ("extern", "batch") and step.name != WITNESS]
            busy = sorted({node for step in here for node in step.nodes} & nodes)
            if not busy:
                return
            if time.monotonic() > until:
                raise SlurmError(f"the job has not left {', '.join(busy)} after {GONE_S:g} s")
            time.sleep(_LOOK_AGAIN_S)

    def lost(self, nodes: Iterable[str]) -> None:
        """Nothing of the job is on ``nodes`` any more, as when they have died: companion jobs end without a look."""
        gone = set(nodes)
        lent = {node: job for node, job in self.holdings.companions.items() if node in gone}
        for companion in lent.values():
            with suppress(SlurmError):  # its lease ends it when the node is back
                self._end(companion)
        self._hold(lambda held: held.without(lent))
        self._settle(lent.values())

    def stop(self) -> None:
        """Take no further nodes: a call of ``grow`` fails soon."""
        self._closed = True
        self._slurm.give_up("salloc")  # it waits for a node
        if self._leases is not None:
            self._leases.wake()

    def close(self) -> None:
        """End all companion jobs: also those that no call has returned yet. Idempotent."""
        self.stop()
        if self._leases is not None:
            self._leases.close()
        for companion in sorted(self._open):
            now_s = time.time()  # by our own clock, if Slurm ends us before it says more
            self._note(companion, left_s=now_s, to_s=now_s)
        self._cancel_waiting()
        self._settle(tuple(self._open))

    def _cancel_waiting(self) -> None:
        """Those that run end with their leases; the others need not wait for a node to hear of it."""
        waiting = self._grow_by == "companion"
        if self._unsure or not waiting or self._one_call.locked():
            self._unsure = False
            try:
                self._slurm.run(holdings.cancel_companions(self.holdings.job, str(os.getuid()), waiting=waiting))
            except SlurmError as error:
                _logger.error("companion jobs that wait for a node may be left until they start: %s", error)

    def _hold(self, change: Callable[[Holdings], Holdings]) -> None:
        with self._holding:
            self.holdings = change(self.holdings)
            self._changed(self.holdings)
