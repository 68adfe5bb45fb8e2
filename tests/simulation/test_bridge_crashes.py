"""A scheduler that dies at any step, thousands of times: the jobs, which live on, never notice more than a lost line.

Where it dies is drawn from a seed, as is what happens (``support.crashes``).
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import Any

import pytest
from support.crash_jobs import ATTEMPTS
from support.crash_wishes import JOBS
from support.crashes import World, live_through
from support.dying import let_die
from support.pretended import Died

from scheduler_bridge.daemon import driver
from scheduler_bridge.daemon.control import submission
from scheduler_bridge.daemon.storage import restore

SEEDS = 25
POLICIES = ("malleable", "easy", "pref")


def nothing_lost_or_twice(world: World, seed: str) -> int:
    """See that every job has ended as it had to, after as many attempts as it had to; return the further attempts."""
    assert len(world.retired) == len(set(world.retired)), f"{seed}: run twice"
    attempts = {row.job: 0 for row in world.log_state.core.snapshot().jobs}
    events = (event for row in world.disk.log for event in json.loads(row.events))
    restarts = Counter(event["job_id"] for event in events if event["type"] == "JobInterrupted")
    for key in world.retired:
        job_id, attempt = (int(part) for part in key.split("."))
        assert attempt == attempts[job_id] + 1, f"{seed}: {key} after {attempts[job_id]} attempts"
        attempts[job_id] = attempt
    for row in world.log_state.core.snapshot().jobs:
        count = attempts[row.job]
        last = world.endings.get(f"{row.job}.{count}")
        requeue = world.requests[row.job].requeue
        ended = [world.endings[f"{row.job}.{number}"] for number in range(1, count + 1)]
        assert requeue or all(ending is not None and ending.again for ending in ended[:-1]), f"{seed}: {row}"
        count -= restarts[row.job]  # those are no attempts of their own
        assert count <= ATTEMPTS, f"{seed}: {row}"
        match row.state:
            case "completed":
                assert last is not None, f"{seed}: {row}"
                assert last.status == 0, f"{seed}: {row}"
            case "lost":
                assert last is not None, f"{seed}: {row}"
                assert (count == ATTEMPTS) >= (requeue or last.again), f"{seed}: {row}"
            case state:
                assert state == "cancelled", f"{seed}: {row}"
    return sum(max(0, count - 1) for count in attempts.values())


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(20 * SEEDS, marks=[pytest.mark.slow])])
def test_a_scheduler_may_die_at_any_step(
    policy: str, seeds: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(driver, "_FREEZE_EVERY_ROWS", 9)
    monkeypatch.setattr(submission, "check_command", lambda request: None)
    played: list[tuple[World, random.Random]] = []

    def point() -> None:
        world, dice = played[-1]
        if dice.random() < 0.08 and world.may_die():
            raise Died

    let_die(point, monkeypatch.setattr)
    crashes = orders = kept = again = held = losses = restarts = moves = 0
    for seed in range(seeds):
        world = World(seed, policy)
        played.append((world, random.Random(seed)))
        asyncio.run(live_through(world))
        crashes += world.crashes
        rows = world.log_state.core.snapshot().jobs
        assert sorted(row.job for row in rows) == list(range(1, JOBS + 1)), f"seed {seed}"
        world.log_state.core.check()
        assert world.log_state.core.pool.held == 0
        assert world.log_state.kept == set(world.log_state.jobs)
        again += nothing_lost_or_twice(world, f"seed {seed}")
        held += world.still_held
        losses += sum(row.events.count("NodesLost") for row in world.disk.log)
        restarts += sum(row.events.count("JobInterrupted") for row in world.disk.log)
        moves += sum(row.facts.count("goes_on") for row in world.disk.log)
        kept += len(world.log_state.recorder.record().advance)
        orders += sum(row.grows + row.shrinks for row in rows)
        world.disk.frozen = None
        store: Any = world.disk
        replayed, _ = restore._go_on(store, world.disk.stored())
        assert replayed.core.snapshot() == world.log_state.core.snapshot(), f"seed {seed}"
        assert replayed.recorder.record() == world.log_state.recorder.record(), f"seed {seed}"
    assert "a snapshot of the state cannot be used" not in caplog.text
    assert crashes > 10 * seeds
    assert min(kept, held, losses, restarts, moves) > seeds // 2
    assert again > 4 * seeds
    assert (orders > seeds) == (policy != "easy")
