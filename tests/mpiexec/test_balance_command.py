"""The command with real places and bare kernels: every measure answers, and nothing is left behind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from support import Leftovers, python_run

from benchmarks.balance.catalogue import MEASURES


def test_every_measure_answers(tmp_path: Path, leftovers: Leftovers) -> None:
    result = tmp_path / "result.json"
    words = "--rounds 1 --depth 10 --nap 0.2 --quiet --json"
    job = python_run(["-m", "benchmarks.balance", *words.split(), str(result)])
    assert job.rc == 0, job.out + job.err
    assert job.err == ""
    content = json.loads(result.read_text())
    assert content["ended"] is True
    assert content["failures"] == {}
    assert {line["measure"] for line in content["lines"]} == set(MEASURES)
    for line in content["lines"]:
        if line["key"].startswith("twin") and shutil.which("gcc") is None:
            continue
        assert len(line["runs"]) == 1
        assert line["runs"][0] > 0
    for measure in MEASURES.values():
        for quantity in measure.quantities:
            assert quantity.title.partition(":")[0] in job.out
    leftovers.check()
