"""Jobs and their runners where a scheduler's deaths are simulated: what they did stays done under every scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apgas.malleability import orders as wire
from scheduler_bridge.core import JobState
from scheduler_bridge.daemon import JobRequest
from scheduler_bridge.daemon.admission import JobFacts
from scheduler_bridge.daemon.driver import Driver
from scheduler_bridge.daemon.jobs.server import JobServer
from scheduler_bridge.daemon.jobs.session import Attach, Heard, Send, Session, Trespassed
from scheduler_bridge.jobrunner.notes import Ending

if TYPE_CHECKING:
    from support.crashes import World

ATTEMPTS = 5
"""A job that is lost is run so often at most."""


@dataclass
class Job:
    """One attempt to run a job, with its runner."""

    world: World
    job_id: int
    attempt: int
    request: JobRequest
    token: str
    nodes: list[str] = field(default_factory=list)
    started: bool = False
    ready: bool = False
    ended: Ending | None = None
    terminated: bool = False
    seen: set[int] = field(default_factory=set)
    outcomes: list[wire.Outcome] = field(default_factory=list)
    losses: list[wire.Lost] = field(default_factory=list)
    session: Session | None = None

    @property
    def connects(self) -> bool:
        return self.request.resilient or self.request.job_class == "malleable"

    @property
    def key(self) -> str:
        return f"{self.job_id}.{self.attempt}"

    @property
    def server(self) -> JobServer:
        return self.world.driver.job_orders.server

    # what it says and hears

    def say(self, message: wire.Message) -> None:
        if self.session is not None and not self.world.dead:
            for action in self.session.receive(wire.encode(message), 0.0):
                self.perform(action)

    def perform(self, action: object) -> None:
        match action:
            case Heard() | Trespassed():
                self.world.driver.job_orders._heard(action)
            case Attach():
                self.server._attached[self.job_id] = self  # type: ignore[assignment]  # a stand-in
            case Send(message=message):
                self.send(message)
            case _:
                raise AssertionError(action)

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
        self.session = Session(self.server.links, self.world.config.limits, 0.0)
        self.say(wire.Hello(version=wire.PROTOCOL_VERSION, job=self.job_id, token=self.token))
        if self.ready:
            self.say(wire.Ready(nodes=tuple(self.nodes)))
        for said in (*self.outcomes[-8:], *self.losses):
            self.say(said)

    def get_ready(self) -> None:
        if self.ended is None:
            self.ready = True
            self.say(wire.Ready(nodes=tuple(self.nodes)))

    def answer(self, order: wire.Grow | wire.Shrink) -> None:
        if self.ended is not None:
            return
        grows = isinstance(order, wire.Grow)
        kind: Any = "grow" if grows else "shrink"
        if self.world.rng.random() < 0.05 or not (grows or order.count < len(self.nodes)):
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

    # how it goes on

    def run(self) -> None:
        if self.ended is not None:
            return
        self.started = True
        self.world.later(self.end)
        if self.connects:
            self.world.later(self.connect)
            self.world.later(self.get_ready)

    def end(self) -> None:
        if self.ended is not None:
            return
        if not self.terminated and self.world.rng.random() < 0.97:
            if self.ready and self.request.resilient and self.world.rng.random() < 0.03:
                self.ended = Ending(75, "place 0 is dead", again=True)
                return
            self.world.later(self.end)
            return
        self.ended = Ending(-15 if self.terminated else 0)

    def lose(self, node: str) -> None:
        """Its processes on a node are gone: it goes on without them, if it can, or is lost."""
        if self.ended is not None or node not in self.nodes:
            return
        if self.request.resilient and self.ready and node != self.nodes[0]:
            self.nodes.remove(node)
            self.losses.append(wire.Lost(loss=len(self.losses), nodes=(node,), reason="dead"))
            self.say(self.losses[-1])
        else:
            goes_on = self.ready and self.request.resilient
            self.ended = Ending(None, f"{node} is dead", lost=True, again=goes_on)


@dataclass
class Executor:
    """Stands for the runners' side of one scheduler."""

    world: World
    driver: Driver
    ended: set[str] = field(default_factory=set)

    def alive(self) -> bool:
        return self.world.driver is self.driver and not self.world.dead

    def start(self, facts: JobFacts, nodes: tuple[str, ...], core_ids: tuple[int, ...], endpoint: str) -> None:
        world, job_id, key = self.world, facts.spec.job_id, facts.key
        assert key not in world.retired, f"{key} is run twice"
        if key not in world.jobs:
            assert not any(job.job_id == job_id and job.ended is None for job in world.jobs.values()), f"{key} beside"
            assert world.log_state.jobs[job_id].held_by is None, f"{key} is held"
            world.jobs[key] = job = Job(world, job_id, facts.attempt, facts.alone(), world.token(key))
            world.occupy(job, nodes)
            world.later(job.run)
        job = world.jobs[key]
        world.later(lambda: self.follow(job))
        if job.started and job.connects:
            world.later(lambda: job.connect() if self.alive() else None)

    def follow(self, job: Job) -> None:
        """Report to the driver, once, what is due by now."""
        if not self.alive() or job.key in self.ended:
            return
        if job.started:
            self.driver._started(job.job_id)
        if job.ended is None:
            self.world.later(lambda: self.follow(job))
            return
        if job.session is not None:
            self.compare(job)
        self.ended.add(job.key)
        self.driver._ended(job.job_id, job.ended)

    def compare(self, job: Job) -> None:
        """See that the scheduler, which has heard all that a connected job has said, knows where it ran."""
        core = self.driver.log_state.core
        order, nodes = core.order(job.job_id), core.nodes_of(job.job_id)
        arriving = order.nodes if order is not None and order.kind == "grow" else ()
        if core.state(job.job_id) is not JobState.ENDING:  # else it does not matter any more
            assert set(nodes) - set(arriving) == set(job.nodes), (job.key, job.nodes, nodes, order)

    def end(self, job_id: int) -> None:
        for job in self.world.jobs.values():
            if job.job_id == job_id:
                job.terminated = True

    def note_segments(self, job_id: int) -> None:
        pass

    def retire(self, key: str) -> None:
        self.world.endings[key] = self.world.jobs.pop(key).ended
        self.world.retired.append(key)

    async def finish(self, within_s: float) -> None:
        pass

    def close(self) -> None:
        pass
