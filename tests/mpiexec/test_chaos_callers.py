"""Strangers on every port while a job runs: its result is exact, and it keeps no memory or descriptor for them."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from stress import soak as soak_module
from stress.soak import Soak, use_of
from support import PATIENCE_S, Leftovers, start_job
from support.leftovers import living
from support.strangers import Address, Strangers, ports_of

MALLEABLE = [sys.executable, "-m", "scheduler_bridge.cli"]


def _ports(mark: str) -> set[Address]:
    """Where places listen themselves: mpiexec and MPI wait for ever for the next word of a stranger."""
    found = ports_of(living(mark))
    local = {name for name in found if isinstance(name, str) and name.startswith("\0apgas/")}
    return local | {(host, int(port)) for _, host, port in (name.split("/") for name in local)}


@pytest.mark.parametrize("transport", ["tcp", "mpi"], ids="over_{}".format)
def test_places_do_not_mind_strangers(transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # callers who say nothing are kept for some seconds, up to a number at a time
    kept = {role: replace(bound, descriptors=bound.descriptors + 150) for role, bound in soak_module.BOUNDS.items()}
    monkeypatch.setattr(soak_module, "BOUNDS", kept)
    options = argparse.Namespace(cycles=3, hours=0.0, transport=transport, seed=3, most=5)
    soak = Soak(options)  # checks what was computed, memory, descriptors and leftovers
    with Strangers(lambda: _ports(soak.mark), seed=1) as strangers:
        soak.run(lambda _: None)
    print(soak.report(0.0), f"{strangers.calls} calls")
    assert strangers.calls > 20


def _verified(result: Path) -> bool:
    text = result.read_text(encoding="utf-8") if result.exists() else ""
    return bool(text) and json.loads(text).get("verified") is True


def test_the_scheduler_does_not_mind_strangers(tmp_path: Path, leftovers: Leftovers) -> None:
    serve: list[str | Path] = [*MALLEABLE, "serve", "--nodes", "2", "--state", str(tmp_path / "state")]
    result = tmp_path / "pi.json"
    pi = ["-m", "benchmarks.pi", "--samples", "1e9", "--workers", "1", "--json", str(result)]
    with start_job(serve, {"TMPDIR": str(tmp_path)}) as daemon:
        daemon.expect("ready")
        pid = daemon.process.pid
        before = use_of(pid)
        with Strangers(lambda: ports_of([pid]), seed=2) as strangers:
            command = [*MALLEABLE, "submit", "--state", str(tmp_path / "state"), "--", sys.executable, *pi]
            subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
            until = time.monotonic() + PATIENCE_S
            while not (_verified(result) and strangers.calls > 20) and time.monotonic() < until:
                time.sleep(0.05)
        after = use_of(pid)
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.wait(PATIENCE_S).rc == 0
        leftovers.check(daemon.mark)
    assert _verified(result), result.read_text(encoding="utf-8")
    assert before is not None
    assert after is not None
    assert strangers.calls > 20
    assert after.descriptors <= before.descriptors + 80, "strangers are kept waiting without end"
    assert after.memory_bytes <= before.memory_bytes + 32 * 2**20
