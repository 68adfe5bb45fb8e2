"""The real runs: their campaign, how jobs are scaled to slow nodes, and what is made of the records."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from scheduler_bridge.backends.hosts import HostsConfig, Rules, launcher_of
from scheduler_bridge.experiments.real_runs import campaign as campaigns
from scheduler_bridge.experiments.real_runs import findings
from scheduler_bridge.experiments.real_runs.campaign import (
    ARGUMENTS,
    CAMPAIGNS,
    NODE_S,
    SCALING,
    START_UP_S,
    Campaign,
    Problem,
    RunKey,
    Site,
    calibrate,
)
from scheduler_bridge.experiments.real_runs.findings import costs_table
from scheduler_bridge.experiments.real_runs.runner import Again, Runner, all_kept, run_all
from scheduler_bridge.experiments.real_runs.study import conclude, planned
from scheduler_bridge.record import JobRecord, Reserved, ResizeRecord, RunRecord, Segment, encode_record
from scheduler_bridge.workloads import TraceError
from scheduler_bridge.workloads.generate.papers import CONFIGURATIONS
from scheduler_bridge.workloads.workload import TraceJob

CAMPAIGN = Campaign(("easy", "malleable"), (0, 60), (42, 43), jobs=2, nodes=8, time=0.1)
GROWN = ResizeRecord(1, "grow", 2, 1.0, 2.0, 0.5, {"pre": 0.1, "spawn": 0.4, "post": 0.2}, "done")

COMPUTED = {"seconds": 3.5, "startup": {"runtime_s": 0.2, "balancer_s": 0.1}}


def problem(name: str = "UTS_18") -> Problem:
    return Problem(name, 40_000, 1e5, 40_000, {"depth": 8})


def record(key: RunKey, last_end_s: float, *, verified: bool = True) -> RunRecord:
    jobs = [
        JobRecord(
            1, "UTS_18-1", "me", "malleable", 2, 1, 4, 60.0, 0.0, (), 1.0, 5.0, "completed", "",
            [Segment(1.0, 5.0, ("a", "b"))], [GROWN], COMPUTED, True,
        ),
        JobRecord(
            2, "UTS_18-2", "me", "rigid", 1, 1, 1, 60.0, 1.0, (), 2.0, last_end_s, "completed", "",
            [Segment(2.0, last_end_s, ("c",))], [], {"seconds": 1.0}, verified,
        ),
    ]  # fmt: skip
    lag_s = 0.4 if key.seed == 43 else 0.0
    cpu = {
        "cores": 2, "seconds": 3.0, "share": 0.3, "others_share": None, "worst_lag_s": lag_s, "given_up_s": 0.0,
    }  # fmt: skip
    promised = [Reserved(node, 0.6, 1.0, 1) for node in ("a", "b")] + [Reserved("c", 1.0, 2.0, 1)]
    return RunRecord(
        key.policy, ["a", "b", "c", "d"], end_s=last_end_s, jobs=jobs, reserved=promised, provenance={"cpu": cpu}
    )


def all_records() -> dict[RunKey, RunRecord]:
    return {key: record(key, 9.0 if key.policy == "malleable" else 11.0) for key in CAMPAIGN.runs()}


def test_every_configuration_of_the_paper_has_a_problem() -> None:
    assert set(ARGUMENTS) == {item.name for item in CONFIGURATIONS} == set(NODE_S)


def test_plans_cover_what_the_paper_compares() -> None:
    for campaign, batches, injected in (
        (CAMPAIGNS["small"], 3 * 6 * 4, 3 * 2),
        (CAMPAIGNS["full"], 10 * 6 * 8, 10 * 5),
    ):
        runs = campaign.runs()
        assert Counter(key.kind for key in runs) == {"batch": batches, "scaling": 1, "injected": injected}
        assert len({key.file for key in runs}) == len({key.spoken for key in runs}) == len(runs)


def test_slower_resizes_are_the_papers_in_scaled_time() -> None:
    campaign = CAMPAIGNS["small"]
    slow, plain = RunKey("malleable", 60, 42, "injected"), RunKey("malleable", 60, 42)
    assert campaign.slow_resizes(slow) == pytest.approx((6.78 * 0.08, 15.19 * 0.08))
    assert campaign.slow_resizes(plain) is None
    assert campaign.batch(slow) == campaign.batch(plain)


def test_strong_scaling_is_measured_on_all_sizes_the_longest_first() -> None:
    jobs = CAMPAIGNS["small"].batch(SCALING)
    assert len(jobs) == 11 * 6
    assert {job.nodes for job in jobs if job.name == "UTS_18"} == {1, 2, 4, 8, 16, 32}
    assert [job.runtime_s for job in jobs] == sorted((job.runtime_s for job in jobs), reverse=True)
    assert all(job.walltime_s > 2 * job.runtime_s and not job.is_malleable for job in jobs)
    assert {job.name for job in CAMPAIGNS["tiny"].batch(SCALING)} < set(CAMPAIGNS["tiny"].problems())


def test_jobs_are_no_larger_than_the_cluster_and_the_same_under_every_policy() -> None:
    easy, malleable = (CAMPAIGNS["tiny"].batch(RunKey(policy, 60, 42)) for policy in ("easy", "malleable"))
    assert easy == malleable
    assert max(job.max_nodes for job in easy) == CAMPAIGNS["tiny"].nodes
    assert CAMPAIGNS["tiny"].walltime_s(easy[0]) == pytest.approx(easy[0].walltime_s * 0.02 + START_UP_S)


def test_the_papers_own_batches_are_what_it_published(data_folder: Path) -> None:
    campaign, _ = planned("full", data_folder, published=True, second_s=0.2)
    assert campaign.time == 0.2
    batches = [campaign.batch(RunKey("fcfs", share, seed)) for share in campaign.shares for seed in campaign.seeds]
    assert {len(batch) for batch in batches} == {25}
    assert {job.name for batch in batches for job in batch} == set(ARGUMENTS) == set(campaign.problems())
    share = statistics.fmean(job.is_malleable for job in campaign.batch(RunKey("easy", 60, 45)))
    assert share == pytest.approx(0.6)
    first = campaign.batch(RunKey("malleable", 100, 45))[0]
    assert (first.name, first.min_nodes, first.max_nodes, first.submit_s) == ("UTS_20", 8, 16, 0.0)
    # another draw than ours
    assert campaign.batch(RunKey("easy", 0, 42)) != CAMPAIGNS["full"].batch(RunKey("easy", 0, 42))


def test_without_the_data_there_are_no_published_batches() -> None:
    with pytest.raises(TraceError, match="not given"):
        planned("small", published=True)


def test_a_node_is_as_slow_as_the_scale_of_time_asks() -> None:
    one = problem()
    # 200 node-seconds in the paper, 20 here: 2,000 tasks a second, a fiftieth of what a core does
    assert one.share(0.1) == pytest.approx(0.02)


def test_a_result_for_another_problem_is_not_right() -> None:
    one = problem()
    assert one.agrees({"parameters": {"depth": 8}, "result": 40_000})
    assert not one.agrees({"parameters": {"depth": 8}, "result": 39_999})
    assert not one.agrees({"parameters": {"depth": 9}, "result": 40_000})


def test_a_calibration_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = {"tasks": 10, "seconds": 2.0, "result": 7, "parameters": {}, "verified": True}
    runs = []

    def run(benchmark: str, arguments: list[str], path: Path, environment: dict[str, str]) -> object:
        assert environment["NUMBA_DISABLE_JIT"] == "1"
        runs.append(benchmark)
        path.write_text(json.dumps(document))
        return document

    monkeypatch.setattr(campaigns, "run_benchmark", run)
    first = calibrate(["UTS_18", "BC_17"], tmp_path)
    assert calibrate(["UTS_18", "BC_17"], tmp_path) == first
    assert runs == ["uts", "bc"]
    (tmp_path / "calibration-UTS_18.json").write_text('{"error": "killed"}')
    assert calibrate(["UTS_18"], tmp_path) == {"UTS_18": first["UTS_18"]}
    assert runs == ["uts", "bc", "uts"]


def hosts_of(folder: Path, *, paced: bool) -> Site:
    file = folder / "hosts.txt"
    file.write_text("a:48\nb:40\nc:48\n", encoding="utf-8")
    return Site(HostsConfig(file, launcher_of("ssh"), Rules()), paced)


def test_on_hosts_the_problems_are_the_paper_s_and_nothing_is_scaled(tmp_path: Path) -> None:
    campaign = CAMPAIGNS["small"].at(hosts_of(tmp_path, paced=False))
    assert (campaign.nodes, campaign.cores, campaign.time, campaign.paced, campaign.sizes) == (
        3,
        40,
        1.0,
        False,
        (1, 2),
    )
    runner = Runner(campaign, {}, tmp_path)
    key = RunKey("malleable", 60, 42)
    asked = [runner._request(key, job, tmp_path) for job in campaign.batch(key)]
    words = {request.name.rpartition("-")[0]: " ".join(request.command[1:]) for request in asked}
    assert words["UTS_18"].startswith("-m apgas.benchmarks.uts --depth 18 --workers {cores} --quiet --json ")
    assert words["Pi_8e10"].startswith("-m apgas.benchmarks.pi --samples 8e10 --workers {cores} ")
    assert {name.partition("_")[0] for name in words} == {"BC", "NQueens", "UTS", "Pi"}
    assert not any("--rate" in request.command or "NUMBA_DISABLE_JIT" in request.environment for request in asked)
    assert max(request.max_nodes or request.nodes for request in asked) == 3


def test_hosts_may_be_held_to_the_rates_of_emulated_nodes(tmp_path: Path) -> None:
    campaign = CAMPAIGNS["tiny"].at(hosts_of(tmp_path, paced=True))
    assert (campaign.nodes, campaign.cores, campaign.time, campaign.paced) == (3, 1, CAMPAIGNS["tiny"].time, True)
    runner = Runner(campaign, {name: problem(name) for name in campaign.problems()}, tmp_path)
    key = campaign.runs()[0]
    assert all("--rate" in runner._request(key, job, tmp_path).command for job in campaign.batch(key))


def test_results_of_the_paper_s_size_are_the_known_ones_or_agree_with_each_other(tmp_path: Path) -> None:
    runner = Runner(replace(CAMPAIGN, paced=False), {}, tmp_path)
    (uts, bc) = (TraceJob(1, 0.0, 1.0, 1.0, 1, name=name) for name in ("UTS_18", "BC_17"))

    def right(job: TraceJob, **document: object) -> bool:
        return bool(runner._checked(job, {"parameters": {}, **document})["verified"])

    assert right(uts, result=1, verified=True)
    assert not right(uts, result=1, verified=False)
    assert right(bc, result="x", verified=None)
    assert right(bc, result="x", verified=None)
    assert not right(bc, result="y", verified=None)
    assert not right(bc, error="no result")


def test_only_runs_of_the_same_plan_are_used_again(tmp_path: Path) -> None:
    key = RunKey("easy", 0, 42)
    runner = Runner(CAMPAIGN, {"UTS_18": problem()}, tmp_path)
    assert runner.kept(key) is None
    kept = record(key, 9.0)
    runner.keep(key, kept)
    assert runner.kept(key) is None  # of an unknown campaign
    kept.provenance["plan"] = runner._described(key)
    runner.keep(key, kept)
    assert runner.kept(key) == kept
    assert Runner(Campaign(("easy",), (0,), (42,), jobs=3), {"UTS_18": problem()}, tmp_path).kept(key) is None
    (tmp_path / key.file).write_bytes(encode_record(kept)[:100])
    assert runner.kept(key) is None
    assert [path.name for path in tmp_path.iterdir()] == [key.file]


def test_runs_that_lagged_or_failed_are_done_again_and_the_better_one_is_kept(tmp_path: Path) -> None:
    campaign = Campaign(("easy",), (0,), (42, 43), jobs=2, nodes=8, time=0.1)
    fine, lagged = campaign.runs()  # the second one has a lag of 0.4 s

    class Made(Runner):
        made: ClassVar[list[tuple[RunKey, float, bool]]] = []

        def run(self, key: RunKey, watcher: object = None) -> RunRecord:
            made = record(key, 9.0, verified=self.made[0][2])
            made.provenance["cpu"]["worst_lag_s"] = self.made[0][1]
            made.provenance["plan"] = self._described(key)
            assert self.made.pop(0)[0] == key
            return made

    runner = Made(campaign, {"UTS_18": problem()}, tmp_path)
    runner.made[:] = [(fine, 0.0, True), (lagged, 0.4, True)]
    first = run_all(runner)
    runner.made[:] = [(lagged, 0.6, True)]
    assert run_all(runner, again=Again(lagged_s=0.25)) == first == run_all(runner)
    runner.made[:] = [(lagged, 0.3, True)]
    assert run_all(runner, again=Again(lagged_s=0.25))[lagged].provenance["cpu"]["worst_lag_s"] == 0.3
    runner.made[:] = [(lagged, 0.1, False)]  # a wrong result is worse than any lag
    assert run_all(runner, again=Again(lagged_s=0.25))[lagged].provenance["cpu"]["worst_lag_s"] == 0.3
    assert run_all(runner, again=Again(failed=True)) == all_kept(runner)


def test_runs_on_a_busy_machine_are_done_again() -> None:
    busy, quiet = (record(RunKey("easy", 0, seed), 9.0) for seed in (42, 43))  # the quiet one has the longer lag
    busy.provenance["cpu"]["others_share"], quiet.provenance["cpu"]["others_share"] = 0.8, 0.1
    again = Again(busy=0.2)
    assert again.wants(busy)
    assert not again.wants(quiet)
    assert again.prefers(quiet, busy)
    assert not again.prefers(busy, quiet)
    assert Again(lagged_s=0.2, busy=0.2).prefers(busy, quiet)
    busy.provenance["cpu"]["others_share"] = None
    assert not again.wants(busy)


def test_means_by_policy_and_share_stand_beside_the_papers() -> None:
    table = findings.merit_table(all_records(), {("easy", 60): {"makespan_s": 33.0}})
    rows = {row[:3]: row[3:] for row in table.rows}
    assert set(rows) == {(policy, share, 2) for policy in CAMPAIGN.policies for share in CAMPAIGN.shares}
    # waits of 1 s each; runtimes of 4 and 9 s; 2 nodes for 4 s and 1 for 9 s, of 4 for 11 s
    assert list(rows["easy", 60, 2][2::3]) == pytest.approx([11.0, 7.5, 1.0, 6.5, 100 * 17 / 44])
    assert rows["easy", 60, 2][4] == 33.0
    assert rows["malleable", 60, 2][4] is None


def test_costs_are_split_between_runtime_and_balancer() -> None:
    rows = {row[:2]: row[2:] for row in costs_table(list(all_records().values())).rows}
    # ordered at 1, done at 2; the balancer has 0.1 s before and 0.2 s after the commit
    assert rows["grow", 2][0] == rows["grow", "all"][0] == 8
    assert list(rows["grow", 2][1:5]) == pytest.approx([1.0, 0.7, 0.3, 1.0])
    assert list(rows["grow", "all"][5:8]) == pytest.approx([6.78, 6.32, 0.46])
    # decided 0.4 s before the start: 0.4 + 0.2 of the runtime, 0.1 of the balancer, 3.5 s of work, and the rest
    assert list(rows["start", 2][1:4]) == pytest.approx([0.7, 0.6, 0.1])
    assert rows["end", 2][1] == pytest.approx(5.0 - 0.6 - 0.7 - 3.5)
    # resizes of 1 s beside runtimes of 4 s and of 9 or 7 s
    assert list(rows["start", 2][-2:]) == pytest.approx([100 / statistics.fmean([6.5, 5.5]), 0.0])


def test_a_wrong_result_fails_the_experiment() -> None:
    records = all_records()
    assert conclude(CAMPAIGN, records, None, {}).passed
    records[RunKey("easy", 0, 42)] = record(RunKey("easy", 0, 42), 9.0, verified=False)
    report = conclude(CAMPAIGN, records, None, {})
    assert not report.passed
    assert "1 job failed or wrong" in report.verdict
    assert "easy, 0 % malleable, seed 42: UTS_18-2 completed, its result is not the right one" in report.remarks


def test_the_verdict_names_the_gain_and_remarks_name_lags() -> None:
    report = conclude(CAMPAIGN, all_records(), None, {})
    assert "6.5 s under malleable with 60 % malleable jobs, 7.5 s under easy with 0 % (-13 %)" in report.verdict
    (lags,) = (remark for remark in report.remarks if remark.startswith("In 4 of 8 runs a place fell more than 0.25 s"))
    assert "most in easy, 0 % malleable, seed 43: 0.40 s. 0.00 % of all node-seconds were given up" in lags
    assert not any("Others used" in remark for remark in report.remarks)
    records = all_records()
    records[RunKey("malleable", 60, 42)].provenance["cpu"] |= {"others_share": 0.5, "given_up_s": 3.0}
    remarks = " ".join(conclude(CAMPAIGN, records, None, {}).remarks)
    assert "The jobs used 30 % of the cores. Others used 50 % meanwhile" in remarks
    # 3 of the node-seconds: twice 4 and once 9 under easy, once 7 under malleable, in four runs each
    assert f"{100 * 3 / (4 * 17 + 4 * 15):.2f} % of all node-seconds" in remarks
