"""Strong scaling on emulated nodes: the pace, speed-ups, the published times, table and picture, without any run."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.errors import BadUsage
from benchmarks.scaling import catalogue
from benchmarks.scaling.__main__ import main, parse_nodes
from benchmarks.scaling.catalogue import PROGRAMS, Published, one_node_s
from benchmarks.scaling.cores import OnCores, on_cores
from benchmarks.scaling.emulated import Scaling, Series

CSV = "program,size,nodes,runs,median_s,min_s,max_s\nUTS,18,1,16,200,1,2\nUTS,18,4,3,60,1,2\nUTS,20,8,3,400,1,2\n"


def scaling(
    nodes: tuple[int, ...], rounds: int = 1, *, quick: bool = False, published: Published | None = None
) -> Scaling:
    return Scaling(
        rounds=rounds,
        programs=list(PROGRAMS.values()),
        nodes=nodes,
        share=0.8,
        least_s=1.0,
        quick=quick,
        published=published or {},
        cores=2,
    )


def measured(published: Published | None = None) -> Scaling:
    uts = Series(PROGRAMS["uts"], ("--depth", "14"), "nodes", 44e6, 0.1, verified=True)
    uts.runs_s = {1: [24.0, 25.0, 23.0], 16: [2.0, 1.6, 1.5], 4: [6.25]}
    uts.lag_s = {1: 0.01, 4: 0.02, 16: 0.4}
    uts.resizes = [
        {"kind": kind, "nodes": 8, "seconds": seconds} for kind, seconds in (("grow", 0.12), ("shrink", 0.01))
    ]
    results = scaling((1, 4, 16), 3, published=published)
    results.series = {"uts": uts, "pi": Series(PROGRAMS["pi"], ("--samples", "1e9"))}
    results.failures["pi", "ours"] = "it has ended: no room"
    results.ended = True
    return results


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Published:
    folder = tmp_path / "reference" / "real-runs-32-nodes"
    folder.mkdir(parents=True)
    (folder / "strong_scaling.csv").write_text(CSV)
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    return catalogue.read_published()


def test_all_nodes_together_stay_within_their_share() -> None:
    one_s = one_node_s(2.4, nodes=16, cores=2, share=0.8, least_s=1)
    assert one_s == pytest.approx(24)
    assert 16 * 2.4 / one_s == pytest.approx(0.8 * 2)
    assert one_node_s(0.001, 16, 2, 0.8, least_s=16) == 16


def test_speedups_are_of_medians_over_one_node() -> None:
    uts = measured().series["uts"]
    assert uts.seconds == {1: 24.0, 4: 6.25, 16: 1.6}
    assert uts.speedup(16) == 15.0
    assert uts.speedup(2) is None
    assert [uts.late(nodes) for nodes in (1, 4, 16)] == [False, False, True]


def test_the_published_times_are_read(published: Published) -> None:
    assert published == {"UTS": {"18": {1: 200.0, 4: 60.0}, "20": {8: 400.0}}}
    assert catalogue.efficiency(published["UTS"]["18"], 4) == pytest.approx(200 / 240)
    assert catalogue.efficiency(published["UTS"]["20"], 8) is None
    assert [
        catalogue.spoken_problem("18", "d = "),
        catalogue.spoken_problem("80000000000", ""),
        catalogue.spoken_problem("1200000000000", ""),
    ] == [
        "d = 18",
        "8e10",
        "1.2e12",
    ]


@pytest.mark.usefixtures("published")
def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "reference" / "real-runs-32-nodes" / "strong_scaling.csv"
    file.write_text("program,size\nUTS,18\n")
    with pytest.raises(ValueError, match=r"strong_scaling\.csv:2"):
        catalogue.read_published()


def test_the_published_times_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    assert catalogue.read_published() == {}


def test_the_table_tells_what_is_emulated_late_and_wrong(published: Published) -> None:
    stream = io.StringIO()
    results = measured(published)
    results.show(stream)
    text = stream.getvalue()
    for words in (
        "EMULATED",
        "80 % of 2 cores",
        "UTS --depth 14, 44.0 M nodes/s a node (10.0 % of a core)",
        "15.00",
        "93.8 %",
        "83.3 %",
        "late by 400 ms",
        "+8 nodes took 120 ms",
        "Pi FAILED: it has ended: no room",
    ):
        assert words in text, words
    assert not results.complete
    stream = io.StringIO()
    measured().show(stream)
    assert "paper" not in stream.getvalue()


def test_places_on_cores_are_held_to_as_many_copies(tmp_path: Path) -> None:
    uts = Series(PROGRAMS["uts"], ["--depth", "16"], "nodes", runs_s={1: [20.0], 4: [6.0, 5.0, 5.5]}, tasks=1000)
    uts.copies = {1: [50.0], 4: [190.0, 200.0, 210.0]}
    results = OnCores(rounds=3, programs=[PROGRAMS["uts"]], nodes=on_cores(6), quick=False, series={"uts": uts})
    assert results.nodes == (1, 2, 4, 6)
    (sheet,) = results.sheets()
    assert [row[3:] for row in sheet.sections[0]] == [["1.00", "100.0 %", "100.0 %"], ["3.64", "90.9 %", "90.9 %"]]
    content: Any = results.as_json()
    assert content["series"][0]["copies_tasks_per_s"]["4"] == [190.0, 200.0, 210.0]
    assert "emulated" not in content
    path = tmp_path / "cores.png"
    results.draw("a processor").savefig(path)
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_the_picture_is_drawn_with_and_without_the_papers_times(tmp_path: Path, published: Published) -> None:
    for name, times in (("with", published), ("without", {})):
        path = tmp_path / f"{name}.png"
        measured(times).draw("a processor").savefig(path)
        assert path.read_bytes()[:4] == b"\x89PNG"


def test_the_result_is_written_with_its_doubts() -> None:
    content: Any = measured().as_json()
    uts, pi = content["series"]
    assert uts["nodes"]["16"] == {
        "seconds": 1.6,
        "runs_s": [2.0, 1.6, 1.5],
        "speedup": 15.0,
        "worst_lag_s": 0.4,
        "trusted": False,
    }
    assert pi["failure"] == "it has ended: no room"


def test_steps_are_counted() -> None:
    assert scaling((1, 2, 4), 3).steps == 4 * (1 + 9 + 1)
    assert scaling((1, 4), quick=True).steps == 4 * 3


def test_numbers_of_nodes() -> None:
    assert parse_nodes("8,2, 2") == (1, 2, 8)
    for wrong in ("0", "x", "100", "1,,2"):
        with pytest.raises(BadUsage):
            parse_nodes(wrong)


@pytest.mark.parametrize(
    "wrong", [["--rounds", "0"], ["--share", "0.9"], ["--share", "0"], ["--benchmarks", "linpack"], ["--nodes", "0"]]
)
def test_bad_usage_is_refused(wrong: list[str]) -> None:
    assert main([*wrong, "--quiet"]) == 2
