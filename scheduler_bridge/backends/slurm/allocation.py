"""A job's nodes: takes further ones from Slurm, and gives them back. Blocks; one call at a time."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Literal, TypeAlias

from scheduler_bridge.backends.slurm.driver import Slurm, SlurmError
from scheduler_bridge.backends.slurm.holdings import (
    Holdings,
    HoldingsError,
    allocate_companion,
    cancel,
    cancel_companions,
    give_up,
)

_logger = logging.getLogger(__name__)

GrowBy: TypeAlias = Literal["companion", "expand"]

GONE_S: Final = 30.0
"""How long the last process of the job may take to leave a node that is given back."""

_LOOK_AGAIN_S = 0.05


class Allocation:
    """The nodes of the Slurm job that we run in.

    Args:
        slurm: Gives and takes nodes.
        job: The number of the job.
        grow_by: How it grows.
        changed: Called with the holdings whenever they change.

    Raises:
        SlurmError: The job cannot be used so; the text says why.
    """

    def __init__(
        self,
        slurm: Slurm,
        job: int,
        grow_by: GrowBy = "companion",
        changed: Callable[[Holdings], None] = lambda _: None,
    ) -> None:
        self._slurm = slurm
        self._grow_by = grow_by
        self._changed = changed
        self._lock = threading.Lock()
        self._closed = False
        limits = slurm.limits()
        if grow_by == "expand" and not limits.expansion:
            raise SlurmError(
                "this Slurm expands no jobs: SchedulerParameters has no permit_job_expansion",
                "leave --grow-by out: companion jobs need no permission",
            )
        self._info = slurm.job(job)
        if not self._info.nodes:
            raise SlurmError(f"job {job} has no nodes: it is {self._info.state.lower()}")
        host = self._info.batch_host or self._info.nodes[0]
        own = (host, *(node for node in self._info.nodes if node != host))
        self.holdings = Holdings(job, host, own)
        self._changed(self.holdings)

    def grow(self, count: int, wait_s: float) -> tuple[str, ...]:
        """Take ``count`` nodes; all or none.

        Args:
            count: How many.
            wait_s: How long Slurm may look for each of them.

        Raises:
            SlurmError: Slurm does not have them for us now.
        """
        with self._lock:
            before = self.holdings
            try:
                for _ in range(count):
                    self._take_one(max(1, math.ceil(wait_s)))
            except SlurmError:
                new = set(self.holdings.nodes) - set(before.nodes)
                try:
                    self._give_back(new)
                except SlurmError as error:
                    _logger.error("%s stay unused to the end of the job: %s", ", ".join(sorted(new)), error)
                raise
            return tuple(node for node in self.holdings.nodes if node not in before.nodes)

    def _take_one(self, wait_s: int) -> None:
        if self._closed:
            raise SlurmError(f"job {self.holdings.job} is ending")
        left_s = None if self._info.ends_s is None else self._info.ends_s - time.time()
        minutes = None if left_s is None else max(1, math.ceil(left_s / 60))
        expand = self._grow_by == "expand"
        companion = self._slurm.allocate(allocate_companion(self._info, wait_s, minutes, expand=expand), wait_s)
        try:
            if self._closed:
                raise SlurmError(f"job {self.holdings.job} is ending")
            if expand:
                self._slurm.run(give_up(companion))
                self._hold(self.holdings.expanded(self._slurm.job(self.holdings.job).nodes))
            else:
                (node,) = self._slurm.job(companion).nodes
                self._hold(self.holdings.lent(node, companion))
        except (SlurmError, ValueError) as error:
            with suppress(SlurmError):  # the first error is what is reported
                self._slurm.run(cancel(companion))
            raise SlurmError(f"companion job {companion} cannot be used: {error}") from error

    def check_release(self, count: int) -> None:
        """See that the ``count`` nodes that came last could be given back.

        Raises:
            SlurmError: They could not.
        """
        try:
            self.holdings.check_release(count, self._slurm.limits())
        except HoldingsError as error:
            raise SlurmError(str(error)) from None

    def give_back(self, nodes: Iterable[str]) -> None:
        """Give ``nodes`` back as soon as nothing of the job runs there.

        Raises:
            SlurmError: They stay ours; the text says why.
        """
        with self._lock:
            self._give_back(set(nodes))

    def _give_back(self, nodes: set[str]) -> None:
        if not nodes:
            return
        try:
            steps = self.holdings.giving_back(nodes, self._slurm.limits())
        except HoldingsError as error:
            raise SlurmError(str(error)) from None
        # Slurm kills what runs on a node that is given back, and the job with it
        self._await_quiet(nodes)
        for words in steps:
            self._slurm.run(words)
        self._hold(self.holdings.without(nodes))

    def _await_quiet(self, nodes: set[str]) -> None:
        until = time.monotonic() + GONE_S
        while True:
            here = [step for step in self._slurm.steps(self.holdings.jobs) if step.step != "extern"]
            busy = sorted({node for step in here for node in step.nodes} & nodes)
            if not busy:
                return
            if time.monotonic() > until:
                raise SlurmError(f"the job has not left {', '.join(busy)} after {GONE_S:g} s")
            time.sleep(_LOOK_AGAIN_S)

    def lost(self, nodes: Iterable[str]) -> None:
        """Nodes have died: nothing of the job is there any more, so they are given back without a look."""
        with self._lock:
            gone = set(nodes) & set(self.holdings.companions)
            for words in self.holdings.giving_back(gone, self._slurm.limits()):
                with suppress(SlurmError):  # `close` cancels what Slurm does not take back now
                    self._slurm.run(words)
            self._hold(self.holdings.without(gone))

    def stop(self) -> None:
        """Take no further nodes: a call of ``grow`` fails soon."""
        self._closed = True
        self._slurm.interrupt()

    def close(self) -> None:
        """End all companion jobs: also those that no call has returned yet. Idempotent."""
        self.stop()
        try:
            self._slurm.run(cancel_companions(self.holdings.job, str(os.getuid())))
        except SlurmError as error:
            _logger.error("companion jobs may be left: %s", error)

    def _hold(self, holdings: Holdings) -> None:
        self.holdings = holdings
        self._changed(holdings)
