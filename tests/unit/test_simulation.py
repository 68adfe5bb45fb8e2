"""`from scheduler_bridge import simulate, Workload`: tables, figures and pictures of a simulation for programs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import PATIENCE_S

from scheduler_bridge import Simulation, Workload, policies, simulate, simulation
from scheduler_bridge.model import ClusterView, InvalidJobError
from scheduler_bridge.policies import Decision, Start
from scheduler_bridge.report.page import Drawn
from scheduler_bridge.sim import Behaviour, FaultTolerance, ReplayOptions, job_rows, random_failures, replay
from scheduler_bridge.sim.engine import node_names
from scheduler_bridge.workloads import TraceError, convert, write_swf

TINY = pd.DataFrame({"submit_s": [0, 10, 20], "runtime_s": [100.0, 50, 20], "nodes": [2, 4, 1]})


@pytest.fixture(scope="module")
def drawn() -> Workload:
    return Workload.generate("lublin", seed=3, jobs=150, nodes=32, load=0.9)


@pytest.fixture(scope="module")
def resized(drawn: Workload) -> Simulation:
    return simulate(drawn, "avg", malleable=0.5, seed=2, cost="constant:5")


def fifo(view: ClusterView, now: float) -> Iterator[Decision]:
    free = view.free_nodes
    for job in view.queue:
        if job.nodes > free:
            return
        free -= job.nodes
        yield Start(job.job_id, job.nodes, "its turn")


# Simulations ----------------------------------------------------------------------------------------------------------


def test_jobs_are_those_of_a_replay(drawn: Workload, resized: Simulation) -> None:
    done = replay(resized.workload, policies.get("avg"), options=resized._setup.options)
    assert resized.workload == convert(drawn, 0.5, 2)
    rows = list(job_rows(done.result.records.values(), drawn.label, "avg"))
    assert [tuple(row) for row in resized.jobs.itertuples(index=False)] == rows
    assert resized.metrics["mean_wait_s"] == done.measures.every.mean_wait_s
    assert resized.metrics["mean_wait_s"] == pytest.approx(resized.jobs.wait_s.mean())
    assert resized.metrics["utilization"] == done.measures.utilization


def test_columns_have_the_same_types_whatever_happened(resized: Simulation) -> None:
    rigid = simulate(resized.workload, "fcfs", nodes=1_000)
    assert rigid.resizes.empty
    for table in ("jobs", "resizes", "nodes_over_time"):
        before, after = (getattr(done, table).dtypes for done in (resized, rigid))
        assert before.equals(after)
    assert rigid.resizes.dtypes["nodes_after"] == rigid.nodes_over_time.dtypes["waiting"] == "int64"
    assert {str(resized.jobs.dtypes[name]) for name in resized.jobs if name.endswith("_s")} == {"float64"}


def test_resizes_are_those_that_jobs_count(resized: Simulation) -> None:
    kinds = resized.resizes.kind.value_counts()
    assert kinds["grow"] == resized.jobs.grows.sum() > 0
    assert kinds["shrink"] == resized.jobs.shrinks.sum() > 0
    assert resized.resizes.time_s.is_monotonic_increasing
    grows = resized.resizes.kind == "grow"
    assert ((resized.resizes.nodes_after > resized.resizes.nodes_before) == grows).all()


def test_nodes_over_time_add_up(resized: Simulation) -> None:
    table, jobs = resized.nodes_over_time, resized.jobs
    lengths = np.diff(table.time_s)
    assert (lengths > 0).all()
    assert (table.busy[:-1] * lengths).sum() == pytest.approx(jobs.node_s.sum())
    assert (table.reserved[:-1] * lengths).sum() == pytest.approx(jobs.reserved_node_s.sum())
    assert (table.waiting[:-1] * lengths).sum() == pytest.approx(jobs.wait_s.sum())
    assert (table.running[:-1] * lengths).sum() == pytest.approx(jobs.runtime_s.sum())
    assert (table.busy + table.reserved).max() <= resized.nodes
    assert list(table.iloc[-1][1:]) == [0, 0, 0, 0]


def test_jobs_that_lose_a_node_wait_again(drawn: Workload) -> None:
    options = ReplayOptions(behaviour=Behaviour(tolerance=FaultTolerance()))
    failures = random_failures(node_names(32), mtbf_s=2e6, repair_s=3600, until_s=2e5, seed=1)
    setup = simulation.Setup(drawn, "easy", lambda: policies.get("easy"), 32, options, failures)
    done = Simulation(setup, setup.replay())
    table = done.nodes_over_time
    assert done.jobs.restarts.sum() > 0
    assert (table.waiting[:-1] * np.diff(table.time_s)).sum() == pytest.approx(done.jobs.wait_s.sum())
    assert done.resizes.empty


def test_policies_are_names_objects_and_functions(drawn: Workload) -> None:
    by_name = simulate(drawn, "fcfs").jobs.drop(columns="policy")
    for policy in (policies.get("fcfs"), lambda: policies.get("fcfs"), fifo):
        assert simulate(drawn, policy).jobs.drop(columns="policy").equals(by_name)
    assert simulate(drawn, fifo).policy == "fifo"


@pytest.mark.parametrize("name", policies.names())
def test_a_policy_decides_alike_in_its_second_simulation(name: str, drawn: Workload) -> None:
    policy = policies.get(name)
    first, second = (simulate(drawn, policy, malleable=0.5) for _ in range(2))
    assert first.jobs.equals(second.jobs)


def test_a_picture_is_of_all_or_of_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    resized = simulate(Workload.generate("lublin", seed=3, jobs=30, nodes=16, load=0.9), "avg", malleable=0.5)
    seen: list[Drawn] = []
    figure = Drawn.figure

    def watched(drawn: Drawn) -> Any:
        seen.append(drawn)
        return figure(drawn)

    monkeypatch.setattr(Drawn, "figure", watched)
    assert resized.plot()._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    resized.plot((3600, 7200))
    whole, part = seen
    assert whole.whole is None
    assert {job.job_id: job.end_s for job in whole.record.jobs} == dict(
        zip(resized.jobs.job, resized.jobs.end_s, strict=True)
    )
    assert part.whole is not None
    assert (part.whole[1].from_s, part.whole[1].to_s) == (3600, 7200)
    with pytest.raises(ValueError, match=r"window is \(2, 1\)"):
        resized.plot((2, 1))


def test_tables_say_what_is_missing(resized: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install \"malleable-apgas\[sweeps\]\""):
        _ = Simulation(resized._setup, resized._done).jobs


def test_options_hold_unless_an_argument_says_else(drawn: Workload) -> None:
    options = ReplayOptions(warmup_s=3600, behaviour=Behaviour(start_delay_s=30))
    done = simulate(drawn, "easy", options=options, cost="constant:1")
    assert done._setup.options.behaviour.start_delay_s == 30
    assert str(done._setup.options.behaviour.cost) != "None"
    assert done.measures.window.warmup_s == 3600
    assert simulate(drawn, "easy", options=options, warmup_s=60).measures.window.warmup_s == 60


@pytest.mark.parametrize(
    ("policy", "options", "says"),
    [
        ("esay", {}, "no policy 'esay'; there are"),
        (3, {}, "3 is no policy"),
        (lambda _view: [], {}, "is no policy"),
        (lambda: 3, {}, "is no policy"),
        ("easy", {"nodes": 0}, "nodes is 0"),
        ("easy", {"nodes": 10**12}, "nodes is 1000000000000, must be from 1 to 10,000,000"),
        ("easy", {"cost": "constant:1e308"}, "constant: 1e.308, must not be negative, and at most 1e.15"),
        ("easy", {"malleable": 2}, "proportion is 2"),
        ("easy", {"rule": "none"}, "rule is 'none': there are amdahl"),
        ("easy", {"cost": "free"}, "free"),
        ("easy", {"cost": 5}, "cost is 5: give a name like"),
    ],
)
def test_bad_arguments_are_named(policy: Any, options: dict[str, Any], says: str, drawn: Workload) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        simulate(drawn, policy, **options)


def test_its_types_are_strict(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from scheduler_bridge import Simulation, Workload, simulate\n"
        "done: Simulation = simulate(Workload.generate('lublin', seed=1, jobs=9), 'easy', malleable=0.5)\n"
        "wait: float | int | None = done.metrics['mean_wait_s']\n"
        "done.plot((0, 3600)).savefig('x.png')\n"
        "simulate('trace.swf', 'easy')\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", str(program)]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False).stdout
    assert "Found 1 error" in printed, printed
    assert 'program.py:5: error: Argument 1 to "simulate" has incompatible type "str"' in printed


# Workloads ------------------------------------------------------------------------------------------------------------


def test_a_workload_of_a_table() -> None:
    table = TINY.assign(user=[7, 8, 7], other="x", reservation="maintenance", max_nodes=[2, 4, 3])
    workload = Workload.from_dataframe(table, nodes=4)
    first, _, last = workload.jobs
    assert (first.job_id, first.walltime_s, first.user, first.job_class) == (1, 125, "7", "rigid")
    assert (last.job_class, last.min_nodes, last.max_nodes) == ("malleable", 1, 3)
    assert not workload.synthetic
    assert simulate(workload, "easy").jobs.wait_s.tolist() == [0, 90, 0]


def test_dates_and_durations_are_understood() -> None:
    submits = pd.to_datetime(["2024-05-01 10:00:20", "2024-05-01 10:00:00", "2024-05-01 10:00:10"], utc=True)
    table = TINY.assign(submit_s=submits, runtime_s=pd.to_timedelta(TINY.runtime_s, unit="s"))
    workload = Workload.from_dataframe(table, nodes=4)
    assert [job.submit_s for job in workload.jobs] == [0, 10, 20]
    assert [job.runtime_s for job in workload.jobs] == [50, 20, 100]
    assert workload.start_unix_s == submits.min().timestamp()


@pytest.mark.parametrize(
    ("table", "nodes", "says"),
    [
        (TINY.drop(columns="nodes"), 4, "there is no column nodes"),
        (TINY[:0], 4, "there is no job in it"),
        (TINY, None, "how many nodes the machine has is not known"),
        (TINY, 3, "job 2 may have more than 3 nodes"),
        (TINY.assign(runtime_s=[1, None, 1]), 4, "row 2: runtime_s is not given"),
        (TINY.assign(nodes=[1, 1.5, 1]), 4, "row 2: .*int.*float"),
        (TINY.assign(runtime_s=[1, -1, 1]), 4, "row 2: .*must be positive"),
        (TINY.assign(runtime_s="long"), 4, "row 1: "),
        (TINY.assign(job_id=1), 4, "two jobs have one job_id"),
        (TINY.assign(job_class="rigid", max_nodes=4), 4, "row 1: .*a rigid job has one size"),
    ],
)
def test_a_bad_table_is_refused(table: pd.DataFrame, nodes: int | None, says: str) -> None:
    with pytest.raises((TraceError, InvalidJobError), match=says):
        Workload.from_dataframe(table, nodes=nodes)


def test_a_trace_is_read(drawn: Workload, tmp_path: Path) -> None:
    write_swf(drawn, tmp_path / "drawn.swf.gz")
    again = Workload.from_swf(tmp_path / "drawn.swf.gz", nodes=64)
    assert (again.nodes, len(again)) == (64, len(drawn))
    with pytest.raises(FileNotFoundError):
        Workload.from_swf(tmp_path / "none.swf")
