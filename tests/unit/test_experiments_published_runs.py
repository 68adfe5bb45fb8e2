"""The real runs of the 2024 paper in the simulator: the model by hand, and the published data where they are there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from support.outlines import fetches

from scheduler_bridge.cli.app import run
from scheduler_bridge.experiments.merit import inside
from scheduler_bridge.experiments.published_runs.cells import (
    COMPAT,
    CORRECT,
    NODES,
    Batch,
    Costs,
    RunKey,
    ends_apart_s,
    errors_of,
    measured,
    nodes_for,
    predicted,
    read_reference,
    released_s,
    replayed,
    seconds_on,
    simulated,
    span,
)
from scheduler_bridge.experiments.published_runs.study import CLAIMS, judged
from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim import SimRecord
from scheduler_bridge.sim.jobs import Sizes
from scheduler_bridge.workloads import TraceError

SCALING = {("UTS", "18"): {1: 190.0, 2: 100.0, 4: 60.0}}
COSTS = Costs(release_s=2.0, ready_s=6.0, grow_s=5.0, shrink_s=10.0)


def job(
    job_id: int = 1,
    nodes: int = 2,
    least: int | None = None,
    *,
    submit_s: float = 0.0,
    start_s: float = 0.0,
    end_s: float = 100.0,
    grows: int = 0,
) -> SimRecord:
    """A job of ``nodes`` nodes, malleable down to ``least``, as it really ran."""
    kind, lowest = ("rigid", nodes) if least is None else ("malleable", least)
    spec = JobSpec(job_id, "UTS_18", "paper", kind, nodes, lowest, nodes, 800.0, submit_s)  # type: ignore[arg-type]
    return SimRecord(spec, start_s, end_s, "completed", sizes=Sizes([(start_s, nodes)]), grows=grows)


def test_runtimes_lie_on_a_power_law_between_the_measured_ones() -> None:
    scaling = {1: 160.0, 4: 40.0, 16: 20.0}
    assert seconds_on(scaling, 4) == pytest.approx(40)
    assert seconds_on(scaling, 2) == pytest.approx(80)
    assert seconds_on(scaling, 8) == pytest.approx(40 / 2**0.5)
    assert seconds_on(scaling, 32) == pytest.approx(20 / 2**0.5)


def test_a_job_that_waits_starts_when_the_nodes_of_another_are_released() -> None:
    whole = Batch((job(1, 32), job(2, 32)))
    scaling = {("UTS", "18"): {16: 120.0, 32: 100.0}}
    ours = simulated(whole, scaling, "fcfs", COSTS)
    assert (ours["makespan_s"], ours["wait_s"], ours["runtime_s"]) == pytest.approx((202, 51, 100))
    assert ours["utilization"] == pytest.approx(100 * 204 / 202)


def test_the_release_is_the_median_of_waits_beyond_anothers_end() -> None:
    """The second and the third job waited for the first one, the fourth for nothing."""
    jobs = (job(1), job(2, start_s=101.0, end_s=180.0), job(3, start_s=103.0, end_s=180.0), job(4, end_s=102.5))
    assert released_s([Batch(jobs)]) == pytest.approx((1.0 + 0.5) / 2)


def test_ends_are_compared_job_by_job_without_those_that_failed() -> None:
    """The second starts 2 s after the first one's end, not 7."""
    scaling = {("UTS", "18"): {16: 120.0, 32: 100.0}}
    batch = Batch((job(1, 32), job(2, 32, start_s=107.0, end_s=207.0)))
    assert ends_apart_s(batch, scaling, "fcfs", COSTS) == pytest.approx([0, 5])
    failed = Batch(batch.jobs, frozenset({2}))
    assert ends_apart_s(failed, scaling, "fcfs", COSTS) == pytest.approx([0])


def test_what_is_fitted_to_half_of_the_seeds_predicts_the_other_half(data_folder: Path) -> None:
    halves = list(predicted(read_reference(data_folder), shares=(0,), seeds=range(42, 46), replicas=1))
    seeds = [{one.key.seed for cell in cells.values() for one in cell.runs} for _, cells in halves]
    assert seeds == [{42, 44}, {43, 45}]
    first, second = (costs.release_s for costs, _ in halves)
    assert first != second
    assert [first, second] == pytest.approx([1.75, 1.75], abs=0.1)
    assert all(abs(cell.error("makespan_s") or 0.0) < 5 for _, cells in halves for cell in cells.values())


def test_a_job_whose_resize_failed_takes_as_long_as_it_did() -> None:
    batch = Batch((job(1, 4, 1, end_s=300.0),), frozenset({1}))
    ours = simulated(batch, SCALING, "malleable-compat", COSTS)
    assert (ours["runtime_s"], ours["grows"], ours["shrinks"]) == pytest.approx((300, 0, 0))


def test_nodes_that_a_failed_resize_left_idle_are_held_but_not_used() -> None:
    """It held 16 nodes and computed as on 4, for 400 s; another job, which needs 20 of the 32, waited for its end."""
    scaling = {("UTS", "18"): {4: 400.0, 16: 100.0, 32: 50.0}}
    stuck = job(1, 16, 2, end_s=400.0)
    ours = simulated(Batch((stuck, job(2, 20)), frozenset({1})), scaling, "malleable-compat", COSTS)
    assert ours["wait_s"] == pytest.approx((0 + 402) / 2, rel=0.02)
    alone = simulated(Batch((stuck,), frozenset({1})), scaling, "malleable-compat", COSTS)
    assert alone["utilization"] == pytest.approx(100 * 4 * 402 / (32 * 400))


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 11, 32])
def test_the_nodes_for_a_runtime_are_the_inverse_of_the_runtime(nodes: int) -> None:
    scaling = {1: 160.0, 4: 45.0, 16: 20.0}
    assert nodes_for(scaling, seconds_on(scaling, nodes)) == pytest.approx(nodes)
    assert nodes_for(scaling, 1000.0) == 1.0


def least_nodes(job: SimRecord) -> int:
    """A job never held fewer."""
    return job.spec.min_nodes if job.shrinks or job.grows else job.sizes[0][1]


def test_the_published_runs_left_stuck_jobs_their_nodes(data_folder: Path) -> None:
    """What the replay of failed resizes rests on: at every start meanwhile the other jobs fit into the rest."""
    stuck = exact = 0
    for batch in read_reference(data_folder).runs.values():
        for one in filter(batch.is_stuck, batch.jobs):
            _, start_s, end_s = span(one)
            others = [(*span(other), least_nodes(other)) for other in batch.jobs if other is not one]
            held = [
                sum(least for _, from_s, to_s, least in others if from_s <= at_s < to_s)
                for _, at_s, *_ in others
                if start_s < at_s < end_s
            ]
            ((_, nodes),) = one.sizes
            assert max(held, default=0) <= NODES - nodes, one
            stuck += 1
            exact += max(held, default=0) == NODES - nodes
    assert (stuck, exact) == (14, 4)


def test_orders_cost_what_they_cost() -> None:
    scaling = {("UTS", "18"): {1: 3200.0, 32: 100.0}}
    ours = simulated(Batch((job(1, 32, 1), job(2, 16, submit_s=20.0))), scaling, "malleable-compat", COSTS)
    assert ours["shrinks"] == 1
    assert ours["wait_s"] == pytest.approx(10 / 2, abs=0.1)


def test_measured_runs_know_no_utilization_where_jobs_were_resized() -> None:
    real = measured([job(1), job(2, submit_s=50.0, start_s=60.0, end_s=160.0)], COSTS)
    assert (real["makespan_s"], real["turnaround_s"], real["wait_s"]) == (160, 105, 5)
    assert real["utilization"] == pytest.approx(100 * 2 * 204 / (32 * 160))
    assert "utilization" not in measured([job(grows=1)], COSTS)


def test_missing_and_broken_data_are_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"jobs.csv: not there"):
        read_reference(tmp_path)
    folder = tmp_path / "reference/real-runs-32-nodes"
    folder.mkdir(parents=True)
    (folder / "jobs.csv").write_text("strategy,malleable_percent\nFCFS,0\n")
    with pytest.raises(TraceError, match=r"jobs.csv: KeyError"):
        read_reference(tmp_path)
    (folder / "jobs.csv").write_text("strategy,malleable_percent\nFCFS,none\n")
    with pytest.raises(TraceError, match=r"jobs.csv: ValueError"):
        read_reference(tmp_path)
    for empty in ("jobs.csv", "strong_scaling.csv"):
        (folder / empty).write_text("program\n")
    (folder / "AverageNodeUtilization.csv").write_text("malleable,FCFS\n0,much\n")
    with pytest.raises(TraceError, match=r"AverageNodeUtilization.csv: ValueError"):
        read_reference(tmp_path)


def test_the_published_runs_are_distinguished(data_folder: Path) -> None:
    reference = read_reference(data_folder)
    assert len(reference.runs) == 240
    assert all(len(batch.jobs) == 25 for batch in reference.runs.values())
    assert RunKey("MalleableStrategy", 100, 47, 1) in reference.runs
    assert sum(len(batch.failed) for batch in reference.runs.values()) == 24


def test_a_few_real_runs_are_met_within_five_percent(data_folder: Path) -> None:
    reference, seeds = read_reference(data_folder), (42, 45, 46, 47)
    compat = replayed(reference, COMPAT, shares=(0, 40), seeds=seeds)
    assert len(compat) == 8
    for cell in compat.values():
        for name in ("makespan_s", "turnaround_s"):
            error = cell.error(name, sound=True)
            assert error is not None
            assert abs(error) < 5, (cell.strategy, cell.share, name)
    correct = replayed(reference, CORRECT, shares=(0,), seeds=seeds)
    gain = correct["EasyBackfilling", 0].means("wait_s")
    assert gain[0] is not None
    assert gain[1] is not None
    assert gain[1] < 0.8 * gain[0]  # a correct EASY waits less than the published one


@pytest.mark.slow
def test_all_real_runs_are_met(data_folder: Path) -> None:
    shares, seeds = range(0, 101, 20), range(42, 52)
    errors = errors_of(replayed(read_reference(data_folder), COMPAT, shares=shares, seeds=seeds, replicas=2))
    assert inside(errors) == len(errors) == 96


def test_the_command_writes_tables_figures_and_a_page(
    data_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["experiment", "real-runs-simulated", "--data", str(data_folder), "--out", str(tmp_path / "out"), "--json"]
    assert run(words) == 0
    result = json.loads(capsys.readouterr().out)
    assert {row["malleable %"] for row in result["tables"]["means"]} == {0, 60, 100}
    assert "makespan s error %" in result["tables"]["batches"][0]
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<svg") == 2
    assert fetches(page) == []
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "batches.csv",
        "batches.png",
        "claims.csv",
        "correct-policies.csv",
        "means.csv",
        "means.png",
        "report.html",
        "results.json",
    }


def test_mistakes_are_explained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["experiment", "nothing"]) == 2
    assert "unknown experiment" in capsys.readouterr().err
    assert run(["experiment", "real-runs-simulated", "--data", str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith("jobs.csv: not there\nthe published data have this file\ngive --data DIR\n")
    assert run(["experiment"]) == 0
    assert "real-runs-simulated" in capsys.readouterr().out


def test_the_claims_of_the_paper_are_judged(data_folder: Path) -> None:
    assert len(CLAIMS["claim"]) >= 12
    reference, shares, seeds = read_reference(data_folder), (0, 20, 100), (45, 46, 49)
    verdicts = judged(*(replayed(reference, of, shares=shares, seeds=seeds) for of in (COMPAT, CORRECT)))
    assert len(verdicts) == len(CLAIMS["claim"])
    by_text = {verdict.text: verdict for verdict in verdicts}
    best = by_text["makespan: 13.09 % less than the best for rigid jobs"]
    assert best.printed == pytest.approx(-13.07, abs=0.05)
    assert isinstance(best.found, float)
    assert best.found < -5
    assert best.word in {"held", "right direction"}
    assert all(bool(verdict.reason) == (verdict.word != "held") for verdict in verdicts)
    most = by_text["the malleable algorithm gains most utilization of all policies"]
    assert all(policy in str(most.found) for policy in ("FCFS", "Backfilling", "EasyBackfilling", "MalleableStrategy"))
