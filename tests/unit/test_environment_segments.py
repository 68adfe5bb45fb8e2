"""Which files of MPI a place may unlink."""

from __future__ import annotations

import mmap
import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from support import PATIENCE_S

from apgas.errors import UsageError
from apgas.runtime import environment


@pytest.fixture
def segment() -> Iterator[Path]:
    """A file that looks like a segment of MPICH."""
    path = Path(f"/dev/shm/mpich_shm_test{uuid.uuid4().hex}_0")
    path.write_bytes(b"\0" * mmap.PAGESIZE)
    yield path
    path.unlink(missing_ok=True)


def test_a_mapped_segment_goes_and_stays_usable(segment: Path) -> None:
    with segment.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        assert environment.unlink_leftovers() == [str(segment)]
        memory[0] = 7
        assert memory[0] == 7
        assert not segment.exists()
        assert environment.unlink_leftovers() == []


def test_segments_of_others_stay(segment: Path) -> None:
    assert environment.unlink_leftovers() == []
    assert segment.exists()


def test_the_topology_file_of_the_proxy_above_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topology = tmp_path / "hydra_hwloc_xmlfile_test"
    other = tmp_path / "something_else"
    topology.touch()
    other.touch()
    # `exec -a` does not change what the kernel calls the process: a copy under the proxy's name does.
    proxy = tmp_path / "hydra_pmi_proxy"
    proxy.write_bytes(Path("/bin/sh").resolve().read_bytes())
    proxy.chmod(0o700)
    with subprocess.Popen(
        [proxy, "-c", f"exec 8<{topology} 9<{other}; echo; read _"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        monkeypatch.setattr(os, "getppid", lambda: process.pid)
        assert environment.unlink_leftovers() == [str(topology)]
        assert not topology.exists()
        assert other.exists()
        assert environment.unlink_leftovers() == []
        process.communicate(b"\n", timeout=PATIENCE_S)


def test_without_a_proxy_nothing_is_found_and_nothing_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getppid", lambda: 2**22 + 1)  # no such process
    assert environment.unlink_leftovers() == []


def _age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_what_killed_jobs_left_is_swept(segment: Path) -> None:
    _age(segment, environment.OLD_S + 10)
    assert str(segment) in environment.sweep()
    assert not segment.exists()
    assert str(segment) not in environment.sweep()


def test_what_is_young_or_in_use_is_not_swept(segment: Path) -> None:
    assert str(segment) not in environment.sweep()
    _age(segment, environment.OLD_S + 10)
    with segment.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        assert str(segment) not in environment.sweep()
    assert segment.exists()


@pytest.mark.parametrize(("size", "places", "enough"), [(1 << 20, "2", False), (4 << 20, "2", True), (0, "2", True)])
def test_too_little_shared_memory_is_said_and_not_died_of(
    size: int, places: str, enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MPICH dies of SIGBUS in MPI_Init."""
    monkeypatch.setenv("MPI_LOCALNRANKS", places)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_blocks=size // 4096, f_frsize=4096))
    with nullcontext() if enough else pytest.raises(UsageError, match=r"/dev/shm has 1\.0 MiB, and MPI needs 2\.0 MiB"):
        environment._check_shared_memory()
    monkeypatch.setattr(os, "statvfs", Mock(side_effect=FileNotFoundError))
    environment._check_shared_memory()
