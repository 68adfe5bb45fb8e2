"""Under every policy, whatever happens, no user gets more nodes than the limit, and every job has its turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from msgspec import structs

from scheduler_bridge import Workload, policies, simulate
from scheduler_bridge.core import Settings
from scheduler_bridge.core.events import (
    Effect,
    Event,
    GrowCompleted,
    JobEnded,
    JobSubmitted,
    ResizeFailed,
    SendOrder,
    ShrinkCompleted,
    StartJob,
    UserNodesLimited,
)
from scheduler_bridge.sim import Engine, ReplayOptions, random_scenario, replay
from scheduler_bridge.workloads import RULES, convert

SEEDS = 25


@dataclass
class Books:
    """What each job holds, by its orders and its answers."""

    limit: int
    users: dict[int, str] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)
    arriving: dict[int, int] = field(default_factory=dict)

    def watch(self, now: float, events: Sequence[Event], effects: Sequence[Effect]) -> None:
        for event in events:
            match event:
                case JobSubmitted(job=spec):
                    self.users[spec.job_id] = spec.user
                case JobEnded(job_id=job_id):
                    self.held.pop(job_id, None)
                case GrowCompleted(job_id=job_id, nodes=nodes) if job_id in self.held:
                    self.held[job_id] -= self.arriving.pop(job_id, len(nodes)) - len(nodes)
                case ResizeFailed(job_id=job_id) if job_id in self.held:
                    self.held[job_id] -= self.arriving.pop(job_id, 0)
                case ShrinkCompleted(job_id=job_id, nodes=nodes) if job_id in self.held:
                    self.held[job_id] -= len(nodes)
                case _:
                    pass
        for effect in effects:
            if isinstance(effect, StartJob):
                self.held[effect.job_id] = len(effect.nodes)
            elif isinstance(effect, SendOrder) and effect.kind == "grow":
                self.held[effect.job_id] += effect.count
                self.arriving[effect.job_id] = effect.count
        of_user: Counter[str] = Counter()
        for job_id, size in self.held.items():
            of_user[self.users[job_id]] += size
        assert not of_user or max(of_user.values()) <= self.limit, f"at {now} s: {of_user} of {self.limit}"


@pytest.mark.parametrize("policy", policies.names())
@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(20 * SEEDS, marks=[pytest.mark.slow])])
def test_no_user_gets_more(policy: str, seeds: int) -> None:
    held_back = 0
    for seed in range(seeds):
        scenario = random_scenario(seed)
        limit = 1 + seed % scenario.nodes
        settings = replace(scenario.settings, user_nodes=limit)
        books = Books(limit)
        engine = Engine(scenario.nodes, policies.get(policy), settings, observer=books.watch, check=True)
        result = engine.run(scenario.jobs, scenario.disturbances)
        for record in result.records.values():
            assert record.refused == (record.spec.min_nodes > limit), f"seed {seed}: {record}"
            why = f"seed {seed}: {record}, {books.held}"
            assert record.refused or record.end_s is not None, why
        assert not engine.core.anomalies or limit < scenario.nodes, f"seed {seed}"
        free = Engine(scenario.nodes, policies.get(policy), scenario.settings)
        held_back += result.records != free.run(scenario.jobs, scenario.disturbances).records
    assert held_back > seeds // 4


@pytest.mark.parametrize("seed", [1, 3])
@pytest.mark.parametrize("policy", ["avg", "keep-pref"])
def test_jobs_do_not_shrink_and_grow_without_end(policy: str, seed: int) -> None:
    """They did, for a job that the limit let no policy start, and for one that it let take more each time."""
    workload = Workload.generate("lublin", seed=seed, jobs=500, nodes=64, load=0.95)
    done = simulate(workload, policy, malleable=0.6, options=ReplayOptions(settings=Settings(user_nodes=40)))
    assert done.metrics["shrinks"]


@pytest.mark.parametrize(
    ("seed", "load", "share", "limit", "later"), [(4, 0.9, 0.6, 24, False), (1, 1.1, 1.0, 40, True)]
)
def test_jobs_do_not_take_turns_for_one_that_the_limit_lets_start_beside_others_only(
    seed: int, load: float, share: float, limit: int, later: bool
) -> None:
    """What others shrank for was not started when they had, for another job of its user was shown then, or was not."""
    made = convert(Workload.generate("lublin", seed=seed, jobs=400, nodes=64, load=load), share, 5, RULES["amdahl"])
    workload = replace(made, jobs=tuple(structs.replace(job, user=str(job.job_id % 3)) for job in made.jobs))
    limited = UserNodesLimited(limit)
    done = replay(
        workload,
        policies.get("best-use"),
        options=ReplayOptions(settings=Settings(user_nodes=None if later else limit)),
        disturbances=[(made.jobs[-1].submit_s / 3, limited)] if later else [],
    )
    assert all(record.end_s is not None or record.refused for record in done.result.records.values())
    assert sum(record.shrinks for record in done.result.records.values()) > 10
