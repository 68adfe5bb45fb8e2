"""The simulation of large systems: exact, repeatable, never faster than possible, and it notices lost work."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import planted

from benchmarks.harness.errors import BadUsage
from benchmarks.levelbag import Count
from benchmarks.scaling import per_place, sweep
from benchmarks.scaling.model import (
    Computation,
    Job,
    Machine,
    Model,
    ModelError,
    TreeBag,
    children,
    news_s,
    spread,
)
from benchmarks.scaling.sweep import Sweep, parse_places
from glb import LedgerError
from glb.testing import check_bag

SMALL = Job(places=24, work_s=0.05)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 17, 1000, 10**12])
def test_children_make_up_the_rest_of_the_tree(size: int) -> None:
    found = children(size)
    assert sum(found) == size - 1
    assert min(found) >= 1
    assert 1 <= len(found) <= 5
    assert children(size) == found


def test_the_bag_keeps_the_rules() -> None:
    check_bag(lambda: TreeBag([5000], 3, 4), Count, lambda nodes: nodes.value, expected=5000)


@pytest.mark.parametrize("places", [1, 2, 7, 24, 65])
@pytest.mark.parametrize("finish", ["home", "tree", "none"])
def test_no_run_is_faster_than_possible(places: int, finish: Any) -> None:
    outcome = Model(replace(SMALL, places=places, finish=finish)).run()
    assert outcome.steals >= 1
    assert outcome.last_task_s >= 0.05 * (1 - 1e-9)
    assert outcome.last_task_s <= outcome.finish_s <= outcome.total_s
    assert 0 < outcome.efficiency <= outcome.balance <= 1 + 1e-9
    assert outcome.spread_s is not None
    assert (places == 1) == (outcome.messages == 0)


@pytest.mark.parametrize(
    "job",
    [
        replace(SMALL, random_steals=0),
        replace(SMALL, random_steals=8),
        replace(SMALL, radix=5),
        replace(SMALL, lifelines="ring"),
        replace(SMALL, lifelines="complete"),
        replace(SMALL, lifelines="kautz", radix=3),
        replace(SMALL, lifelines="random", radix=3),
    ],
)
def test_every_way_of_balancing_finds_all_nodes(job: Job) -> None:
    assert 0.3 < Model(job).run().balance <= 1 + 1e-9


def test_the_same_job_has_the_same_outcome_and_another_seed_another() -> None:
    assert Model(SMALL).run() == Model(SMALL).run()
    assert Model(SMALL).run().total_s != Model(replace(SMALL, seed=1)).run().total_s


def test_more_work_per_place_is_more_efficient_and_dear_messages_are_not() -> None:
    usual = Model(SMALL).run().efficiency
    assert Model(replace(SMALL, work_s=1.0)).run().efficiency > usual
    assert Model(SMALL, Machine(message_s=0.002)).run().efficiency < usual


def test_reports_keep_place_0_busy_unless_they_go_up_a_tree() -> None:
    job = replace(SMALL, places=300)
    outcomes = {finish: Model(replace(job, finish=finish)).run() for finish in ("home", "tree", "none")}
    assert outcomes["home"].home_messages > 2 * outcomes["tree"].home_messages > 2 * outcomes["none"].home_messages


def test_lost_and_doubled_work_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = Model._receive

    def losing(model: Model, place: int, loot: tuple[TreeBag, int | None]) -> None:
        if place != 3:
            receive(model, place, loot)

    def doubling(model: Model, place: int, loot: tuple[TreeBag, int | None]) -> None:
        loot[0].count += place == 3
        receive(model, place, loot)

    monkeypatch.setattr(Model, "_receive", losing)
    with pytest.raises(LedgerError, match="bags were sent"):
        Model(SMALL).run()
    monkeypatch.setattr(Model, "_receive", doubling)
    with pytest.raises(ModelError, match="nodes were found"):
        Model(SMALL).run()


def test_progress_is_reported() -> None:
    seen: list[tuple[float, float]] = []
    Model(replace(SMALL, places=200, work_s=0.5), on_progress=lambda *news: seen.append(news)).run()
    assert seen == sorted(seen)
    assert 0 < seen[-1][0] <= 1


def test_spread_counts_places_that_never_worked() -> None:
    assert spread([3.0, 1.0, 2.0], 4) is None
    assert spread([3.0, 1.0, 2.0], 3) == 3.0
    assert spread([9.0, *range(99)], 100) == 97.0
    assert spread([0.0], 1) == 0.0


def test_numbers_of_places() -> None:
    assert parse_places("16..100") == (16, 64, 100)
    assert parse_places("8,2..32") == (2, 8, 32)
    for wrong in ("", "x", "1", "16..", "2000000"):
        with pytest.raises(BadUsage):
            parse_places(wrong)


def test_all_by_place_0_itself_is_left_out_where_that_is_too_much() -> None:
    sizes = Sweep(places=(16, 64), base=Job(places=2), at=16).sizes
    assert [(job.places, job.finish) for job in sizes] == [(16, "tree"), (64, "tree"), (16, "home")]


def test_news_and_counts_of_many_places_take_little_by_trees() -> None:
    few, many = (Job(places=places) for places in (100, 3000))
    for job in (few, many):
        home = news_s(replace(job, finish="home"), Machine())
        assert home > job.places * Machine().message_s > 4 * news_s(job, Machine())
    assert news_s(many, Machine()) < 3 * news_s(few, Machine())
    outcomes = {finish: Model(replace(SMALL, places=300, finish=finish)).run() for finish in ("home", "tree")}
    assert outcomes["home"].collect_s > 5 * outcomes["tree"].collect_s > 0
    dear = Model(replace(SMALL, places=300), Machine(count_s=1e-3)).run()
    assert 0.9 < (dear.collect_s - outcomes["tree"].collect_s) / 0.3 < 1.1


def test_news_that_do_not_reach_all_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    planted.pass_news_to_all_children_but_one(monkeypatch)
    with pytest.raises(ModelError, match="of 300 places entered the epoch"):
        news_s(Job(places=300), Machine())


def test_the_title_says_what_the_first_panel_shows() -> None:
    drawing = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed")
    made = Sweep(places=(16, 64), base=Job(places=2, work_s=0.2), at=16)
    made.points = {
        job: Computation(job, 0.75 if job.finish == "home" else 0.875, 0.9, 1.0, 2.0, 3, 0.001, 0.5, 0.5, 1.0, 0.1)
        for job in made.sizes
    }
    axes = drawing.Figure().subplots()
    sweep._efficiency(axes, made)
    ends = {line.get_ydata()[-1] for line in axes.lines}
    assert ends == {87.5, 75.0}
    said = made.finding()
    assert "12.5 % of the time is lost on 64 places" in said
    assert "by place 0 itself 25.0 % on 16" in said
    assert {text.get_text() for text in axes.texts} == set(sweep._FINISH.values())


@pytest.mark.parametrize("figure", per_place.FIGURES)
def test_what_a_place_more_costs_is_measured(figure: str) -> None:
    measured, _ = per_place.FIGURES[figure]
    assert 0 < measured(1024) < 1e-3
    assert hasattr(Machine(), figure)


def test_the_command_shows_what_a_place_more_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert per_place.main(["--places", "1024", "--rounds", "1"]) == 0
    said = capsys.readouterr().out
    assert all(figure in said for figure in per_place.FIGURES)
    assert per_place.main(["--places", "1"]) == 2


def test_the_command_shows_draws_and_does_not_repeat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, drawn = tmp_path / "model.json", tmp_path / "model.png"
    arguments = ["--quick", "--quiet", "--json", str(path)]
    assert sweep.main([*arguments, "--figure", str(drawn)]) == 0
    first = capsys.readouterr().out
    assert "SIMULATED" in first
    assert drawn.read_bytes()[:4] == b"\x89PNG"
    content = json.loads(path.read_text())
    assert content["simulated"] is True
    assert {run["job"]["places"] for run in content["runs"]} == {16, 64}
    monkeypatch.setattr(Model, "run", lambda _: pytest.fail("a run was repeated"))
    assert sweep.main(arguments) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == first.splitlines()[:-2]


@pytest.mark.parametrize(
    "wrong",
    [["--places", "0"], ["--work", "0"], ["--at", "1"], ["--figure", "x.doc"], ["--figure", "no/x.png"], ["--frob"]],
)
def test_bad_usage_is_refused(wrong: list[str]) -> None:
    assert sweep.main([*wrong, "--quiet"]) == 2


def test_a_file_with_something_else_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "notes.json"
    path.write_text("[1]")
    assert sweep.main(["--quick", "--quiet", "--json", str(path)]) == 2
    assert path.read_text() == "[1]"
