"""The balancer on real places: every task once, whatever joins, leaves or fails."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support import Leftovers, mpirun

from benchmarks.harness import machine_code
from benchmarks.harness.jit import has_numba

pytestmark = pytest.mark.essential

PROGRAM = Path(__file__).parent / "programs" / "glb_program.py"


def run(leftovers: Leftovers, places: int, *words: str) -> dict[str, Any]:
    job = mpirun(places, [PROGRAM, *words])
    assert job.rc == 0, job.err
    leftovers.check(job.mark)
    facts: dict[str, Any] = json.loads(job.out.splitlines()[-1])
    assert facts["right"] is True, facts
    return facts


@pytest.mark.parametrize("places", [1, 3])
def test_every_task_is_done_once(places: int, leftovers: Leftovers) -> None:
    facts = run(leftovers, places, "steady")
    assert facts["took_part"] == list(range(places))


@pytest.mark.parametrize(
    ("orders", "limit", "workers"),
    [
        ("0.1:+2,0.2:-3,0.3:+1,0.4:-1", 20_000, 2),
        # hundreds of short computations, so that orders fall on every phase of them
        ("0.01:+1,0.02:-2,0.03:+2,0.04:-1,0.05:-1,0.06:+3,0.07:-2", 1000, 1),
    ],
    ids=["long", "short"],
)
def test_orders_lose_and_double_nothing(orders: str, limit: int, workers: int, leftovers: Leftovers) -> None:
    facts = run(leftovers, 3, "elastic", orders, str(limit), str(workers))
    assert [outcome for _, _, outcome, _ in facts["resizes"]] == ["done"] * orders.count(":"), facts
    assert facts["places"][0] == 0
    assert facts["last"] is True
    assert facts["worked"] == facts["places"]


def test_searches_are_exact_under_orders(leftovers: Leftovers) -> None:
    orders = "0.1:+2,0.5:-3,0.9:+2,1.3:-1,1.7:+1,2.1:-2"
    job = mpirun(3, [PROGRAM.with_name("searching.py"), orders])
    assert job.rc == 0, job.err
    leftovers.check(job.mark)
    facts = json.loads(job.out.splitlines()[-1])
    assert facts["wrong"] == []
    assert facts["outcomes"] == ["done"] * orders.count(":")


def test_workers_change_while_places_come_and_go(leftovers: Leftovers) -> None:
    facts = run(leftovers, 2, "more_and_fewer", "0.1:+1,0.3:-1,0.5:+1")
    assert [outcome for _, _, outcome, _ in facts["resizes"]] == ["done"] * 3
    assert facts["changed"] >= 10
    assert facts["last"] is True


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core cannot be shared out")
def test_places_compute_on_cores_of_their_own(leftovers: Leftovers) -> None:
    all_cores = sorted(os.sched_getaffinity(0))
    facts = run(leftovers, 2, "located", "on")
    first, second = ({core for cores in seen for core in cores} for seen in facts["seen"])
    assert first
    assert second
    assert not first & second
    assert sorted(first | second) == all_cores
    assert facts["free"] == [all_cores, all_cores]
    # nothing is shared out where it is not wanted, nor where there are more workers than cores
    assert run(leftovers, 2, "located", "off")["seen"] == [[all_cores], [all_cores]]
    assert run(leftovers, len(all_cores) + 1, "located", "on")["seen"] == [[all_cores]] * (len(all_cores) + 1)


@pytest.mark.skipif(not has_numba(), reason="there is nothing to compile")
def test_one_place_compiles_and_the_others_load(leftovers: Leftovers, tmp_path: Path) -> None:
    program = PROGRAM.with_name("compiling.py")
    # a place that joins is a member before it has loaded the kernel, and works when it has; it needs no compiler for it
    job = mpirun(2, [program, "12", "1e7", "0.1:+1"], env={"NUMBA_CACHE_DIR": str(tmp_path)})
    assert job.rc == 0, job.err
    leftovers.check(job.mark)
    facts = json.loads(job.out.splitlines()[-1])
    assert facts["right"] is True
    assert [(kind, outcome) for kind, outcome, _ in facts["resizes"]] == [("grow", "done")]
    with_compiler = machine_code._key("benchmarks.uts.vector") is None  # on other machines
    assert facts["compiled"] == [[True, 1], [with_compiler, 0], [with_compiler, 0]]
    assert min(facts["tasks"].values()) > 0


def test_an_error_stops_the_computation_and_nothing_else(leftovers: Leftovers) -> None:
    assert run(leftovers, 2, "failing")["error"] == "task 3000 is bad"


def test_a_newcomer_that_cannot_warm_up_stops_the_computation(leftovers: Leftovers) -> None:
    assert "SystemExit: too cold" in run(leftovers, 2, "joined_cold")["error"]


def test_the_programs_own_handler_is_called_and_may_choose(leftovers: Leftovers) -> None:
    facts = run(leftovers, 2, "watched")
    assert facts["calls"] == ["preGrow", "postGrow", "preShrink", "postShrink"]
    assert facts["places"] == [0, 2]


def test_a_rate_holds_and_progress_is_reported(leftovers: Leftovers) -> None:
    facts = run(leftovers, 2, "paced")
    # two workers at 4000 a second cannot be done with 2999 tasks earlier
    assert facts["seconds"] >= 0.36
    assert facts["last"] == [2999, 2, 2]
    assert facts["warmed"] == [1, 1]


def test_leavers_that_are_called_back_work_again(leftovers: Leftovers) -> None:
    facts = run(leftovers, 4, "called_back")
    assert len(facts["evacuated"]) == 2
    for leavers in facts["evacuated"]:  # who has least to do then
        assert len(leavers) == len(set(leavers)) == 2
        assert set(leavers) < {1, 2, 3}
    assert facts["after"] is True


def test_what_waits_is_stolen_during_a_long_task(leftovers: Leftovers) -> None:
    facts = run(leftovers, 3, "stolen_during_a_task")
    assert facts["took_part"] == [0, 1, 2]


def test_newcomers_get_what_waits_during_a_long_task(leftovers: Leftovers) -> None:
    facts = run(leftovers, 1, "stolen_during_a_task", "0.1:+1")
    assert [(kind, outcome) for kind, _, outcome, _ in facts["resizes"]] == [("grow", "done")]
    assert facts["took_part"] == [0, 1]


def test_a_leaver_sends_what_waits_away_during_its_long_task(leftovers: Leftovers) -> None:
    facts = run(leftovers, 2, "stolen_during_a_task", "0.1:-1", "elsewhere")
    assert [(kind, outcome) for kind, _, outcome, _ in facts["resizes"]] == [("shrink", "done")]
    assert facts["places"] == [0]
    assert facts["took_part"] == [0, 1]


def test_an_order_given_up_between_computations_changes_nothing(leftovers: Leftovers) -> None:
    facts = run(leftovers, 3, "given_up")
    assert facts["places"] == [0, 1, 2]
    assert facts["evacuated"] == 0
    assert [outcome for _, _, outcome, _ in facts["resizes"]] in (["aborted"], ["not_due"])
