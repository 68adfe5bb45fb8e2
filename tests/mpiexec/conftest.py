"""What the tests with real MPI jobs share."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from support.daemons import BIRTHMARK
from support.mpi import LAUNCH, MPICH, OPEN_MPI, Mpi, need_openmpi

from scheduler_bridge.daemon import DaemonConfig


@pytest.fixture(params=[MPICH, LAUNCH, OPEN_MPI], ids=lambda mpi: str(mpi.name))
def mpi(request: pytest.FixtureRequest) -> Mpi:
    """Runs the test under both MPIs, and under our own launcher what is started by one."""
    chosen: Mpi = request.param
    if chosen is OPEN_MPI:
        need_openmpi()
    if chosen.launch and request.node.callspec.params.get("places") == 0:
        pytest.skip("it is started without a launcher")
    return chosen


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DaemonConfig:
    """Of a daemon with three nodes whose files are all in the test's own folder."""
    scratch = tmp_path / "tmp"  # Others may run jobs on this machine too.
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv(BIRTHMARK, str(tmp_path))
    return DaemonConfig(nodes=("n1", "n2", "n3"), state_dir=tmp_path / "state", grace_s=0.3)
