"""A cluster whose scheduler may die at any step: what outlives it is pretended, the scheduler is the real one.

Driver, journal, ledger, dialogue and sessions are real; sockets, processes and the disk are pretended, and outlive the
scheduler. What happens next is drawn from a seed.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from apgas.malleability import orders as wire
from scheduler_bridge.jobrunner.notes import Ending
from scheduler_bridge.live import DaemonConfig, JobRequest, restore
from scheduler_bridge.live.driver import Driver
from scheduler_bridge.live.job_server import JobServer
from scheduler_bridge.live.journal import Journal
from scheduler_bridge.live.ledger import Ledger
from scheduler_bridge.live.requests import Reserve, SubmitError
from scheduler_bridge.live.session import Attach, Heard, Send, Session, Trespassed
from support.pretended import Died, Disk, Inline

NODES = tuple("abcdef")
JOBS = 12
DEATHS = 60
TOKEN = "x" * 32


@dataclass
class Job:
    """A job with its runner: what it did stays done, whoever schedules."""

    world: World
    job_id: int
    malleable: bool
    nodes: list[str]
    started: bool = False
    ready: bool = False
    ended: Ending | None = None
    told_to_end: bool = False
    seen: set[int] = field(default_factory=set)
    outcomes: list[wire.Outcome] = field(default_factory=list)
    session: Session | None = None

    def say(self, message: wire.Message) -> None:
        if self.session is not None and not self.world.dead:
            for action in self.session.receive(wire.encode(message), 0.0):
                self.perform(action)

    def perform(self, action: object) -> None:
        match action:
            case Heard() | Trespassed():
                self.world.driver.dialogue._heard(action)
            case Attach():
                self.server._attached[self.job_id] = self  # type: ignore[assignment]  # a stand-in
            case Send(message=message):
                self.send(message)
            case _:
                raise AssertionError(action)

    @property
    def server(self) -> JobServer:
        return self.world.driver.dialogue.server

    def send(self, message: wire.Message) -> None:
        """Take what the scheduler says."""
        assert not isinstance(message, wire.Refused) or "not open" in message.reason, message
        if isinstance(message, wire.Grow | wire.Shrink) and message.order not in self.seen:
            self.seen.add(message.order)
            self.world.later(lambda: self.answer(message))

    def close(self) -> None:
        self.session = None

    def connect(self) -> None:
        if self.ended is not None:
            return
        self.session = Session(self.server._links, self.world.config.limits, 0.0)
        self.say(wire.Hello(version=wire.PROTOCOL_VERSION, job=self.job_id, token=TOKEN))
        if self.ready:
            self.say(wire.Ready(nodes=tuple(self.nodes)))
        for outcome in self.outcomes[-8:]:
            self.say(outcome)

    def get_ready(self) -> None:
        if self.ended is None:
            self.ready = True
            self.say(wire.Ready(nodes=tuple(self.nodes)))

    def answer(self, order: wire.Grow | wire.Shrink) -> None:
        if self.ended is not None:
            return
        grows = isinstance(order, wire.Grow)
        kind: Any = "grow" if grows else "shrink"
        if self.world.rng.random() < 0.05:
            outcome = wire.Outcome(order=order.order, kind=kind, outcome="refused", reason="no")
        else:
            moved = order.nodes if grows else tuple(self.world.rng.sample(self.nodes[1:], order.count))
            if grows:
                self.world.occupy(self, moved)
            else:
                self.nodes = [node for node in self.nodes if node not in moved]
            outcome = wire.Outcome(order=order.order, kind=kind, outcome="done", nodes=moved, seconds=1.0)
        self.outcomes.append(outcome)
        self.say(outcome)


@dataclass
class Executor:
    """Stands for the runners' side of one scheduler."""

    world: World
    driver: Driver
    ended: set[int] = field(default_factory=set)

    def alive(self) -> bool:
        return self.world.driver is self.driver and not self.world.dead

    def start(
        self, job_id: int, attempt: int, request: JobRequest, nodes: tuple[str, ...], endpoint: str, cores: int
    ) -> None:
        world = self.world
        key = f"{job_id}.{attempt}"
        if key not in world.jobs:
            world.jobs[key] = job = Job(world, job_id, request.job_class == "malleable", [])
            world.occupy(job, nodes)
            world.later(lambda: world.run(job))
        job = world.jobs[key]
        world.later(lambda: self.follow(job))
        if job.started and job.malleable:
            world.later(lambda: job.connect() if self.alive() else None)

    def follow(self, job: Job) -> None:
        """Tell the driver, once, what is to be told by now."""
        if not self.alive() or job.job_id in self.ended:
            return
        if job.started:
            self.driver._started(job.job_id)
        if job.ended is None:
            self.world.later(lambda: self.follow(job))
            return
        self.ended.add(job.job_id)
        self.driver._ended(job.job_id, job.ended)

    def end(self, job_id: int) -> None:
        for job in self.world.jobs.values():
            if job.job_id == job_id:
                job.told_to_end = True

    def note_segments(self, job_id: int) -> None:
        pass

    def retire(self, key: str) -> None:
        del self.world.jobs[key]
        self.world.retired.append(key)

    async def finish(self, within_s: float) -> None:
        pass

    def close(self) -> None:
        pass


class World:
    """What outlives the scheduler, and the scheduler of the moment."""

    def __init__(self, seed: int, policy: str) -> None:
        self.rng = random.Random(seed)
        self.disk = Disk(self.rng)
        self.config = DaemonConfig(NODES, Path("pretended"), policy)
        self.jobs: dict[str, Job] = {}
        self.retired: list[str] = []
        self.todo: list[Callable[[], object]] = []
        self.crashes = 0
        self.submitted = 0
        self.answered: list[int] = []
        self.durable: set[int] = set()
        self.dead = True
        self.driver: Driver
        self.ledger: Ledger

    # the folder's part

    def token(self, key: str) -> str:
        return TOKEN

    def end_strangers(self, known: list[str]) -> set[str]:
        assert set(self.jobs) <= set(known) | {key for key, job in self.jobs.items() if job.ended is not None}, known
        return set(self.jobs) - set(known)

    # what happens

    def later(self, act: Callable[[], object]) -> None:
        self.todo.append(act)

    def occupy(self, job: Job, nodes: tuple[str, ...]) -> None:
        held = {node for other in self.jobs.values() if other.ended is None for node in other.nodes}
        assert not held & set(nodes), f"{held & set(nodes)} is used twice"
        job.nodes += nodes

    def run(self, job: Job) -> None:
        job.started = True
        self.later(lambda: self.end(job))
        if job.malleable:
            self.later(job.connect)
            self.later(job.get_ready)

    def end(self, job: Job) -> None:
        if not job.told_to_end and self.rng.random() < 0.95:
            self.later(lambda: self.end(job))
            return
        assert job.ended is None
        job.ended = Ending(-15 if job.told_to_end else 0)

    def submit(self) -> None:
        low, wanted, high = sorted(self.rng.randint(1, len(NODES)) for _ in range(3))
        name = f"j{self.submitted}"
        earlier = [job_id for job_id in self.answered if self.rng.random() < 0.1]
        wishes: dict[str, Any] = {
            "hold": self.rng.random() < 0.1,
            "priority": self.rng.choice([0, 0, 0, 5, -5]),
            "after_any" if self.rng.random() < 0.7 else "after_ok": tuple(earlier),
        }
        if self.rng.random() < 0.5:
            request = JobRequest(name=name, command=(sys.executable,), nodes=wanted, **wishes)
        else:
            request = JobRequest(
                name=name, command=(sys.executable,), job_class="malleable",
                nodes=wanted, min_nodes=low, max_nodes=high, **wishes,
            )  # fmt: skip
        if (kept := self.driver.reservations()) and self.rng.random() < 0.5:
            mine = msgspec.structs.replace(request, reservation=kept[0].name)
            request = mine if low <= len(kept[0].nodes) and wanted <= len(kept[0].nodes) else request
        array = range(min(self.rng.randint(2, 4), JOBS - self.submitted)) if self.rng.random() < 0.1 else ()
        try:
            taken = self.driver.desk.submit(request, array)
        except SubmitError as error:
            if "the cluster has" not in str(error) and "a user may have" not in str(error):
                raise
            return
        self.answered += taken
        self.submitted += len(taken)

    def cancel(self) -> None:
        job_id = self.rng.choice(self.answered)
        if job_id in self.ledger.jobs:
            self.driver.desk.cancel(job_id)

    def wish(self) -> None:
        """Hold, release or move a job that waits; one that does not is left alone with a word."""
        job_id = self.rng.choice(self.answered)
        try:
            if self.rng.random() < 0.5:
                self.driver.desk.hold(job_id, held=self.rng.random() < 0.4)
            else:
                self.driver.desk.prioritise(job_id, self.rng.randint(-9, 9))
        except ValueError as error:
            if "wait" not in str(error) and "ended" not in str(error):
                raise

    def reserve(self) -> None:
        """Keep nodes from now on or later, or keep them no longer; where too many are in use it is refused."""
        kept = self.driver.reservations()
        if kept and self.rng.random() < 0.5:
            self.driver.desk.unreserve(kept[-1].name)
            return
        late_s = self.rng.choice([0.0, 0.001, 7200.0])
        try:
            self.driver.desk.reserve(Reserve(in_s=late_s, duration_s=7200.0, nodes=self.rng.randint(1, 2)))
        except ValueError as error:
            if "can be free" not in str(error):
                raise

    def change_nodes(self) -> None:
        """Let a node leave, or one that has left come back."""
        core = self.ledger.core
        absent = [node for node in NODES if node not in core.nodes or core.is_leaving(node)]
        if absent and self.rng.random() < 0.7:
            self.driver.desk.change_node(absent[0], "resume" if absent[0] in core.nodes else "add")
        elif len(absent) < 2:
            self.driver.desk.change_node(self.rng.choice([node for node in NODES if node not in absent]), "remove")

    def limit(self) -> None:
        """Let users have more or fewer nodes; jobs that need more wait, or are not taken."""
        self.driver.desk.limit_users(self.rng.choice([2, 4, None]))

    def relent(self) -> None:
        """Take back what may keep jobs from running."""
        self.driver.desk.limit_users(None)
        for node in NODES:
            if node not in self.ledger.core.nodes or self.ledger.core.is_leaving(node):
                self.driver.desk.change_node(node, "resume" if node in self.ledger.core.nodes else "add")
        for job_id, job in list(self.ledger.jobs.items()):
            if job.held_by is not None:
                self.driver.desk.hold(job_id, held=False)
        for kept in self.driver.reservations():
            self.driver.desk.unreserve(kept.name)

    # lives and deaths

    def begin(self) -> None:
        """Start a scheduler; it may die while it starts."""
        self.dead = False
        store: Any = self.disk
        if self.disk.era is None:
            restored = restore._begin(store, self.config, 1)
        else:
            restored = restore._go_on(store, 1, self.disk.era)
        self.ledger = restored.ledger
        journal = Journal(store, 1, restored.next_seq, self.broke)
        journal._thread = Inline()  # type: ignore[assignment]  # a stand-in
        folder: Any = self
        self.driver = Driver(self.config, restored.ledger, journal, folder, restored.origin_s, self.broke)
        self.driver.executor = Executor(self, self.driver)  # type: ignore[assignment]  # a stand-in
        if restored.rows is not None:
            # What was answered was written; what was not may be gone, and its user tries again.
            known = set(range(1, self.ledger.next_job_id))
            assert self.durable <= known
            self.answered = sorted(known)
            self.submitted = len(known)
            self.driver.resume(self.config, restored.rows)

    def broke(self, error: Exception) -> None:
        assert not str(error), error  # A ``Died`` says nothing.
        self.die()

    def may_die(self) -> bool:
        """Whether nothing would be lost: what a full disk has not taken dies with the scheduler, and that is known."""
        return not self.dead and self.crashes < DEATHS and not self.driver._journal._lagging

    def die(self) -> None:
        self.dead = True
        self.crashes += 1
        journal = self.driver._journal
        if journal._writing is not None:
            journal._writing.cancel()
        journal._begin = lambda: None  # type: ignore[method-assign]  # what is scheduled must not revive it
        for timer in self.driver._timers:
            timer.cancel()
        self.driver.dialogue.close()
        if journal._retry is not None:
            journal._retry.cancel()
        for job in self.jobs.values():
            job.session = None


async def live_through(world: World) -> None:
    """Let everything happen, with deaths in between, until all jobs are over."""
    while True:
        if world.dead:
            world.begin()
        for _ in range(world.rng.randint(0, 4)):
            await asyncio.sleep(0)
        if world.dead:
            continue
        if world.todo or world.submitted < JOBS or not world.driver.is_idle():
            await step(world, world.rng.random())
            continue
        world.driver._journal._begin()
        if await settled(world):
            return


async def settled(world: World) -> bool:
    """Wait for the disk; whether the scheduler has survived that, and everything is on it."""
    try:
        await world.driver.durable()
    except (Died, asyncio.CancelledError):
        return False
    return not world.dead and world.driver.is_written()


async def step(world: World, draw: float) -> None:
    if draw < 0.02 and world.may_die():
        world.die()
    elif draw < 0.25 and world.submitted < JOBS:
        world.submit()
    elif draw < 0.253 and world.answered:
        world.cancel()
    elif draw < 0.3 and world.answered:
        world.wish()
    elif draw < 0.33 and world.submitted < JOBS:
        world.reserve()
    elif draw < 0.34:
        (world.change_nodes if draw < 0.337 else world.limit)()
    elif draw < 0.4:
        if await settled(world):
            world.durable = set(world.answered)
    elif world.todo:
        world.todo.pop(world.rng.randrange(len(world.todo)))()
    else:
        world.relent()
