"""What is made of the real runs: strong scaling, fitted costs, the simulator held against them, claims."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from scheduler_bridge.cli.app import run as cli
from scheduler_bridge.experiments.real_runs import fidelity, findings
from scheduler_bridge.experiments.real_runs.campaign import SCALING, Campaign, RunKey
from scheduler_bridge.experiments.real_runs.findings import scaling_table
from scheduler_bridge.experiments.real_runs.study import conclude, judged
from scheduler_bridge.record import JobRecord, Reserved, ResizeRecord, RunRecord, Segment
from scheduler_bridge.sim.scaling import Measured, fit, fitted_line, parse_cost

CPU = {"cores": 2, "seconds": 1.0, "share": 0.1, "others_share": 0.0, "worst_lag_s": 0.0, "given_up_s": 0.0}
NODES = ["a", "b", "c", "d"]


def job(
    job_id: int, nodes: int, start_s: float, end_s: float, computed_s: float, *, malleable: bool, name: str = "UTS_18"
) -> JobRecord:
    """A job that is submitted at 0."""
    return JobRecord(
        job_id, f"{name}-{job_id}", "me", "malleable" if malleable else "rigid", nodes, 1 if malleable else nodes,
        4 if malleable else nodes, 60.0, 0.0, (), start_s, end_s, "completed", "",
        [Segment(start_s, end_s, tuple(NODES[:nodes]))], [],
        {"seconds": computed_s, "startup": {"runtime_s": 0.5, "balancer_s": 0.1}}, True,
        start_s + 0.5 if malleable else None,
    )  # fmt: skip


def run(policy: str, jobs: list[JobRecord]) -> RunRecord:
    """A run whose jobs started a quarter of a second after the decision."""
    reserved = [Reserved("a", job.start_s - 0.25, job.start_s, job.job_id) for job in jobs if job.start_s is not None]
    end_s = max(job.end_s or 0.0 for job in jobs)
    return RunRecord(policy, NODES, end_s=end_s, jobs=jobs, reserved=reserved, provenance={"cpu": CPU})


def alone(policy: str = "fcfs") -> RunRecord:
    """Two rigid jobs one after the other: 1 s around computations of 4 s on 4 nodes and of 8 s on 2."""
    first, second = job(1, 4, 0.25, 5.25, 4.0, malleable=False), job(2, 2, 5.5, 14.5, 8.0, malleable=False)
    return run(policy, [first, second])


def test_costs_of_resizes_are_fitted_and_known_by_their_text() -> None:
    found = fit([(1, 0.3), (3, 0.5)], [(2, 0.1), (2, 0.3)])
    assert (found.grow_s, found.grow_node_s) == pytest.approx((0.2, 0.1))
    assert (found.shrink_s, found.shrink_node_s) == pytest.approx((0.2, 0.0))
    assert parse_cost(found.text) == Measured(0.2, 0.1, 0.2, 0.0)
    assert found(4, 6) == pytest.approx(0.4)
    assert fit([], [])(1, 4) == 0.0


@pytest.mark.parametrize(
    ("points", "base", "rise"),
    [([(1, 2.0), (2, 1.0)], 1.5, 0.0), ([(1, 1.0), (2, 3.0)], 0.0, 7 / 5), ([(2, 1.0), (4, 2.0)], 0.0, 0.5)],
)
def test_no_fitted_cost_is_negative_or_falls(points: list[tuple[int, float]], base: float, rise: float) -> None:
    assert fitted_line(points) == pytest.approx((base, rise))


def test_a_batch_is_simulated_as_it_was() -> None:
    key = RunKey("fcfs", 0, 42)
    costs = fidelity.fitted({key: alone()}, 0.08)
    assert [delay.launch_s for delay in costs.delays] == [0.25, 0.25]
    assert [delay.apart_s for delay in costs.delays] == pytest.approx([0.0, 0.0])
    assert costs.startup == pytest.approx((0.6, 0.0))
    assert costs.ending_s == pytest.approx(0.4)
    assert costs.working_s("UTS_18", 2) == pytest.approx(8.4)
    assert costs.working_s("UTS_18", 1) == pytest.approx(16.4)  # half the nodes, twice the time
    assert costs.working_s("BC_17", 1) == pytest.approx(120 * 0.08 + 0.4)  # never ran: as the rate has it
    (replayed,) = fidelity.replay({key: alone()}, costs)
    assert {name: replayed.mean(name) for name in replayed.real} == pytest.approx(dict(replayed.real))
    assert [error for *_, error in fidelity.errors([replayed]).values()] == pytest.approx([0.0] * 5)


def test_runtimes_spread_in_simulations_as_they_did_in_the_same_run() -> None:
    even, uneven = RunKey("fcfs", 0, 42), RunKey("fcfs", 0, 43)
    records = {even: alone(), uneven: alone()}
    records[uneven].jobs[0].end_s = 6.25  # of the two on 4 nodes one took 6 s, the other 5
    costs = fidelity.fitted(records, 0.08)
    assert costs.spread_s == pytest.approx(0.433, abs=0.01)  # one of four jobs is 1 s late
    replayed = {one.key: one for one in fidelity.replay(records, costs)}
    assert {round(makespan_s, 2) for makespan_s in replayed[even].replicas["makespan_s"]} == {14.5}
    found = {round(makespan_s, 2) for makespan_s in replayed[uneven].replicas["makespan_s"]}
    assert found == {14.5, 15.5, 16.5}  # none is late, one, or both
    assert replayed[even].replicas == fidelity.simulated(alone(), costs)
    assert replayed[even].covers("makespan_s")
    longer = replace(replayed[even], real={"makespan_s": 30.0})
    assert not longer.covers("makespan_s")
    with pytest.raises(KeyError):  # what is not known is no zero
        longer.covers("turnaround_s")


def test_what_is_missing_of_a_job_was_before_its_computation() -> None:
    whole = job(1, 4, 0.25, 5.25, 4.0, malleable=False)
    assert fidelity.started_s(whole) == pytest.approx(0.6)
    gap = job(1, 4, 0.25, 10.25, 4.0, malleable=False)  # 0.6 s of start and 4 s of computation in 10 s
    assert fidelity.started_s(gap) == pytest.approx(6.0)


def test_a_long_job_is_late_by_no_more_than_a_short_one() -> None:
    key = RunKey("fcfs", 0, 42)
    records = {key: alone(), key._replace(seed=43): alone()}
    for record in records.values():
        record.jobs.append(job(3, 4, 14.75, 915.75, 900.0, malleable=False, name="UTS_20"))
    records[key].jobs[0].end_s = 6.25
    spans = [max(found) - min(found) for found in (one.replicas["makespan_s"] for one in fidelity.replay(
        records, fidelity.fitted(records, 0.08)))]  # fmt: skip
    assert max(spans) < 5.0  # in proportion it would be minutes


def test_slower_resizes_are_simulated_with_costs_of_their_own() -> None:
    def resized(seconds: float) -> RunRecord:
        one = job(1, 2, 0.25, 10.5, 8.0, malleable=True)
        one.resizes.append(ResizeRecord(1, "grow", 2, 0.35, 0.85 + seconds, seconds, {}, "done"))  # it waits till 0.85
        return run("malleable", [one, job(2, 2, 0.25, 3.25, 2.0, malleable=False, name="Pi_8e10")])

    plain, slow = RunKey("malleable", 100, 42), RunKey("malleable", 100, 42, "injected")
    records = {plain: resized(1.0), slow: resized(4.0), RunKey("fcfs", 0, 42): alone()}
    costs = fidelity.fitted(records, 0.08)
    assert costs.resizes == Measured(1.0, 0.0, 0.0, 0.0)
    assert costs.ready_s == 0.5
    replayed = {one.key: one.mean("runtime_s") for one in fidelity.replay(records, costs)}
    assert replayed[plain] < replayed[slow]
    rows = findings.injected_table(records).rows
    assert [row[:3] for row in rows] == [(100, "as they are", 1), (100, "slower", 1)]
    assert rows[1][-2] == pytest.approx(3 * (rows[0][-2] or 0))


def test_a_run_is_repeated_decision_by_decision_from_measured_durations() -> None:
    key = RunKey("malleable", 100, 42)
    grown = job(1, 2, 0.25, 11.0, 8.0, malleable=True)
    grown.resizes.append(ResizeRecord(2, "grow", 2, 3.25, 4.0, 0.7, {}, "done"))
    record = run("malleable", [grown, job(2, 2, 0.25, 3.25, 2.0, malleable=False, name="Pi_8e10")])
    costs = fidelity.fitted({key: record, RunKey("fcfs", 0, 42): alone()}, 0.08)
    (same,) = fidelity.repeat({key: record}, costs)
    assert (same.decisions, same.same) == (3, 3)
    assert same.apart_s == pytest.approx(0.0, abs=1e-6)
    grown.resizes[0].ordered_s = 3.75  # when nothing happened
    (late,) = fidelity.repeat({key: record}, costs)
    assert (late.decisions, late.same) == (3, 2)


def test_a_decision_that_the_policy_would_not_take_is_no_repetition() -> None:
    key = RunKey("fcfs", 0, 42)
    overtaken = run("fcfs", [job(1, 3, 2.25, 5.25, 2.0, malleable=False), job(2, 2, 0.25, 1.75, 1.0, malleable=False)])
    (found,) = fidelity.repeat({key: overtaken}, fidelity.fitted({key: overtaken}, 0.08))
    assert (found.decisions, found.same) == (2, 0)


def test_strong_scaling_stands_beside_the_papers() -> None:
    two, four = scaling_table(alone(), {"UTS_18": {2: 100.0}}, 0.04).rows
    # 200 node-seconds there, 8 here: 4 s on two nodes, 2 on four
    assert two[:2] == ("UTS_18", 2)
    assert list(two[2:]) == pytest.approx([8.0, 50, 9.0, 100 / 9, 4.0])
    assert four[:3] == ("UTS_18", 4, 4.0)
    assert four[-1] is None


def test_claims_are_judged_where_their_runs_are_there() -> None:
    faster = run("malleable", [job(1, 4, 0.25, 4.25, 3.0, malleable=True)])
    verdicts = judged({RunKey("malleable", 0, 42): alone("malleable"), RunKey("malleable", 100, 42): faster})
    assert 0 < len(verdicts) < 12
    assert judged({}) == []


def test_a_report_of_a_part_says_what_is_missing() -> None:
    campaign = Campaign(("fcfs", "easy"), (0,), (42,), jobs=2, nodes=4, time=0.04, sizes=(2, 4))
    report = conclude(campaign, {RunKey("fcfs", 0, 42): alone(), SCALING: alone("backfilling")}, None, {})
    assert "1 of 3 runs still missing." in report.remarks
    assert {table.name for table in report.tables} == {
        "means", "costs", "orders", "scaling", "fidelity", "repeated", "fidelity-runs", "emulation",
    }  # fmt: skip
    assert set(report.figures) == {"means", "turnaround", "costs", "scaling", "fidelity"}
    assert "hollow ones: with slower resizes" in report.figures["fidelity"].caption
    assert any("5 of 5 means by policy and share are within 5 %" in remark for remark in report.remarks)


def test_options_for_real_runs_are_refused_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["experiment", "mebf", "--repeat-busy", "20"]) == 2
    assert "mebf does not know this option" in capsys.readouterr().err
    assert cli(["experiment", "mebf", "--launcher", "ssh"]) == 2
    assert "mebf does not know this option" in capsys.readouterr().err, "no hosts would help"
    assert cli(["experiment", "sd-real", "--report-only"]) == 2
    assert "sd-real has no --report-only" in capsys.readouterr().err


def test_without_runs_there_is_nothing_to_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["experiment", "real-runs", "--scale", "tiny", "--report-only", "--out", str(tmp_path)]) != 0
    assert "there is nothing to report" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert cli(["experiment", "mebf", "--report-only", "--out", str(tmp_path / "none")]) == 1
    assert "run it first, without --report-only" in capsys.readouterr().err
