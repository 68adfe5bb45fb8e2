"""What records of real jobs that share nodes say, by hand; and the campaigns."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from scheduler_bridge.cli.app import run as malleable
from scheduler_bridge.experiments.real_runs.campaign import ARGUMENTS, RunKey
from scheduler_bridge.experiments.sd_real import study
from scheduler_bridge.experiments.sd_real.study import CAMPAIGNS, SHARED, STATIC, Meetings, conclude, meetings
from scheduler_bridge.record import JobRecord, RunRecord, Segment

NODES = ("n1", "n2")


def _job(number: int, submit_s: float, *segments: Segment) -> JobRecord:
    start_s, end_s = segments[0].from_s, segments[-1].to_s
    return JobRecord(
        number, f"UTS_18-{number}", "me", "malleable", 2, 2, 2, 60.0, submit_s, (), start_s, end_s, "completed", "",
        list(segments), [], {}, True,
    )  # fmt: skip


def _record(policy: str, *jobs: JobRecord) -> RunRecord:
    cpu = {"cores": 2, "seconds": 1.0, "share": 0.1, "others_share": None, "worst_lag_s": 0.0, "given_up_s": 0.0}
    return RunRecord(policy, list(NODES), end_s=20.0, jobs=list(jobs), provenance={"cpu": cpu})


STATIC_RUN = _record(
    STATIC, _job(1, 0.0, Segment(0.0, 10.0, NODES)), _job(2, 2.0, Segment(10.0, 12.0, NODES))
)  # fmt: skip
SHARED_RUN = _record(
    SHARED,
    _job(1, 0.0, Segment(0.0, 2.0, NODES), Segment(2.0, 6.0, NODES, 0.5), Segment(6.0, 12.0, NODES)),
    _job(2, 2.0, Segment(2.0, 6.0, NODES, 0.5, is_guest=True)),
)
RECORDS = {RunKey(STATIC, 100, 1): STATIC_RUN, RunKey(SHARED, 100, 1): SHARED_RUN}


def test_roles_and_changes_of_cores_by_hand() -> None:
    mate, guest = SHARED_RUN.jobs
    assert (study.is_mate(mate), study.is_guest(mate), study.changes(mate)) == (True, False, 2)
    assert (study.is_mate(guest), study.is_guest(guest), study.changes(guest)) == (False, True, 0)
    assert (study.shared_s(mate), study.shared_s(guest)) == (4.0, 4.0)


def test_the_figures_of_merit_by_hand() -> None:
    found = study.by_policy(RECORDS)
    assert found[STATIC]["response_s"] == pytest.approx((10 + 10) / 2)
    assert found[STATIC]["slowdown"] == pytest.approx((1 + 5) / 2)
    assert found[SHARED]["response_s"] == pytest.approx((12 + 4) / 2)
    assert found[SHARED]["slowdown"] == pytest.approx((1.2 + 2) / 2), "by what the job took under static backfill"
    assert (found[SHARED]["guests"], found[SHARED]["mates"], found[SHARED]["orders"]) == (50, 50, 2)
    # two nodes are busy for 12 s under both, at 350 W
    assert found[SHARED]["energy_wh"] == pytest.approx(found[STATIC]["energy_wh"]) == pytest.approx(24 * 350 / 3600)
    assert study.gained(found, "response_s") == pytest.approx(-20)


def _met(*jobs: JobRecord) -> Meetings:
    return meetings([_record(SHARED, *jobs)])


def test_jobs_that_had_a_core_in_common_are_found() -> None:
    mate = _job(
        1, 0.0,
        Segment(0.0, 2.0, NODES, core_ids=("0-3",)), Segment(2.0, 6.0, NODES, 0.5, core_ids=("0-1",)),
        Segment(6.0, 12.0, NODES, core_ids=("0-3",)),
    )  # fmt: skip
    guest = _job(2, 2.0, Segment(2.0, 6.0, NODES, 0.5, is_guest=True, core_ids=("2-3", "3")))
    assert _met(mate, guest) == Meetings(2, 0, ())
    late = _met(mate, _job(2, 2.0, Segment(2.0, 6.5, NODES, 0.5, core_ids=("2-3", "3"))))
    assert late.apart == 2
    common = ("[2, 3] of n1", "[3] of n2")
    assert late.clashes == tuple(f"jobs 1 and 2 both had the cores {cores} at 6.0 s." for cores in common)
    assert _met(*SHARED_RUN.jobs) == Meetings(0, 2, ())
    assert _met(*SHARED_RUN.jobs).said().endswith("; of 2 times the records do not have the cores.")


def test_a_core_in_common_fails_the_experiment() -> None:
    both = _record(SHARED, *(_job(n, 0.0, Segment(0.0, 4.0, NODES, 0.5, n > 1, core_ids=("1",))) for n in (1, 2)))
    report = conclude(CAMPAIGNS["tiny"], {**RECORDS, RunKey(SHARED, 100, 1): both})
    assert not report.passed
    assert "jobs 1 and 2 both had the cores [1] of n1 at 0.0 s." in report.remarks


def test_claims_are_judged_by_batches_that_are_large_enough() -> None:
    found = study.by_policy(RECORDS)
    verdicts = study.judged(found, enough=True)
    by_text = {verdict.text: (verdict.printed, verdict.found, verdict.word, verdict.reason) for verdict in verdicts}
    assert by_text["average response time decreases by about 16 %"] == ("-16.0 %", "-20.0 %", "held", "")
    assert by_text["539 of 2,000 jobs, 27 %, are scheduled with malleability"][2] == "differs"
    # makespan and energy stay as they are: that is no fall
    assert [verdict.word for verdict in verdicts] == ["differs", "held", "differs", "differs", "differs"]
    assert {verdict.word for verdict in study.judged(found, enough=False)} == {"not judged"}


def test_a_wrong_result_or_nobody_who_shares_fails_the_experiment() -> None:
    campaign = CAMPAIGNS["tiny"]
    assert conclude(campaign, RECORDS).passed
    alone = {**RECORDS, RunKey(SHARED, 100, 1): STATIC_RUN}
    assert not conclude(campaign, alone).passed
    SHARED_RUN.jobs[1].verified = False
    try:
        assert not conclude(campaign, RECORDS).passed
    finally:
        SHARED_RUN.jobs[1].verified = True


@pytest.mark.parametrize("scale", ["tiny", "small"])
def test_the_plans_fit_their_nodes(scale: str) -> None:
    campaign = {str(name): campaign for name, campaign in CAMPAIGNS.items()}[scale]
    for key in campaign.runs():
        batch = campaign.batch(key)
        assert len(batch) == campaign.jobs
        assert all(job.is_malleable and job.min_nodes == job.max_nodes <= campaign.nodes for job in batch)
        assert {job.name for job in batch} <= set(campaign.problems()) <= set(ARGUMENTS)
        assert all(campaign.walltime_s(job) > job.runtime_s for job in batch)
    assert {key.policy for key in campaign.runs()} == {STATIC, SHARED}


def test_the_command_tells_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert malleable(["experiment", "sd-real", "--scale", "tiny"]) == 2
    assert "give --out DIR" in capsys.readouterr().err
    assert malleable(["experiment", "sd-real", "--scale", "full", "--out", str(tmp_path)]) == 2
    assert "sd-real has no scale full" in capsys.readouterr().err
