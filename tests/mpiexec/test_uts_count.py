"""A long count is stopped by signals and goes on."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from support import PATIENCE_S, start_job


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_and_the_same_command_goes_on(by: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "count"
    nodes = [0]
    for _ in range(2):
        command = ["-m", "benchmarks.uts.count", "--depth", "19", "--checkpoint", str(path), "--every", "0.01"]
        with start_job(["python", *command]) as job:
            until = time.monotonic() + PATIENCE_S
            while (not path.exists() or counted(path) <= nodes[-1]) and time.monotonic() < until:
                time.sleep(0.05)
            job.process.send_signal(by)
            ended = job.wait()
        assert ended.rc == 128 + by, ended.err
        assert "the same command goes on" in ended.out
        nodes.append(counted(path))
    assert nodes == sorted(set(nodes))


def counted(path: Path) -> int:
    nodes: int = json.loads(path.read_text())["nodes"]
    # the state before the first piece is saved, too: the root
    return nodes - 1
