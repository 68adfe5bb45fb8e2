"""``malleable simulate``: its JSON, its table, what it refuses."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import PATIENCE_S

from scheduler_bridge.cli.app import COMMANDS, run
from scheduler_bridge.report import page
from scheduler_bridge.workloads import read_swf

HEADER = "; UnixStartTime: 1690848000\n; MaxNodes: 4\n; MaxProcs: 4\n"
# id submit wait runtime procs - - procs walltime - status user ...
RECORDS = [(1, 0, 100, 2, 120), (2, 10, 50, 4, 60), (3, 20, 20, 1, 90), (4, 100000, 30, 2, 40)]


def swf(folder: Path) -> Path:
    path = folder / "tiny.swf"
    lines = [
        f"{number} {submit} -1 {runtime} {nodes} -1 -1 {nodes} {walltime} -1 1 7 1 -1 -1 -1 -1 -1\n"
        for number, submit, runtime, nodes, walltime in RECORDS
    ]
    path.write_text(HEADER + "".join(lines))
    return path


def simulated(folder: Path, *options: str) -> dict[str, Any]:
    out = folder / "out.json"
    assert run(["simulate", "--workload", str(swf(folder)), *options, "--json", str(out)]) == 0
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_the_json_is_that_of_the_contract(tmp_path: Path) -> None:
    # 4 nodes, EASY: job 1 at 0 s; job 2 waits for it until 100 s; job 3 fits beside job 1 and ends before; job 4 later.
    found = simulated(tmp_path, "--nodes", "4", "--policy", "easy")
    assert (found["policy"], found["nodes"], found["jobs"]) == ("easy", 4, 4)
    assert found["metrics"] == {
        "mean_wait_s": 22.5,
        "mean_runtime_s": 50.0,
        "mean_turnaround_s": 72.5,
        "mean_slowdown": pytest.approx((1 + 140 / 50 + 1 + 1) / 4),
        "mean_bounded_slowdown": pytest.approx((1 + 140 / 50 + 1 + 1) / 4),
        "utilization": pytest.approx((200 + 200 + 20 + 60) / (4 * 100030)),
        "makespan_s": 100030.0,
        "grows": 0,
        "shrinks": 0,
    }
    assert found["quartiles"]["every"]["wait_s"] == [0, 0, 22.5]
    assert found["quartiles"]["malleable"]["wait_s"] is None
    assert found["window"]["warmup_s"] is None
    assert found["seconds"] > 0


def test_what_was_left_out_of_the_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = swf(tmp_path), tmp_path / "out.json"
    with path.open("a") as file:
        file.write("broken\nbroken, too\n5 200 -1 3600 8 -1 -1 8 3600 -1 1 7 1 -1 -1 -1 -1 -1\n")
        file.write("6 110000 -1 480 1 -1 -1 1 60 -1 1 7 1 -1 -1 -1 -1 -1\n")
    options = ["simulate", "--workload", str(path), "--policy", "easy", "--days", "1", "--json", str(out)]
    assert run(options) == 0
    # kept are 2 x 100 + 4 x 50 + 20 + 2 x 30 + 480 = 960 node-seconds, of which the first day has 420
    assert (
        "\nrecords: 8 read; 3 left out, 96.8 % of the node-hours "
        "(2 not 18 numbers, 1 larger than the machine (4 nodes)); kept: 1 ran longer than its estimate\n"
    ) in capsys.readouterr().out
    found = json.loads(out.read_text())["findings"]
    assert (found["records"], found["skipped"]["not 18 numbers"]["count"]) == (8, 2)
    assert found["kept"]["ran longer than its estimate"]["lines"] == [11]
    assert found["lost_share"] == pytest.approx(28800 / (28800 + 960))
    assert simulated(tmp_path, "--policy", "easy")["findings"] == {
        "records": 4,
        "skipped": {},
        "kept": {},
        "lost_share": 0.0,
    }
    assert "records:" not in capsys.readouterr().out


def test_jobs_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["simulate", "--workload", str(swf(tmp_path)), "--policy", "easy", "--explain", "2", "--explain", "3"]) == 0
    )
    shown = capsys.readouterr().out
    assert "job 2 (job 2) is over: completed" in shown
    assert "waits: it needs 4 nodes, 2 are free; 4 nodes are reserved for job 2 at 120 s" in shown
    assert "started on 1 node: backfilled: 4 nodes are reserved for job 2 at 120 s and stay so" in shown
    assert "job 4" not in shown
    assert run(["simulate", "--workload", str(swf(tmp_path)), "--policy", "easy", "--explain", "9"]) == 2
    assert "--explain 9: tiny has no such job" in capsys.readouterr().err


def test_jobs_share_nodes_with_cores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Two nodes of four cores. Job 1 holds both until 1000 s; job 2 asks for both, at 10 s, for 60 s, and needs 50 s: on
    # half of the cores it runs until 110 s, and delays job 1 by 50 s.
    trace = tmp_path / "two.swf"
    lines = ["1 0 -1 1000 2 -1 -1 2 1000", "2 10 -1 50 2 -1 -1 2 60"]
    trace.write_text(HEADER + "".join(f"{line} -1 1 7 1 -1 -1 -1 -1 -1\n" for line in lines))
    options = ["simulate", "--workload", str(trace), "--nodes", "2", "--policy", "sd-policy", "--malleable", "1"]
    for model in ("ideal", "worst"):
        assert run([*options, "--cores", "4", "--sharing", model, "--explain", "1", "--explain", "2"]) == 0
        shown = capsys.readouterr().out
        assert "ordered to use 2 of 4 cores of each node (0-1): makes room for job 2 on its nodes" in shown
        assert "\n110.0      0  completed" in shown
        assert "\n1050.0      0  completed" in shown
        assert "--cores" not in shown
    capsys.readouterr()
    assert run([*options, "--explain", "2"]) == 0
    printed = capsys.readouterr()
    assert "1000.0      2  started on 2 nodes" in printed.out, "one core cannot be shared"
    assert "sd-policy shares no node without --cores" in printed.err
    assert run(["simulate", "--workload", str(trace), "--nodes", "2", "--policy", "easy"]) == 0
    assert "--cores" not in capsys.readouterr().err
    assert run([*options, "--sharing", "fair"]) == 2
    assert "--sharing fair: no such model" in capsys.readouterr().err


def test_a_file_is_read_as_by_stats(tmp_path: Path) -> None:
    # the last of four jobs failed, alone in partition 2; the end of the file is missing, but no job
    path, out = tmp_path / "parts.swf.gz", tmp_path / "out.json"
    lines = [
        f"{job} 0 -1 100 2 -1 -1 2 100 -1 {int(job != 3)} 7 1 -1 1 {part} -1 -1\n" for job, part in enumerate("1112")
    ]
    whole = gzip.compress(("; MaxProcs: 8\n" + "".join(lines)).encode())
    path.write_bytes(whole[:-8])
    options = ["simulate", "--workload", str(path), "--policy", "fcfs", "--json", str(out)]
    assert run(options) == 2
    for more, jobs, nodes in (
        ((), 4, 8),
        (("--partition", "1"), 3, 8),
        (("--partition", "1", "--status", "1", "--processors-per-node", "2"), 3, 4),
        (("--partition", "2", "--status", "0"), 1, 8),
    ):
        assert run([*options, "--keep-cut-off", *more]) == 0
        found = json.loads(out.read_text())
        assert (found["jobs"], found["nodes"]) == (jobs, nodes), more
        assert found["options"]["partitions"] == [int(part) for part in more[1:2]], more


def test_starts_take_time_and_nodes_draw_power(tmp_path: Path) -> None:
    # 480 node-seconds of jobs; each starts 5 s after the decision, the second one 5 s later also for that of the first
    found = simulated(tmp_path, "--policy", "easy", "--idle-watts", "0", "--busy-watts", "1000")
    assert found["details"]["energy_kwh"] == pytest.approx(480 / 3600)
    assert found["options"]["busy_watts"] == 1000.0
    slow = simulated(tmp_path, "--policy", "easy", "--start-delay", "5")
    assert slow["metrics"]["mean_wait_s"] == (5 + 100 + 5 + 5) / 4


def test_nodes_are_kept_free(tmp_path: Path) -> None:
    # Jobs 1 and 3 could stay into the reservation: one after the other on the other nodes; job 2 needs all of them.
    found = simulated(tmp_path, "--nodes", "4", "--policy", "easy", "--reservation", "2@100+2m")
    assert found["options"]["reservations"] == ["2@100+2m"]
    assert found["metrics"]["mean_wait_s"] == pytest.approx((0 + 210 + 80 + 0) / 4)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("2:1h+1h", "--reservation 2:1h+1h"),
        ("2@1h+0", "--reservation 2@1h+0"),
        ("2@x+1h", "--reservation x: not a duration"),
        ("5@1h+1h", "--reservation 5@1h+1h: it asks for 5 nodes, the cluster has 4"),
    ],
)
def test_reservations_that_cannot_be_are_named(
    text: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", "--workload", str(swf(tmp_path)), "--policy", "easy", "--reservation", text]) == 2
    assert capsys.readouterr().err.startswith(what)


def test_the_same_seed_gives_the_same_figures(tmp_path: Path) -> None:
    options = ("--nodes", "4", "--policy", "avg", "--malleable", "0.5", "--rule", "mebf-low", "--seed")
    found = [simulated(tmp_path, *options, seed) for seed in ("1", "1", "2")]
    for document in found:
        del document["seconds"]
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_what_was_asked_for_is_in_the_json(tmp_path: Path) -> None:
    options = ("--start", "0", "--days", "1", "--mtbf", "900", "--repair", "3", "--cost", "fitted:0.3:0.01:0.1:0")
    found = simulated(tmp_path, "--policy", "easy", *options)["options"]
    assert {name: found[name] for name in ("from", "days", "mtbf_h", "repair_h", "cost")} == {
        "from": "0",
        "days": 1.0,
        "mtbf_h": 900.0,
        "repair_h": 3.0,
        "cost": "fitted:0.3:0.01:0.1:0",
    }


def test_lost_work_is_counted_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload = tmp_path / "w.toml"
    workload.write_text("nodes = 4\n[[job]]\nruntime_s = 20000\nwalltime_s = 30000\ncount = 60\nevery_s = 10\n")
    out, page = tmp_path / "out.json", tmp_path / "out.html"
    base = ["simulate", "--workload", str(workload), "--policy", "easy", "--json", str(out)]
    assert run(base) == 0
    never = json.loads(out.read_bytes())
    assert (never["details"]["faults"], never["details"]["useful"]) == (None, never["metrics"]["utilization"])
    assert run([*base, "--mtbf", "20", "--repair", "1", "--html", str(page)]) == 0
    often = json.loads(out.read_bytes())
    assert often["details"]["faults"]["restarts"] == often["details"]["faults"]["job_failures"] > 0
    assert often["details"]["every"]["jobs"] == 60
    assert often["metrics"]["mean_turnaround_s"] > never["metrics"]["mean_turnaround_s"]
    parts = sum(often["details"][part] for part in ("useful", "lost", "overhead"))
    assert parts == pytest.approx(often["metrics"]["utilization"])
    assert "lost to failures" in page.read_text()
    assert "times one was run again" in " ".join(capsys.readouterr().out.split())
    options = ["--mtbf", "20", "--repair", "1", "--checkpoint-interval", "daly", "--checkpoint-cost", "60"]
    assert run([*base, *options, "--restart-cost", "30", "--resilient"]) == 0
    saved = json.loads(out.read_bytes())
    assert saved["details"]["lost"] < often["details"]["lost"]
    assert saved["options"]["checkpoint_interval"] == "daly"
    assert run([*base, "--mtbf", "20", "--on-failure", "fail"]) == 0
    gone = json.loads(out.read_bytes())
    assert gone["details"]["every"]["jobs"] + gone["details"]["faults"]["lost_jobs"] == 60
    assert "WARNING: lost for good: " in capsys.readouterr().out


def test_days_and_warm_up_choose_jobs(tmp_path: Path) -> None:
    assert simulated(tmp_path, "--policy", "fcfs", "--days", "1")["jobs"] == 3
    assert simulated(tmp_path, "--policy", "fcfs", "--start", "2023-08-02")["jobs"] == 1
    warm = simulated(tmp_path, "--policy", "fcfs", "--warmup", "0.005")
    assert warm["window"] == {"from_s": 18.0, "to_s": 100000.0, "warmup_s": 18.0}
    assert warm["details"]["every"]["jobs"] == 2
    assert warm["quartiles"]["every"]["runtime_s"] == [22.5, 25, 27.5]


def test_evolving_jobs_ask_for_nodes(tmp_path: Path) -> None:
    # alone on 8 nodes under a policy that never resizes: it starts on 4, offers one, and gets one again
    jobs = """nodes = 8
    [[job]]
    nodes = 2
    min_nodes = 1
    max_nodes = 4
    runtime_s = 100
    """
    file, out = tmp_path / "one.toml", tmp_path / "out.json"
    file.write_text(jobs)
    for options, resizes in (((), 0), (("--evolving", "1"), 2), (("--evolving", "1", "--moldable"), 0)):
        words = ["simulate", "--workload", str(file), "--policy", "conservative", *options, "--json", str(out)]
        assert run(words) == 0
        found = json.loads(out.read_text())
        assert found["metrics"]["grows"] + found["metrics"]["shrinks"] == resizes
        assert found["options"]["evolving"] == float(bool(options))
    sizing = ("--target-efficiency", "0.9", "--json", str(out))
    words = ["simulate", "--workload", str(file), "--policy", "conservative", *sizing]
    file.write_text(jobs + 'speedup = "amdahl:0.8"\n')
    assert run(words) == 0
    assert json.loads(out.read_text())["metrics"]["shrinks"] > 0, "it uses one node well, and starts on 4"
    assert run([*words, "--moldable"]) == 0
    assert json.loads(out.read_text())["metrics"]["shrinks"] == 0
    file.write_text(jobs + "wishes = [[0.25, -1], [0.75, 1]]\n")
    assert run(["simulate", "--workload", str(file), "--policy", "fcfs", "--json", str(out)]) == 0
    assert json.loads(out.read_text())["metrics"]["shrinks"] == 1


def test_the_table_is_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["simulate", "--workload", str(swf(tmp_path)), "--nodes", "4", "--policy", "min", "--malleable", "1"]) == 0
    )
    shown = capsys.readouterr().out
    assert "RIGID" not in shown
    for words in ("tiny: min on 4 nodes", "quartiles", "mean wait, s", "utilization", "nodes x", "jobs/s"):
        assert words in shown


def test_the_table_tells_rigid_and_malleable_jobs_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # job 2, rigid, waits 90 s for job 1, also rigid; jobs 3 and 4 are malleable and do not wait
    path = swf(tmp_path)
    path.write_text(path.read_text() + "".join(f"; Malleable: {job} 1 2 0 0 linear\n" for job in (3, 4)))
    assert run(["simulate", "--workload", str(path), "--policy", "easy"]) == 0
    rows = {line.split("  ")[0]: line.split("  ")[1:] for line in capsys.readouterr().out.splitlines()}
    assert [cell.strip() for cell in rows["mean wait, s"] if cell] == ["22.5", "45.0", "0.0"]
    quartiles = [cell.strip() for cell in rows["wait, s, quartiles"] if cell]
    assert quartiles == ["0 / 0 / 22", "22 / 45 / 68", "0 / 0 / 0"]


def test_a_picture_of_nodes_over_time(tmp_path: Path) -> None:
    path = tmp_path / "nodes.png"
    options = ("--policy", "malleable", "--days", "1", "--gantt", str(path))
    assert run(["simulate", "--workload", str(swf(tmp_path)), *options]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_page_of_jobs_and_nodes(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    options = ("--policy", "malleable", "--days", "1", "--html", str(path))
    assert run(["simulate", "--workload", str(swf(tmp_path)), *options]) == 0
    page = path.read_text()
    assert "simulated: tiny" in page
    assert "<svg" in page


def test_a_run_of_any_size_has_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(page.Drawn, "write", lambda drawn, *_: seen.append(drawn))
    lines = [f"{job} {job * 50} -1 400 {1 + job % 90} -1 -1 -1 600 -1 1 7 1 -1 -1 -1 -1 -1\n" for job in range(1200)]
    path = tmp_path / "long.swf"
    path.write_text("; MaxNodes: 300\n" + "".join(lines))
    command = ["simulate", "--workload", str(path), "--policy", "avg", "--malleable", "0.5", "--html", "x.html"]
    assert run(command) == 0
    assert run([*command, "--window", "1h:2h"]) == 0
    (course, window), (again, asked) = (drawn.whole for drawn in seen)
    assert (course.jobs, course.nodes, course.policy) == (1200, 300, "avg")
    assert course.notes == ("simulated: long",)
    assert window.is_busiest
    assert (again.utilization, asked.from_s, asked.to_s) == (course.utilization, 3600, 7200)
    for drawn in seen:
        begin_s, end_s = drawn.whole[1].from_s, drawn.whole[1].to_s
        assert all(begin_s <= part.from_s < part.to_s <= end_s for job in drawn.record.jobs for part in job.segments)
        held = sum((part.to_s - part.from_s) * len(part.nodes) for job in drawn.record.jobs for part in job.segments)
        assert held + sum(taken.to_s - taken.from_s for taken in drawn.record.reserved) == pytest.approx(
            float(np.diff(np.interp([begin_s, end_s], *course._held))[0])
        )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_row_for_each_job(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"jobs.{ending}"
    found = simulated(tmp_path, "--policy", "easy", "--jobs", str(path))
    table = pd.read_parquet(path) if ending == "parquet" else pd.read_csv(path)
    assert list(table["job"]) == [1, 2, 3, 4]
    assert set(table["workload"]) | set(table["policy"]) == {"tiny", "easy"}
    assert list(table["wait_s"]) == [0, 90, 0, 0]
    assert list(table["node_s"]) == [200, 200, 20, 60]
    assert set(table["outcome"]) == {"completed"}
    assert table["turnaround_s"].mean() == found["metrics"]["mean_turnaround_s"]


def test_jobs_as_they_ran_can_be_simulated_again(tmp_path: Path) -> None:
    ran, out = tmp_path / "ran.swf.gz", tmp_path / "out.json"
    options = ("--policy", "avg", "--malleable", "1")
    first = simulated(tmp_path, *options, "--swf", str(ran))
    assert first["metrics"]["grows"] > 0
    workload = read_swf(ran)
    assert [len(job.allocations) > 1 for job in workload.jobs].count(True) > 0
    assert workload.jobs[0].allocations[0][0] == 0
    assert run(["simulate", "--workload", str(ran), "--policy", "avg", "--json", str(out)]) == 0
    assert json.loads(out.read_text())["metrics"] == first["metrics"]


def test_the_pauses_of_a_policy_can_be_others(tmp_path: Path) -> None:
    meant = simulated(tmp_path, "--policy", "malleable-compat")["options"]
    assert (meant["pass_interval_s"], meant["cooldown_s"]) == (5.0, 60.0)
    given = ("--pass-interval", "0", "--cooldown", "7")
    other = simulated(tmp_path, "--policy", "malleable-compat", *given)["options"]
    assert (other["pass_interval_s"], other["cooldown_s"]) == (None, 7.0)
    # a policy whose passes are not left out, since it does not say that they decide nothing
    often = simulated(tmp_path, "--policy", "min", "--days", "1", "--pass-interval", "10")
    assert often["batches"] > simulated(tmp_path, "--policy", "min", "--days", "1")["batches"] + 5


@pytest.mark.parametrize(
    ("options", "story"),
    [
        (("--policy", "best"), "no policy 'best'"),
        (("--policy", "easy", "--set", "x=1"), "'x=1' is no parameter of easy"),
        (("--policy", "easy", "--malleable", "0.5", "--rule", "moore"), "--rule moore: no such rule"),
        (("--policy", "easy", "--cost", "free"), "no cost model 'free'"),
        (("--policy", "easy", "--walltime", "long"), "--walltime long: no such rule"),
        (("--policy", "easy", "--start", "soon"), "--from/--start soon: neither a date nor seconds"),
        (("--policy", "easy", "--evolving", "0.5"), "--evolving 0.5: no job is malleable"),
        (("--policy", "easy", "--target-efficiency", "0.9"), "--target-efficiency 0.9: no job is malleable"),
        (("--policy", "easy", "--target-efficiency", "1"), "--target-efficiency 1: no job can hold it"),
        (("--policy", "easy", "--start", "2030-01-01"), "change --from/--start or --days"),
        (("--policy", "easy", "--window", "1h:2h"), "--window 1h:2h: nothing is drawn"),
        (("--policy", "easy", "--gantt", "x.png", "--window", "2h:1h"), "--window 2h:1h: it ends before it begins"),
        (("--policy", "easy", "--mtbf", "0"), "--mtbf and --repair must be positive"),
        (("--policy", "easy", "--mtbf", "inf"), "--mtbf inf: not finite"),
        (("--policy", "easy", "--on-failure", "hope"), "--on-failure hope: no such rule there are requeue and fail"),
        (("--policy", "easy", "--on-failure", "fail", "--attempts", "2"), "a job that fails is not run again"),
        (("--policy", "easy", "--on-failure", "fail"), "--on-failure fail without --mtbf no node fails"),
        (("--policy", "easy", "--attempts", "2"), "--attempts without --mtbf"),
        (("--policy", "easy", "--resilient"), "--resilient without --mtbf"),
        (("--policy", "easy", "--restart-cost", "30"), "--restart-cost without --mtbf"),
        (("--policy", "easy", "--checkpoint-cost", "60"), "--checkpoint-cost without --checkpoint-interval"),
        (("--policy", "easy", "--checkpoint-interval", "daly"), "daly without --mtbf and --checkpoint-cost"),
        (("--policy", "easy", "--checkpoint-interval", "0"), "a positive number of seconds, young or daly"),
        (("--policy", "easy", "--checkpoint-interval", "nan"), "a positive number of seconds, young or daly"),
        (("--policy", "easy", "--restart-cost", "inf"), "--restart-cost inf: not finite"),
        (("--policy", "easy", "--tick", "inf"), "--tick inf: not finite"),
        (("--policy", "easy", "--pass-interval", "inf"), "--pass-interval inf: not finite"),
        (
            ("--policy", "easy", "--warmup", "28"),
            "--warmup 28: nothing is left to look at the last submission is 27.78 h",
        ),
        (("--policy", "easy", "--cost", "constant:inf"), "constant: inf, must not be negative, and at most 1e+15"),
        (("--policy", "easy", "--cost", "measured:-1"), "measured: -1.0, must not be negative"),
        (("--policy", "easy", "--cost", "mebf:nan"), "mebf: nan, must not be negative"),
        (("--policy", "easy", "--jobs", "jobs.xls"), "--jobs jobs.xls: another ending than .csv or .parquet"),
        (("--policy", "easy", "--swf", "jobs.txt"), "--swf jobs.txt: another ending than .swf or .swf.gz"),
        (("--policy", "easy", "--json", "."), "--json .: this is a folder"),
        (("--policy", "easy", "--gantt", "x.pdf"), "--gantt x.pdf: another ending than .png"),
    ],
)
def test_wrong_usage_says_what_is_wrong(
    options: tuple[str, ...], story: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", "--workload", str(swf(tmp_path)), *options]) == 2
    assert story in " ".join(capsys.readouterr().err.split())


def test_where_nothing_can_be_written_nothing_is_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("scheduler_bridge.sim.replay", lambda *_, **__: pytest.fail("it simulates"))
    target = tmp_path / "no-folder" / "a.json"
    assert run(["simulate", "--workload", str(swf(tmp_path)), "--policy", "easy", "--json", str(target)]) == 1
    assert capsys.readouterr().err.splitlines()[0] == f"--json {target}: there is no folder {target.parent}"


def test_the_json_may_be_printed_for_other_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--policy", "easy", "--days", "1", "--json", "-", "--gantt", "x.png"]
    assert run(["simulate", "--workload", str(swf(tmp_path)), *options]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.swf", "x.png"]


def test_a_folder_is_no_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--workload", str(tmp_path), "--policy", "easy"]) == 2
    assert f"{tmp_path}: this is a folder" in capsys.readouterr().err


@pytest.mark.parametrize("asked", [("--gantt", "x.png"), ("--html", "x.html"), ("--gantt", "x.png", "--window", "0:9")])
def test_of_jobs_that_are_all_refused_nothing_is_drawn(
    asked: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "large.swf"
    file.write_text(HEADER + "1 0 -1 100 4 -1 -1 4 100 -1 1 7 1 -1 -1 -1 -1 -1\n")
    monkeypatch.chdir(tmp_path)
    assert run(["simulate", "--workload", str(file), "--policy", "easy", "--user-nodes", "1", *asked]) == 2
    assert "nothing to draw: no job was taken" in capsys.readouterr().err
    assert not list(tmp_path.glob("x.*"))


def test_a_file_that_is_no_workload_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("nothing")
    assert run(["simulate", "--workload", str(path), "--policy", "easy"]) == 2
    assert "unknown form" in capsys.readouterr().err


LOADED_BY_SIMULATE = {
    *(
        "atomic_write",
        "printable",
        "cli",
        "core",
        "gc_tuning",
        "model",
        "policies",
        "record",
        "report",
        "sim",
        "simulation",
        "workloads",
    ),
}
"""Parts of the scheduler; whatever is added makes every simulation start later."""


def test_simulate_loads_no_daemon_and_no_other_command(tmp_path: Path) -> None:
    words = ["simulate", "--workload", str(swf(tmp_path)), "--nodes", "4", "--policy", "easy"]
    code = f"from scheduler_bridge.cli.app import run; assert run({words}) == 0\nimport sys, json"
    code += "; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    ours = {tuple(name.split(".")) for name in loaded if name.startswith("scheduler_bridge.")}
    assert {name[1] for name in ours} <= LOADED_BY_SIMULATE
    others = {("scheduler_bridge", "cli", command.module) for command in COMMANDS.values()}
    assert not {name[2] for name in ours & others} - {"simulate", "policies", "workload"}
    assert not loaded & {
        "asyncio",
        "matplotlib",
        "multiprocessing",
        "numpy",
        "pandas",
        "rich",
        "sqlite3",
        "ssl",
        "tomllib",
    }


def test_figures_for_programs_load_no_tables(tmp_path: Path) -> None:
    words = ["simulate", "--workload", str(swf(tmp_path)), "--nodes", "4", "--policy", "easy", "--json", "-"]
    code = f"from scheduler_bridge.cli.app import run; assert run({words}) == 0\nimport sys"
    code += "; assert 'rich' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)


@pytest.mark.parametrize(
    "command",
    ["workload convert {} -o {}", "workload stats {} -o {}", "simulate --workload {} --policy easy --swf {}"],
)
def test_what_is_read_is_not_overwritten(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = swf(tmp_path)
    before, link = path.read_text(), tmp_path / "link.swf"
    link.symlink_to(path)
    assert run(command.format(path, link).split()) == 2
    assert f"{link}: this file is read" in capsys.readouterr().err
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--malleable nan", "--malleable nan: not finite"),
        ("--malleable 1 --evolving nan", "--evolving nan: not finite"),
        ("--tick 1e300", "--tick 1e+300: too large"),
        ("--mtbf 1 --repair 1e300", "--repair 1e+300: too large"),
        ("--nodes 999999999999", "tiny: 999999999999 nodes are too many\nno machine has more than 10,000,000\n"),
    ],
)
def test_numbers_that_lead_nowhere_are_refused(
    options: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", "--workload", str(swf(tmp_path)), "--policy", "easy", *options.split()]) == 2
    assert capsys.readouterr().err.startswith(said)
