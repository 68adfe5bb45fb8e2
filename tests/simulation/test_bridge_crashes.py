"""A scheduler that dies at any step, thousands of times: the jobs, which live on, never notice more than a lost line.

Where it dies is drawn from a seed, as is what happens (``support.crashes``).
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from support.crashes import JOBS, World, live_through
from support.pretended import Died

from scheduler_bridge.live import desk, driver, faults, restore

SEEDS = 25
POLICIES = ("malleable", "easy", "pref")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(20 * SEEDS, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_a_scheduler_may_die_at_any_step(
    policy: str, seeds: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(driver, "_FREEZE_EVERY_ROWS", 9)
    monkeypatch.setattr(desk, "check_command", lambda request: None)
    crashes = orders = kept = 0
    for seed in range(seeds):
        world = World(seed, policy)
        dice = random.Random(seed)

        def point(world: World = world, dice: random.Random = dice) -> None:
            if dice.random() < 0.08 and world.may_die():
                raise Died

        monkeypatch.setattr(faults, "point", point)
        asyncio.run(live_through(world))
        crashes += world.crashes
        rows = world.ledger.core.snapshot().jobs
        assert sorted(row.spec.job_id for row in rows) == list(range(1, JOBS + 1)), f"seed {seed}"
        assert {row.outcome for row in rows} <= {"completed", "cancelled"}, f"seed {seed}"
        world.ledger.core.check()
        assert world.ledger.kept == {job_id for job_id, job in world.ledger.jobs.items() if not job.admitted}
        assert world.ledger.core.held_nodes == 0
        assert len(world.retired) == len(set(world.retired)), f"seed {seed}: run twice"
        assert all(key.endswith(".1") for key in world.retired)
        assert all(not job.admitted for job in world.ledger.jobs.values())
        assert set(world.retired) >= {f"{row.spec.job_id}.1" for row in rows if row.outcome == "completed"}
        kept += len(world.ledger.recorder.record().advance)
        orders += sum(row.grows + row.shrinks for row in rows)
        world.disk.frozen = None
        assert world.disk.era is not None
        store: Any = world.disk
        replayed = restore._go_on(store, 1, world.disk.era).ledger
        assert replayed.core.snapshot() == world.ledger.core.snapshot(), f"seed {seed}"
        assert replayed.recorder.record() == world.ledger.recorder.record(), f"seed {seed}"
    assert "a snapshot of the state cannot be used" not in caplog.text
    assert crashes > 10 * seeds
    assert kept > seeds // 2
    assert (orders > seeds // 2) == (policy != "easy")
