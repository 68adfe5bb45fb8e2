"""``python -m benchmarks.arrays`` with real contenders."""

from __future__ import annotations

import json
from pathlib import Path

from support import Leftovers, python_run

from benchmarks.arrays.__main__ import MEASURES


def test_programs_and_twins_answer_and_rows_move(tmp_path: Path, leftovers: Leftovers) -> None:
    result = tmp_path / "found.json"
    job = python_run(["-m", "benchmarks.arrays", "--rounds", "1", "--quick", "--json", str(result)])
    assert job.rc == 0, job.out + job.err
    content = json.loads(result.read_text(encoding="utf-8"))
    assert (content["ended"], content["failures"], content["quick"]) == (True, [], True)
    assert [line["measure"] for line in content["lines"]] == list(MEASURES)
    for line in content["lines"]:
        beside = {"move": {"echo", "bare"}, "move_fresh": {"bare"}, "background": {"still"}, "dask": {"dask"}}
        assert set(line["medians"]) == {"ours"} | beside.get(line["measure"], {"rigid"})
        assert min(line["medians"].values()) > 0
    assert "these are no figures" in job.out
    leftovers.check()


def test_bad_options_are_refused_with_a_reason() -> None:
    for options, says in ((["--places", "0"], "at least 1 place"), (["--measures", "lu"], 'no "lu"')):
        job = python_run(["-m", "benchmarks.arrays", *options])
        assert (job.rc, job.out) == (2, "")
        assert says in job.err
