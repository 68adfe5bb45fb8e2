"""``benchmarks.load`` in a very small way: the figures belong to a daemon that did what was asked of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import PATIENCE_S
from support.logged import encode

from benchmarks.harness.errors import BadUsage
from benchmarks.load.__main__ import main
from benchmarks.load.daemon import spread
from benchmarks.load.measure import PROGRESS, Load, _waiting, kinds, last_row, measure
from scheduler_bridge.core import events as ev
from scheduler_bridge.daemon import DaemonConfig, JobRequest
from scheduler_bridge.daemon.storage import log_entries, restore
from scheduler_bridge.daemon.storage.log_entries import Entry
from scheduler_bridge.daemon.storage.log_state import spec_of
from scheduler_bridge.daemon.storage.store import Store

SECONDS = 3.0
"""What is counted has to come about in a part of it, also where one of the two processes stands still for a second."""


def test_a_small_load_is_carried_and_reported() -> None:
    said: list[str] = []
    report = measure(Load(queued=40, connected=10, rate=200.0, requests=0.5, ends=0.02, seconds=SECONDS), said.append)
    assert said[0] == "connecting 10 jobs"
    assert (report.queued, report.connected, report.nodes) == (40, 10, 20)
    daemon = report.daemon
    assert daemon.message.count > 100
    assert daemon.decision.count >= 50  # Half of the messages ask for nodes.
    assert daemon.commit.count > 0
    assert report.answer.count > 0
    assert report.answer.p50_s >= daemon.decision.p50_s  # An answer waits for a decision, and for the log.
    assert daemon.open_files > 10
    assert report.resizes_per_s > 0
    counts = {kind.what: kind.count for kind in report.events}
    assert counts["a job has shrunk"] + counts["a job has grown"] >= report.resizes_per_s * daemon.wall_s / 2
    assert min(counts["a job has ended"], counts["a job is submitted"]) > 0
    assert counts["a job asks for a node, or offers one"] >= 50
    assert sum(counts.values()) == pytest.approx(report.per_s() * daemon.wall_s)
    assert report.per_s(handled=True) == pytest.approx(report.per_s() - counts[PROGRESS] / daemon.wall_s)


def test_what_the_core_handled_is_counted_from_the_log(tmp_path: Path) -> None:
    store = Store(tmp_path)
    config = DaemonConfig(("a", "b"), state_dir=tmp_path, policy="easy")
    log_state, _ = restore.restore(store, config, 1)
    job = JobRequest(name="j", command=("x",))
    entries_ = [
        Entry(1.0, (ev.JobSubmitted(spec_of(1, job, 1.0)), ev.WakeUp()), (log_entries.Requested(1, job),)),
        Entry(2.0, (ev.JobStarted(1),)),
        Entry(3.0, (ev.EvolvingRequest(1, 1),)),
    ]
    rows = [encode(entry, log_state.take(entry)) for entry in entries_]
    store.append(rows)
    store.close()
    counts = {kind.what: kind.count for kind in kinds(tmp_path, 2, messages=10) if kind.count}
    assert counts == {"a job has started": 1, "a job asks for a node, or offers one": 1, PROGRESS: 9}
    assert last_row(tmp_path) == 4


def test_waiting_jobs_stay_so_when_one_of_the_others_ends() -> None:
    load = Load(queued=1, connected=100)
    assert all(_waiting(load, index).nodes > load.nodes - load.connected + 49 for index in range(500))
    assert all(_waiting(load, index).nodes <= load.nodes for index in range(500))


@pytest.mark.parametrize(("connected", "ends"), [(20, 0.5), (1, 1.0)])
def test_many_jobs_may_end_at_once_even_all(connected: int, ends: float) -> None:
    report = measure(Load(queued=5, connected=connected, rate=500.0, ends=ends, seconds=SECONDS))
    assert report.connected == connected
    assert report.daemon.message.count > 0


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--queued", "5", "--connected", "3", "--rate", "50", "--seconds", "0.5", "--json"]
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["queued"], report["connected"]) == (5, 3)
    assert report["goals"][0]["what"] == "queued jobs"


@pytest.mark.parametrize(("rate", "seconds"), [(0.0, 1.0), (1.0, 0.0)])
def test_a_load_that_is_none_is_refused(rate: float, seconds: float) -> None:
    with pytest.raises(BadUsage, match="above 0"):
        Load(rate=rate, seconds=seconds)
    assert main(["--rate", str(rate), "--seconds", str(seconds)]) == 2


def test_percentiles_are_values_that_occurred() -> None:
    latencies = spread([index / 100 for index in range(200, 0, -1)])
    assert (latencies.count, latencies.p50_s, latencies.p99_s, latencies.max_s) == (200, 1.0, 1.98, 2.0)
    assert spread([]).count == 0


@pytest.mark.parametrize("said", ["connecting", "events a second"])
def test_a_measurement_that_is_ended_leaves_nothing(said: str, tmp_path: Path) -> None:
    words = ["--queued", "50", "--connected", "3", "--rate", "50", "--seconds", "600"]
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.load", *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stderr is not None
        while said not in process.stderr.readline():
            assert process.poll() is None
        assert any(tmp_path.iterdir())
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path) in _read(path)]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
