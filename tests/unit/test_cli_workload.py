"""``malleable workload``, as a user types it."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from scheduler_bridge.cli.app import run
from scheduler_bridge.workloads import read_swf

HEADER = "; MaxNodes: 4\n; UnixStartTime: 86400\n"


def swf(path: Path, jobs: int = 10) -> Path:
    lines = (f"{job} {job * 3600} 5 100 {1 + job % 4} -1 -1 -1 200 -1 1 3 4 -1 2 1 -1 -1\n" for job in range(jobs))
    path.write_text(HEADER + "".join(lines) + "broken\n")
    return path


def out(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    code = run(["workload", *map(str, words)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert run(["workload", *map(str, words)]) == 2
    return capsys.readouterr().err


def test_stats_tell_numbers_and_broken_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, png = swf(tmp_path / "w.swf"), tmp_path / "w.png"
    text = out(capsys, "stats", file, "--png", png)
    assert "w: 10 jobs for 4 nodes" in text
    assert "not 18 numbers" in text
    assert struct.unpack(">II", png.read_bytes()[16:24]) == (1320, 792)
    numbers = json.loads(out(capsys, "stats", file, "--json"))
    assert (numbers["jobs"], numbers["synthetic"], numbers["sizes"]["largest"]) == (10, False, 4)
    assert numbers["findings"]["skipped"]["not 18 numbers"]["count"] == 1


def test_a_window_by_date_or_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = swf(tmp_path / "w.swf")
    for begin in ("1970-01-02T05:00:00", "18000"):
        numbers = json.loads(out(capsys, "stats", file, "--from", begin, "--days", "0.125", "--json"))
        assert numbers["jobs"] == 3
    for option in ("--from", "--start"):  # names of one option
        assert "--from/--start soon: neither a date nor seconds" in refused(capsys, "stats", file, option, "soon")
        assert "change --from/--start or --days" in refused(capsys, "stats", file, option, "9999999")


def test_convert_writes_malleable_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "m.swf.gz"
    text = out(capsys, "convert", swf(tmp_path / "w.swf"), "--malleable", "0.5", "--seed", "3", "-o", target)
    assert "5 malleable jobs" in text
    assert sum(job.is_malleable for job in read_swf(target).jobs) == 5
    picture = tmp_path / "w.png"
    out(
        capsys, "convert", tmp_path / "w.swf", "--evolving", "0.4", "--rule", "mebf-low", "-o", target, "--png", picture
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert sum(bool(job.wishes) for job in read_swf(target).jobs) == 4
    assert "no such rule" in refused(capsys, "convert", tmp_path / "w.swf", "--rule", "x", "-o", target)


def test_clean_tells_the_node_hours_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cori.csv"
    path.write_text(
        "Job,Submit,Start,End,Elapsed Secs,Nodes Allocated,Raw Hours,Host Name\n"
        "1,2022-11-06 20:00:00,2022-11-06 21:00:00,2022-11-06 22:00:00,3600,3,3.0,cori knl\n"
        "2,2022-11-06 20:00:00,2022-11-06 21:00:00,2022-11-06 22:00:00,3600,1,0.1,cori knl\n"
    )
    text = out(capsys, "clean", path, "-o", tmp_path / "c.swf")
    assert "shared its nodes" in text
    assert "1 node-hours lost: 25.000 %" in text
    assert len(read_swf(tmp_path / "c.swf")) == 1


def test_generate_lists_draws_and_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Lublin and Feitelson" in out(capsys, "generate")
    assert "lublin" in json.loads(out(capsys, "generate", "--json"))
    target = tmp_path / "g.swf"
    text = out(capsys, "generate", "lublin", "--seed", "1", "--set", "jobs=50", "--set", "load=0.7", "-o", target)
    assert "SYNTHETIC" in text
    assert len(read_swf(target)) == 50


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("generate", "nothing"), "unknown generator"),
        (("generate", "lublin", "--set", "jobs"), "no value"),
        (("generate", "lublin", "--set", "jobs=many"), "not a whole number"),
        (("generate", "lublin", "--set", "size=1"), "no option 'size'"),
        (("stats", "README.md"), "unknown form"),
    ],
)
def test_mistakes_are_explained(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], what: str) -> None:
    assert what in refused(capsys, *words)


def test_top_up_marks_what_it_adds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "full.swf"
    file = swf(tmp_path / "w.swf")
    assert "w, topped up (synthetic): 40 jobs" in out(
        capsys, "top-up", file, "--nodes", "512", "--jobs", "40", "-o", target
    )
    jobs = read_swf(target).jobs
    assert sum(job.name == "synthetic" for job in jobs) == 30
    assert "has 10 jobs already" in refused(capsys, "top-up", file, "--nodes", "512", "--jobs", "10", "-o", target)
    assert "has 4 nodes" in refused(capsys, "top-up", file, "--jobs", "40", "-o", target)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "no-folder" / "x.swf"
    assert run(["workload", "convert", str(swf(tmp_path / "w.swf")), "-o", str(target)]) == 1
    assert f"--output {target}: there is no folder {target.parent}\n" in capsys.readouterr().err
    assert "another ending than .swf or .swf.gz" in refused(capsys, "generate", "batch", "-o", tmp_path / "batch.toml")
    assert "another ending than .png" in refused(capsys, "generate", "batch", "--png", tmp_path / "batch.pdf")
    assert "this is a folder" in refused(capsys, "generate", "batch", "-o", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["w.swf"]
