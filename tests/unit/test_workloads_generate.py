"""Generators: what is printed of their models holds, and a seed gives the same jobs every time."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="numpy is not installed")

from scheduler_bridge.workloads import Workload, read_swf, write_swf
from scheduler_bridge.workloads.generate import RECIPES, generate, top_up_theta
from scheduler_bridge.workloads.generate.models import day_points
from scheduler_bridge.workloads.generate.papers import CONFIGURATIONS, PORTRAITS

SMALL = {name: {"jobs": 400} if "jobs" in recipe.options else {} for name, recipe in RECIPES.items()}


def share(workload: Workload, nodes: int) -> float:
    return sum(job.nodes <= nodes for job in workload.jobs) / len(workload)


def short(workload: Workload, seconds: float) -> float:
    return sum(job.runtime_s <= seconds for job in workload.jobs) / len(workload)


def offered(workload: Workload, seconds: float) -> float:
    return sum(job.nodes * job.runtime_s for job in workload.jobs) / (workload.nodes * seconds)


@pytest.mark.parametrize("name", RECIPES)
def test_a_seed_gives_the_same_jobs_and_they_are_marked(name: str, tmp_path: Path) -> None:
    first, again, other = (generate(name, seed, **SMALL[name]) for seed in (1, 1, 2))
    assert first.jobs == again.jobs
    assert first.jobs != other.jobs
    assert first.label.endswith("(synthetic)")
    assert all(1 <= job.nodes <= first.nodes for job in first.jobs)
    write_swf(first, tmp_path / "first.swf")
    assert "; Note: SYNTHETIC" in (tmp_path / "first.swf").read_text()
    assert read_swf(tmp_path / "first.swf").synthetic


def test_unknown_generators_and_options_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown generator 'theta'"):
        generate("theta", 1)
    with pytest.raises(ValueError, match="lublin has no option 'size'"):
        generate("lublin", 1, size=3)
    for value in (float("inf"), float("nan")):
        with pytest.raises(ValueError, match=f"lublin: load is {value}, must be finite"):
            generate("lublin", 1, load=value)
    with pytest.raises(ValueError, match="at least 1 job"):
        generate("lublin", 1, jobs=0)
    with pytest.raises(ValueError, match="scenario is 'XX'"):
        generate("penalty", 1, scenario="XX")


def test_the_shares_of_lublin_and_feitelson() -> None:
    workload = generate("lublin", 3, jobs=20_000, nodes=128)
    sizes = Counter(job.nodes for job in workload.jobs)
    assert sizes[1] / len(workload) == pytest.approx(0.244, abs=0.01)
    powers = sum(count for size, count in sizes.items() if size > 1 and size & (size - 1) == 0)
    assert 0.57 < powers / len(workload) < 0.66  # some of the others round to powers of two, too
    assert 2000 < statistics.mean(job.runtime_s for job in workload.jobs) < 8000
    by_day = day_points()
    assert by_day.mean() == pytest.approx(1)
    assert by_day.argmax() in range(24, 34)  # early in the afternoon
    assert by_day.argmin() in range(4, 12)


def test_a_load_is_what_was_asked_for() -> None:
    workload = generate("lublin", 3, jobs=5000, nodes=100, load=0.8)
    assert offered(workload, workload.jobs[-1].submit_s) == pytest.approx(0.8, rel=1e-3)
    exact = generate("lublin", 3, jobs=500, estimates="exact")
    assert all(job.walltime_s == job.runtime_s for job in exact.jobs)


@pytest.mark.slow
def test_the_twin_of_eagle_has_what_is_printed() -> None:
    workload = generate("eagle", 5)
    assert (len(workload), workload.nodes) == (143_829, 2568)
    assert share(workload, 1) == pytest.approx(0.966, abs=0.002)
    assert short(workload, 10_000) == pytest.approx(0.868, abs=0.005)
    assert offered(workload, 28 * 86_400) == pytest.approx(0.2871, rel=0.02)


def test_intensive_arrivals_are_those_of_the_normal_ones_scaled() -> None:
    normal, intensive = generate("kit", 1, jobs=1000), generate("kit", 1, jobs=1000, arrival_factor=0.75)
    assert [job.nodes for job in normal.jobs] == [job.nodes for job in intensive.jobs]
    assert intensive.jobs[-1].submit_s == pytest.approx(0.75 * normal.jobs[-1].submit_s, abs=2)


def test_every_portrait_can_be_drawn() -> None:
    for name in PORTRAITS:
        assert len(generate(name, 1, jobs=50)) == 50


def test_exact_requests_leave_the_rest_as_it_is() -> None:
    given, exact = generate("cirne", 4), generate("cirne", 4, exact=True)
    assert [(job.submit_s, job.runtime_s, job.nodes) for job in given.jobs] == [
        (job.submit_s, job.runtime_s, job.nodes) for job in exact.jobs
    ]
    assert all(job.walltime_s == job.runtime_s for job in exact.jobs)
    used = [job.runtime_s / job.walltime_s for job in given.jobs]
    assert statistics.mean(value < 0.2 for value in used) == pytest.approx(0.5, abs=0.05)
    assert max(job.nodes for job in given.jobs) == 128


def test_batches_have_the_table_of_the_paper() -> None:
    assert sum(weight for item in CONFIGURATIONS for _, weight in item.sizes) == 25
    bounds = {item.name: (item.min_nodes, item.max_nodes) for item in CONFIGURATIONS}
    hours = []
    for seed in range(42, 52):
        rigid, some, all_ = (generate("batch", seed, malleable=share_) for share_ in (0, 0.4, 1))
        assert len(rigid) == 25
        assert [job.submit_s for job in rigid.jobs[:5]] == [0] * 5
        assert max(job.submit_s for job in rigid.jobs) < 600
        chosen = {job.job_id for job in some.jobs if job.is_malleable}
        assert len(chosen) == 10
        assert all(job.is_malleable and (job.min_nodes, job.max_nodes) == bounds[job.name] for job in all_.jobs)
        hours.append(sum(job.node_hours for job in rigid.jobs))
    assert statistics.mean(hours) == pytest.approx(8, rel=0.15)


def test_scenarios_of_the_penalty_paper() -> None:
    accuracy = {}
    for scenario in ("BE", "GE", "CF", "CFG", "DI", "HDI"):
        workload = generate("penalty", 1, scenario=scenario)
        assert (len(workload), workload.nodes, len({job.user for job in workload.jobs})) == (1000, 1672, 20)
        assert max(job.runtime_s for job in workload.jobs) <= 10 * 86_400
        accuracy[scenario] = statistics.mean(job.runtime_s / job.walltime_s for job in workload.jobs)
    assert accuracy["BE"] < 0.2
    assert accuracy["GE"] > 0.8
    assert accuracy["CF"] < accuracy["HDI"] < accuracy["DI"]
    assert accuracy["CF"] < accuracy["CFG"]


def test_users_learn_every_five_jobs() -> None:
    workload = generate("penalty", 1, scenario="DI")
    mine = [job.runtime_s / job.walltime_s for job in workload.jobs if job.user == "1" and job.runtime_s > 1e4]
    assert mine[0] < mine[-1]
    assert max(mine) <= 1


def test_theta_topped_up_has_the_printed_shares(data_folder: Path) -> None:
    theta = read_swf(data_folder / "traces/theta_2023_feb_dec_dras.swf.gz")
    august = 1690848000 - (theta.start_unix_s or 0)
    window = theta.window(august, august + 28 * 86_400)
    full = top_up_theta(window, seed=1)
    assert len(full) == 2550
    for size, expected in ((1, 0.348), (8, 0.203), (256, 0.126)):
        assert sum(job.nodes == size for job in full.jobs) / 2550 == pytest.approx(expected, abs=0.002)
    assert short(full, 10_000) == pytest.approx(0.847, abs=0.005)
    assert full.synthetic
    assert sum(job.name == "synthetic" for job in full.jobs) == 933
    real = {job.job_id for job in window.jobs}
    assert [job for job in full.jobs if job.job_id in real] == list(window.jobs)
    with pytest.raises(ValueError, match="already"):
        top_up_theta(full, seed=1)
