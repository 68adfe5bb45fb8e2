"""What users used is summed over all runs, and counts for the policy penalty in the next one."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from support import PATIENCE_S

from scheduler_bridge.cli.app import run
from scheduler_bridge.daemon import DaemonConfig, DaemonThread, JobRequest
from scheduler_bridge.daemon.storage.restore import restore
from scheduler_bridge.daemon.storage.store import Store


def batch(folder: Path, **walltimes_s: float) -> None:
    with DaemonThread(DaemonConfig(("a", "b"), state_dir=folder)) as daemon:
        for user, walltime_s in walltimes_s.items():
            daemon.submit(JobRequest(name="j", command=("true",), launch="direct", user=user, walltime_s=walltime_s))
        daemon.idle(timeout_s=PATIENCE_S)


def test_users_are_known_from_run_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch(tmp_path, anna=3600.0, ben=3600.0)
    batch(tmp_path, anna=0.001)
    assert run(["report", "--users", "--json", "--state", str(tmp_path)]) == 0
    uses = {use["user"]: use for use in json.loads(capsys.readouterr().out)}
    assert {user: (use["jobs"], use["completed"] + use["failed"]) for user, use in uses.items()} == {
        "anna": (2, 2),
        "ben": (1, 1),
    }
    assert 0.4 < uses["anna"]["accuracy"] <= 0.6, "one job used next to nothing, the other all it asked for"
    assert run(["report", "--users", "--csv", "--state", str(tmp_path)]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["user"]: row["jobs"] for row in rows} == {"anna": "2", "ben": "1"}
    assert run(["report", "--users", "--run", "1", "--state", str(tmp_path)]) == 0
    assert "anna  " in capsys.readouterr().out
    store = Store(tmp_path)
    try:
        core = restore(store, DaemonConfig(("a", "b"), state_dir=tmp_path), 1)[0].core
    finally:
        store.close()
    used = core.past_use
    assert {user: len(parts) for user, parts in used.items()} == {"anna": 2, "ben": 1}
    assert sum(used["anna"]) / 2 == pytest.approx(uses["anna"]["accuracy"])


@pytest.mark.parametrize("words", [["--csv"], ["--users", "--png", "x.png"]])
def test_what_does_not_go_together_is_named(words: list[str], tmp_path: Path) -> None:
    assert run(["report", *words, "--state", str(tmp_path)]) == 2
