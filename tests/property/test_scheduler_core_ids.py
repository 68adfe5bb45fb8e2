"""Jobs that share nodes have cores of their own, whatever becomes of orders: seen from events and effects only."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_bridge import policies
from scheduler_bridge.core import UP, SchedulerCore, Settings
from scheduler_bridge.core.events import (
    CancelJob,
    Effect,
    Event,
    JobEnded,
    JobInterrupted,
    JobStarted,
    JobSubmitted,
    MalleableReady,
    NodesLost,
    ResizeFailed,
    SendOrder,
    StartJob,
    WakeUp,
    WorkersChanged,
)
from scheduler_bridge.core.node_sharing import Sharing
from scheduler_bridge.model import JobSpec

NODES = ("a", "b", "c", "d")


class Machine:
    """Jobs that carry out orders, or do not; they know their cores by the orders alone.

    A job that is ordered to use others may use those and the ones before until it has answered.
    """

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now = 0.0
        self.cores = rng.choice([2, 3, 4, 48])
        policy = policies.get("sd-policy", max_slowdown="inf", mates=2, jobs_per_node=rng.choice([2, 3]))
        settings = Settings(cores_per_node=self.cores, failure_backoff_s=float(rng.choice([0, 20])))
        self.core = SchedulerCore(NODES, policy, settings)
        self.uses: dict[int, dict[str, int]] = {}
        self.before: dict[int, dict[str, int]] = {}
        self.orders: dict[int, SendOrder] = {}
        self.shared = 0

    def step(self, job_id: int) -> None:
        """Let something happen."""
        self.now += self.rng.choice([0.0, 1.0, 30.0])
        open_jobs = sorted(self.uses)
        choice = self.rng.random()
        if choice < 0.3 or not open_jobs:
            nodes = self.rng.randint(1, 3)
            walltime_s = float(self.rng.randint(50, 4000))
            self.report(JobSubmitted(JobSpec(job_id, "j", "u", "malleable", nodes, nodes, nodes, walltime_s, self.now)))
        elif choice < 0.7 and self.orders:
            self.answer(self.rng.choice(sorted(self.orders)))
        elif choice < 0.85:
            self.end(self.rng.choice(open_jobs))
        elif choice < 0.93:
            self.lose(self.rng.choice(open_jobs))
        elif choice < 0.95:
            self.interrupt(self.rng.choice(open_jobs))
        elif choice < 0.97:
            self.report(CancelJob(self.rng.randrange(job_id + 1)))
        else:
            self.report(WakeUp())

    def answer(self, job_id: int) -> None:
        """It has carried out the order, or goes on as before."""
        order = self.orders.pop(job_id)
        done = self.rng.random() < 0.7
        ordered = dict(zip(order.nodes, order.core_ids, strict=True))
        kept = ordered if done else self.before[job_id]
        self.uses[job_id] = {node: kept[node] for node in self.uses[job_id]}
        self.report(WorkersChanged(job_id, order.order) if done else ResizeFailed(job_id, order.order, "no"))

    def end(self, job_id: int) -> None:
        """It ends."""
        del self.uses[job_id]
        self.orders.pop(job_id, None)
        self.report(JobEnded(job_id, "completed"))

    def interrupt(self, job_id: int) -> None:
        """Nothing of it is left, and it is started again."""
        if self.core.state(job_id) not in UP:  # it is over its time
            self.end(job_id)
            return
        self.orders.pop(job_id, None)
        held, self.uses[job_id] = set(self.uses[job_id]), {}
        self.report(JobInterrupted(job_id, "place 0 was lost"))
        assert set(self.uses[job_id]) == held

    def lose(self, job_id: int) -> None:
        """It goes on without one of its nodes."""
        if len(self.uses[job_id]) > 1:
            lost = self.rng.choice(sorted(self.uses[job_id]))
            del self.uses[job_id][lost]
            self.report(NodesLost(job_id, (lost,), "its place died"))

    def report(self, event: Event) -> None:
        """Let the core know, and do what it wants."""
        if isinstance(event, CancelJob) and event.job_id in self.uses:
            return
        for effect in self.core.handle(event, self.now):
            self.carry_out(effect)
        self.core.check()
        self.look()

    def carry_out(self, effect: Effect) -> None:
        """Start jobs, and give them orders, of which some come to an end only later."""
        if isinstance(effect, StartJob):
            ids = effect.core_ids or [(1 << self.cores) - 1] * len(effect.nodes)
            self.uses[effect.job_id] = dict(zip(effect.nodes, ids, strict=True))
            self.shared += bool(effect.core_ids)
            self.look()
            self.report(JobStarted(effect.job_id))
            self.report(MalleableReady(effect.job_id))
        elif isinstance(effect, SendOrder):
            self.orders[effect.job_id], self.before[effect.job_id] = effect, dict(self.uses[effect.job_id])
            for node, cores in zip(effect.nodes, effect.core_ids, strict=True):
                self.uses[effect.job_id][node] |= cores
            self.look()

    def look(self) -> None:
        """No core is used twice, and none that there is not."""
        for node in NODES:
            used = 0
            for job_id, its in self.uses.items():
                assert not used & its.get(node, 0), f"job {job_id} uses a core of {node} that another one uses"
                used |= its.get(node, 0)
            assert used < 1 << self.cores


def play(rng: Random, steps: int = 60) -> int:
    machine = Machine(rng)
    for job_id in range(steps):
        machine.step(job_id)
    return machine.shared


@given(st.randoms(use_true_random=False))
def test_no_core_is_used_twice(rng: Random) -> None:
    play(rng)


def test_such_jobs_do_share_nodes() -> None:
    assert sum(play(Random(seed)) for seed in range(20)) > 20


def test_a_core_that_is_used_twice_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    # The book itself stays consistent: only the orders to jobs are wrong.
    right = Sharing.per_node
    monkeypatch.setattr(
        Sharing,
        "per_node",
        lambda self, job, changes=(): [
            (ranks, (1 << cores.bit_count()) - 1) for ranks, cores in right(self, job, changes)
        ],
    )
    with pytest.raises(AssertionError, match="that another one uses"):
        play(Random(0), steps=1000)
