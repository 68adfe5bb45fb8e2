"""A cluster whose scheduler may die at any step: what outlives it is pretended, the scheduler is the real one.

Driver, journal, log_state, job orders and sessions are real; sockets, processes and the disk are pretended, and outlive
the scheduler; nodes die and come back. What happens next is drawn from a seed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from scheduler_bridge.daemon import DaemonConfig, JobRequest
from scheduler_bridge.daemon.driver import Driver
from scheduler_bridge.daemon.jobs.health import Standing
from scheduler_bridge.daemon.storage import restore
from scheduler_bridge.daemon.storage.journal import Journal
from scheduler_bridge.daemon.storage.log_state import LogState
from scheduler_bridge.jobrunner.notes import Ending
from support import crash_wishes as wishes
from support.crash_jobs import Executor, Job
from support.crash_wishes import JOBS, NODES
from support.pretended import Died, Disk, Inline

DEATHS = 60


class World:
    """What outlives the scheduler, and the scheduler of the moment.

    Attributes:
        jobs: Attempts whose end is not in the log yet, by key.
        retired: The others' keys, in the order of their ends.
        endings: How those ended.
        broken: Nodes that are dead.
        requests: What was asked for, by job.
        held: Who holds jobs back, as far as the log is known to have it.
        still_held: How often an operator's hold has outlived a scheduler.
    """

    def __init__(self, seed: int, policy: str) -> None:
        self.rng = random.Random(seed)
        self.disk = Disk(self.rng)
        self.config = DaemonConfig(NODES, state_dir=Path("pretended"), policy=policy)
        self.jobs: dict[str, Job] = {}
        self.retired: list[str] = []
        self.endings: dict[str, Ending | None] = {}
        self.broken: set[str] = set()
        self.held: dict[int, str | None] = {}
        self.todo: list[Callable[[], object]] = []
        self.crashes = self.still_held = 0
        self.submitted = 0
        self.answered: list[int] = []
        self.requests: dict[int, JobRequest] = {}
        self.durable: set[int] = set()
        self.dead = True
        self.driver: Driver
        self.log_state: LogState

    # the folder's part

    def token(self, key: str) -> str:
        return key.rjust(32, "x")

    def result(self, key: str) -> Path:
        return Path("/nonexistent") / key  # no attempt writes one

    def drop_result(self, key: str) -> None:
        """There is none."""

    def has_books(self, job_id: int) -> bool:
        """What attempts keep is in their endings."""
        return False

    def books(self, job_id: int) -> Path:
        return Path("/nonexistent") / str(job_id)

    def drop_books(self, job_id: int) -> None:
        """There are none: no attempt keeps any."""

    def drop_other_books(self, jobs: Collection[int]) -> None:
        """There are no files."""

    def settle_strangers(
        self, known: list[str], has_end: Callable[[str], bool], *, end: bool
    ) -> tuple[set[str], dict[str, set[str]]]:
        assert set(self.jobs) <= set(known) | {key for key, job in self.jobs.items() if job.ended is not None}, known
        return set(self.jobs) - set(known), {}

    # what happens

    def later(self, act: Callable[[], object]) -> None:
        self.todo.append(act)

    def occupy(self, job: Job, nodes: tuple[str, ...]) -> None:
        held = {node for other in self.jobs.values() if other.ended is None for node in other.nodes}
        assert not held & set(nodes), f"{held & set(nodes)} is used twice"
        job.nodes += nodes
        for node in self.broken.intersection(nodes):
            self._lose(job, node)

    def break_node(self) -> None:
        """A node dies with what runs there, or one comes back; the scheduler hears of it when it looks."""
        if self.broken and self.rng.random() < 0.5:
            self.broken.pop()
            return
        node = self.rng.choice(NODES)
        self.broken = {node}  # the one before is back
        for job in self.jobs.values():
            self._lose(job, node)

    def _lose(self, job: Job, node: str) -> None:
        self.later(lambda: job.lose(node))

    def look(self) -> None:
        """See which nodes answer, as a back-end does."""
        health = self.driver.health
        for node in NODES:
            standing = health.standing(node)
            if node in self.broken and standing is Standing.SERVING:
                if self.rng.random() < 0.3:
                    health.suspect(node, "silent")
                else:
                    health.lose(node, "silent", spare=self.rng.random() < 0.8)
            elif node not in self.broken and standing is Standing.AILING:
                health.regain(node)

    # lives and deaths

    def begin(self) -> None:
        """Start a scheduler; it may die while it starts."""
        self.dead = False
        store: Any = self.disk
        if self.disk.era is None:
            self.log_state, rows = restore._begin(store, self.config, 1)
        else:
            self.log_state, rows = restore._go_on(store, self.disk.stored())
        journal = Journal(store, self.broke)
        journal._thread = Inline()  # type: ignore[assignment]  # a stand-in
        folder: Any = self
        self.driver = Driver(self.config, self.log_state, journal, folder, self.broke)
        self.driver.executor = Executor(self, self.driver)  # type: ignore[assignment]  # a stand-in
        if rows is not None:
            # What was answered was written; what was not may be gone, and its user tries again.
            known = set(range(1, self.log_state.next_job_id))
            assert self.durable <= known
            self.answered = sorted(known)
            self.submitted = len(known)
            for job_id, by in self.held.items():
                assert job_id not in self.log_state.jobs or self.log_state.jobs[job_id].held_by == by, (job_id, by)
                self.still_held += by == "operator"
            self.driver.resume(self.config, rows)

    def broke(self, error: Exception) -> None:
        assert not str(error), error  # A ``Died`` says nothing.
        self.die()

    def may_die(self) -> bool:
        """Whether nothing would be lost: what a full disk has not taken dies with the scheduler, and that is known."""
        return not self.dead and self.crashes < DEATHS and not self.driver.journal.behind

    def die(self) -> None:
        self.dead = True
        self.crashes += 1
        journal = self.driver.journal
        if journal._writing is not None:
            journal._writing.cancel()
        journal._begin = lambda: None  # type: ignore[method-assign]  # what is scheduled must not revive it
        for timer in self.driver._timers:
            timer.cancel()
        self.driver.job_orders.close()
        if journal._retry is not None:
            journal._retry.cancel()
        for job in self.jobs.values():
            job.session = None

    def reboot(self) -> None:
        """The scheduler's machine goes down with all runners; no runner has seen how its job ended."""
        self.die()
        for job in self.jobs.values():
            if job.ended is None:
                job.ended = Ending(None, "its runner was killed, or the machine went down", lost=True)


async def live_through(world: World) -> None:
    """Let everything happen, with deaths in between, until all jobs are over."""
    while True:
        if world.dead:
            world.begin()
        for _ in range(world.rng.randint(0, 4)):
            await asyncio.sleep(0)
        if world.dead:
            continue
        if world.todo or world.submitted < JOBS or world.driver.log_state.jobs:
            await step(world, world.rng.random())
            continue
        world.driver.journal._begin()
        if await settled(world):
            return


async def settled(world: World) -> bool:
    """Wait for the disk; whether the scheduler has survived that, and everything is on it."""
    try:
        await world.driver.journal.settled()
    except (Died, asyncio.CancelledError):
        return False
    return not world.dead and world.driver.journal.complete


async def step(world: World, draw: float) -> None:
    """Let one thing happen: with its share of the draws one of the rare ones, else one of those that are due."""
    submits, known = world.submitted < JOBS, bool(world.answered)
    for share, may, act in (
        (0.018, world.may_die(), World.die),
        (0.002, world.may_die(), World.reboot),
        (0.2, submits, wishes.submit),
        (0.004, known, wishes.cancel),
        (0.05, known, wishes.wish),
        (0.06, submits, wishes.reserve),
        (0.02, True, wishes.change_nodes),
        (0.004, True, wishes.limit),
        (0.01, True, World.break_node),
        (0.03, True, World.look),
    ):
        if draw < share:
            if may:
                act(world)
            return
        draw -= share
    if draw < 0.06:
        await keep(world)
    elif world.todo:
        world.todo.pop(world.rng.randrange(len(world.todo)))()
    else:
        wishes.relent(world)


async def keep(world: World) -> None:
    """Wait for the disk, and note what outlives the scheduler from now on."""
    if await settled(world):
        world.durable = set(world.answered)
        world.held = {job_id: world.log_state.jobs[job_id].held_by for job_id in world.log_state.kept}
