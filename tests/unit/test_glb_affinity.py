"""How the places of a machine share out its cores."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from numbered import Numbers, Total
from support import PATIENCE_S

import apgas
import glb
from apgas.testing.pytest_plugin import MakeJob
from glb import affinity
from glb.affinity import Home, shares

FOUR = (0, 1, 2, 3)


def homes(*machines: tuple[str, tuple[int, ...]]) -> dict[int, Home]:
    return {place: Home(name, 100 + place, cores) for place, (name, cores) in enumerate(machines)}


def test_places_of_a_machine_get_parts_in_proportion_to_their_workers() -> None:
    assert shares(homes(*[("a", FOUR)] * 2), {0: 1, 1: 1}) == {0: (0, 1), 1: (2, 3)}
    assert shares(homes(*[("a", FOUR)] * 2), {0: 1, 1: 3}) == {0: (0,), 1: (1, 2, 3)}
    assert shares(homes(*[("a", (2, 5, 7))] * 2), {0: 1, 1: 1}) == {0: (2,), 1: (5, 7)}


def test_places_that_do_not_fit_or_are_alone_keep_what_they_have() -> None:
    assert shares(homes(*[("a", FOUR)] * 2), {0: 2, 1: 3}) == {0: (), 1: ()}
    assert shares(homes(("a", FOUR), ("b", FOUR)), {0: 1, 1: 4}) == {0: (), 1: ()}


def test_a_tighter_mask_of_the_launcher_is_left_alone() -> None:
    masks = [("a", (0, 1)), ("a", (0, 1)), ("a", (2, 3)), ("a", FOUR)]
    assert shares(homes(*masks), dict.fromkeys(range(4), 1)) == {0: (0,), 1: (1,), 2: (), 3: ()}


def test_simulated_places_of_one_process_share_nothing_out() -> None:
    assert shares({0: Home("a", 1, FOUR), 1: Home("a", 1, FOUR)}, {0: 1, 1: 1}) == {0: (), 1: ()}


@pytest.mark.parametrize("cores", range(1, 30))
def test_parts_never_overlap_and_are_large_enough(cores: int) -> None:
    for places in range(2, cores + 1):
        workers = {place: 1 + place % 3 for place in range(places)}
        found = shares(homes(*[("a", tuple(range(cores)))] * places), workers)
        if sum(workers.values()) > cores:
            assert set(found.values()) == {()}
            continue
        assert sorted(core for part in found.values() for core in part) == list(range(cores))
        assert all(len(found[place]) >= workers[place] for place in workers)


def compute(orders: int) -> None:
    """Computes until that many orders have ended."""
    while not orders or len(apgas.resizes()) < orders:
        glb.compute(Numbers([1], 500), Total, glb.Config(granularity=10))
        if not orders:
            return


Used = list[tuple[int, tuple[int, ...]]]


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> Used:
    """What places were let run on, on a machine of four cores; in reality they share a process."""
    found: Used = []
    monkeypatch.setattr(affinity, "_set", lambda cores: found.append((apgas.here().id, cores)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(FOUR))
    return found


def ask(monkeypatch: pytest.MonkeyPatch, cores: str, bind: str = "1") -> None:
    monkeypatch.setenv("MALLEABLE_CORE_IDS", cores)
    monkeypatch.setenv("MALLEABLE_BIND_CORES", bind)


def test_places_are_bound_to_the_cores_of_the_job_from_order_to_order(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch, used: Used
) -> None:
    ask(monkeypatch, "0-1")
    job = apgas_job(compute, 2, places=2)
    orders = [job.workers(2, core_ids="2-3"), job.workers(1, core_ids="7")]
    job.run()
    assert by_place(used) == {0: [(0, 1), (2, 3)], 1: [(0, 1), (2, 3)]}
    assert [order.wait().outcome for order in orders] == ["done", "refused"]
    assert "is to compute on cores [7] only, but may use [0, 1, 2, 3]" in orders[1].wait().reason


def by_place(used: Used) -> dict[int, Sequence[tuple[int, ...]]]:
    return {place: [cores for one, cores in used if one == place] for place in {place for place, _ in used}}


def test_ids_are_only_passed_on_where_binding_is_not_asked_for(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch, used: Used
) -> None:
    ask(monkeypatch, "7", bind="")
    job = apgas_job(compute, 1)
    order = job.workers(2, core_ids="70-71")
    job.run()
    assert order.wait().outcome == "done"
    assert used == []


@pytest.mark.parametrize(
    ("cores", "here", "story"),
    [("3-4", set(FOUR), r"cores \[3, 4\] only, but may use \[0, 1, 2, 3\]"), ("0", set[int](), "binds no process")],
)
def test_a_place_refuses_cores_that_it_may_not_use(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch, used: Used, cores: str, here: set[int], story: str
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: here)
    ask(monkeypatch, cores)
    with pytest.raises(ExceptionGroup) as failed:
        apgas_job(compute, 0).run()
    assert failed.group_contains(glb.GlbError, match=story)
    assert used == []


def test_a_bound_job_has_as_many_workers_as_cores(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch, used: Used
) -> None:
    ask(monkeypatch, "1-3")
    found = apgas_job(lambda: glb.compute(Numbers([1], 50), Total).workers, places=1).run()
    assert found == 3
    assert used == [(0, (1, 2, 3))]


@pytest.mark.skipif(affinity.waited_s() == 0.0, reason="the system does not say how long threads wait for a core")
def test_a_thread_knows_how_long_it_has_waited_for_a_core() -> None:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    rival = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        began_s, before_s, cpu_s = time.monotonic(), affinity.waited_s(), time.thread_time()
        while (waited_s := affinity.waited_s() - before_s) < 0.05 and time.monotonic() < began_s + PATIENCE_S:
            pass
        cpu_s, seconds = time.thread_time() - cpu_s, time.monotonic() - began_s
    finally:
        rival.kill()
        rival.wait()
        os.sched_setaffinity(0, cores)
    assert waited_s >= 0.05
    assert waited_s + cpu_s <= seconds + 0.01, "it does not wait while it computes"


def test_a_system_that_counts_no_waiting_counts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affinity, "_SCHEDULED", Path("/nowhere"))
    assert affinity.waited_s() == 0.0
