"""The page of an experiment: one file that says where its numbers come from, for those who do not see it, too."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from matplotlib.figure import Figure
from support import ROOT
from support.outlines import fetches, outline

from apgas.provenance import commit, unchanged
from scheduler_bridge.cli.app import run as malleable
from scheduler_bridge.experiments import study_report
from scheduler_bridge.experiments.study_report import (
    DataTable,
    Picture,
    StudyReport,
    listed,
    of_rows,
    origin_of,
    there,
    write_report,
)
from scheduler_bridge.experiments.sweep import Cell, Origin, Row, sweep

HOSTILE = "</td><script>alert(1)</script>"


def _figure() -> Figure:
    figure = Figure(figsize=(2.0, 1.0))
    axes = figure.subplots()
    axes.plot([1, 2], [3, 4], marker="o")
    axes.imshow([[0.0, 1.0]])
    return figure


def _report(text: str = "fine") -> StudyReport:
    table = DataTable("means", "Means", ("policy", "wait, s"), ((text, 12.0), ("avg", None), ("min", -3.5)))
    pictures = {name: Picture(_figure(), f"{name} of 4 seeds", f"Two bars: {text}") for name in ("wait", "map")}
    return StudyReport("mebf", "A paper", text, (text,), (table,), pictures, True, {"seeds": "1-4"})


def render(report: StudyReport, command: str) -> str:
    return study_report.render(report, origin_of(report, command))


def test_the_page_fetches_nothing_and_escapes_what_it_says() -> None:
    text = render(_report(HOSTILE), HOSTILE)
    assert fetches(text) == []
    assert "<script>alert" not in text
    assert text.count("<script>") == 1


def test_the_page_can_be_read_without_seeing_it() -> None:
    parsed = outline(render(_report(), "malleable experiment mebf"))
    tags = [tag for tag, _ in parsed.tags]
    assert tags.count("h1") == tags.count("main") == 1
    labels = [attributes["aria-label"] for tag, attributes in parsed.tags if tag == "svg"]
    assert labels == ["Two bars: fine The numbers are in the tables."] * 2
    assert all(attributes.get("scope") == "col" for tag, attributes in parsed.tags if tag == "th")
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids)), "no two parts of the page have one id"
    links = {attributes["href"] for tag, attributes in parsed.tags if tag == "a"}
    assert links == {"#means", "#provenance", "#reproduce"}
    assert {link.removeprefix("#") for link in links if link} <= set(ids)


def test_tables_are_sortable_by_their_numbers() -> None:
    text = render(_report(), "again")
    assert 'class="sortable"' in text
    for shown in ('data-sort="12.0">12.0<', 'data-sort="-Infinity">-<', 'data-sort="-3.5">-3.5<'):
        assert shown in text
    assert "prefers-color-scheme: dark" in text


def test_the_page_says_where_its_numbers_come_from() -> None:
    text = render(_report(), "malleable experiment mebf --scale small")
    for shown in (
        "<td>seeds</td><td>1-4</td>",
        "<td>reported on</td>",
        "<td>commit</td>",
        "<td>data</td><td>none</td>",
        "cores",
        "malleable experiment mebf --scale",
    ):
        assert shown in text


def test_simulations_of_two_versions_are_both_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert listed([5, 3, 4, 0, 9, 3]) == "0, 3-5, 9"
    one, other = (Origin(1.5, version, "c" * 40, "3.12", "cpu") for version in ("1", "2"))
    cells = [Cell("t", "easy", 0, seed) for seed in (1, 2, 3)]
    facts = of_rows([Row(cell, {}, origin) for cell, origin in zip(cells, (one, other, one), strict=True)])
    assert facts == {
        "simulations": "3",
        "seeds": "1-3",
        "simulations took": "4.5 s in all",
        "simulated with": "malleable-apgas 1, commit cccccccccccc, Python 3.12, on cpu; "
        "malleable-apgas 2, commit cccccccccccc, Python 3.12, on cpu",
    }
    monkeypatch.setattr(study_report, "commit", lambda _: None)
    assert "<td>commit</td><td>outside of a checkout</td>" in render(_report(), "again")


def test_beside_the_results_stands_where_they_come_from(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    log.write_bytes(b"1 2 3\n")
    claims = DataTable("claims", "Claims", ("claim", "verdict"), (("a", "held"), ("b", "differs"), ("c", "held")))
    report = replace(_report(), tables=(*_report().tables, claims), data=there(tmp_path, ["log.swf", "absent.swf"]))
    files = {path.name for path in write_report(report, tmp_path / "out", reproduce="malleable experiment mebf")}
    note = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert (note["experiment"], note["command"]) == ("mebf", "malleable experiment mebf")
    assert note["claims"] == {"held": 2, "differs": 1}
    assert set(note["files"]) | {"results.json"} == files == {path.name for path in (tmp_path / "out").iterdir()}
    assert note["remarks"] == list(report.remarks)
    assert note["from"]["seeds"] == "1-4"
    assert note["from"]["data"] == {"log.swf": f"sha256 {sha256(b'1 2 3' + bytes([10])).hexdigest()}"}
    assert note["from"]["commit"] == commit(ROOT)
    assert there(None, ["log.swf"]) == ()


def test_code_that_is_not_that_of_the_commit_is_called_so(tmp_path: Path) -> None:
    assert unchanged(tmp_path) is None
    for folder in (tmp_path, tmp_path / "docs"):
        folder.mkdir(exist_ok=True)
        (folder / "file").write_text("old")
    name = ("-c", "user.name=n", "-c", "user.email=e")
    for words in (("init", "-q"), ("add", "."), (*name, "commit", "-qm", "first")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, timeout=30)
    (tmp_path / "docs" / "file").write_text("results")
    assert unchanged(tmp_path / "docs") is True
    (tmp_path / "file").write_text("new")
    assert unchanged(tmp_path / "docs") is False


def test_rows_of_a_sweep_know_where_they_come_from() -> None:
    cell = Cell("t", "easy", 0, 1)
    (row,) = sweep([cell], lambda _: {"wait_s": 1.0}, ("wait_s",))
    assert row.origin is not None
    assert row.origin.cpu
    assert row == Row(cell, {"wait_s": 1.0}), "the same numbers from elsewhere are the same"


@pytest.mark.parametrize("data", [None, "reference"])
def test_again_names_the_data_only_where_it_was_given(
    data: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from scheduler_bridge.cli import experiment

    monkeypatch.delenv("MALLEABLE_DATA", raising=False)
    entry = experiment.Entry("one", lambda _: _report())
    monkeypatch.setattr(experiment, "EXPERIMENTS", {"mebf": entry})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reference").mkdir()
    given = [] if data is None else ["--data", data]
    assert malleable(["experiment", "mebf", "--out", str(tmp_path), *given]) == 0
    assert "report.html" in capsys.readouterr().out
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (
        f"malleable experiment mebf --scale small --out {tmp_path}{' --data reference' * (data is not None)}</pre>"
        in text
    )


def test_folders_that_are_none_are_reported_before_anything_is_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from scheduler_bridge.cli import experiment

    entry = experiment.Entry("one", lambda _: pytest.fail("it simulates"))
    monkeypatch.setattr(experiment, "EXPERIMENTS", {"mebf": entry})
    (tmp_path / "file").write_text("")
    assert malleable(["experiment", "mebf", "--data", str(tmp_path / "data")]) == 1
    assert f"--data {tmp_path / 'data'}: there is no such folder" in capsys.readouterr().err
    assert malleable(["experiment", "mebf", "--out", str(tmp_path / "file")]) == 2
    assert f"--out {tmp_path / 'file'}: this is a file" in capsys.readouterr().err
