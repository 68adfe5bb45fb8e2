"""``python -m benchmarks.executors`` with real executors."""

from __future__ import annotations

import json
from pathlib import Path

from support import Leftovers, python_run

from benchmarks.executors.__main__ import MEASURES


def test_every_executor_answers_and_page_and_picture_are_written(tmp_path: Path, leftovers: Leftovers) -> None:
    result, figure, page = tmp_path / "found.json", tmp_path / "found.png", tmp_path / "found.md"
    names = [name for name in MEASURES if name != "sweep"]
    files = ("--json", str(result), "--figure", str(figure), "--page", str(page))
    job = python_run(["-m", "benchmarks.executors", "--rounds", "1", "--measures", ",".join(names), *files])
    assert job.rc == 0, job.out + job.err
    content = json.loads(result.read_text(encoding="utf-8"))
    assert (content["ended"], content["failures"]) == (True, [])
    for line in content["lines"]:
        alone = line["what"].endswith("scattered before")
        assert set(line["medians"]) == ({"ours"} if alone else {"ours", "pool", "futures", "loky"})
        assert min(line["medians"].values()) > 0
    assert "found.png" in page.read_text(encoding="utf-8")
    assert figure.stat().st_size > 10_000
    leftovers.check()


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    job = python_run(["-m", "benchmarks.executors", "--page", str(tmp_path / "missing" / "page.md")])
    assert job.rc == 2
    assert job.out == ""
    assert "--page" in job.err.splitlines()[0]
