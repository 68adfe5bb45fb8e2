"""Which files of MPI a place may unlink."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
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


def _is_swept(path: Path) -> bool:
    """Whether a sweep takes an old file away. Each job that begins on this machine sweeps, too, and may be quicker."""
    for _ in range(100):
        path.touch()
        _age(path, environment.OLD_S + 10)
        if str(path) in environment.sweep():
            return True
    return False


def test_what_killed_jobs_left_is_swept(segment: Path) -> None:
    assert _is_swept(segment)
    assert not segment.exists()
    assert str(segment) not in environment.sweep()


def test_what_is_young_or_in_use_is_not_swept(segment: Path) -> None:
    assert str(segment) not in environment.sweep()
    with segment.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        _age(segment, environment.OLD_S + 10)  # not before: other jobs sweep, too
        assert str(segment) not in environment.sweep()
        assert segment.exists()


@pytest.mark.parametrize(
    ("size", "free", "enough"),
    [(1 << 20, 1 << 20, False), (4 << 20, 4 << 20, True), (4 << 20, 1 << 20, False), (0, 0, True)],
)
def test_too_little_shared_memory_is_said_and_not_died_of(
    size: int, free: int, enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MPICH dies of SIGBUS in MPI_Init."""
    monkeypatch.setattr(os, "listdir", lambda _: [])
    found = SimpleNamespace(f_blocks=size // 4096, f_bavail=free // 4096, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    what = rf"/dev/shm has {size >> 20}\.00 MiB, 1\.00 MiB of them free, and MPI needs 2\.03 MiB for 2 places"
    with nullcontext() if enough else pytest.raises(UsageError, match=what):
        environment.check_shared_memory(2)
    monkeypatch.setattr(os, "statvfs", Mock(side_effect=FileNotFoundError))
    environment.check_shared_memory(2)


def test_what_places_that_begin_have_taken_counts_as_theirs(segment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment.write_bytes(b"\0" * (2 << 20))
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_blocks=1024, f_bavail=64, f_frsize=4096))
    monkeypatch.setattr(os, "listdir", lambda _: ["mpich_shm_gone", segment.name])
    environment.check_shared_memory(2)
    segment.unlink()
    with pytest.raises(UsageError, match=r"0\.25 MiB of them free"):
        environment.check_shared_memory(2)


BUS_ERROR = """
import mmap, os, sys, tempfile, threading
from types import SimpleNamespace
from apgas.runtime import environment
environment._name_bus_errors()
free = int(sys.argv[1])
os.statvfs = lambda _: SimpleNamespace(f_bavail=free)
def fail():
    with tempfile.TemporaryFile() as file:
        file.truncate(8192)
        memory = mmap.mmap(file.fileno(), 8192)
        file.truncate(0)
        memory[5000] = 1
thread = threading.Thread(target=fail)
thread.start()
thread.join()
"""


@pytest.mark.parametrize(("free", "code"), [(0, 135), (1, -signal.SIGBUS)])
def test_the_death_of_a_full_shared_memory_is_explained_and_no_other(free: int, code: int) -> None:
    done = subprocess.run([sys.executable, "-c", BUS_ERROR, str(free)], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert done.stderr.endswith("ends: /dev/shm is full, and MPI's memory is in it\n") == (not free)


def test_the_segments_of_one_process_go() -> None:
    """Libfabric names them by the process; no process has this number."""
    pid = int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii")) + os.getpid()
    ours = [Path(f"/dev/shm/{pid}:0:{number}") for number in range(2)]
    others = [Path(f"/dev/shm/{pid}1:0:0"), Path(f"/dev/shm/{pid}:notes")]
    try:
        for path in (*ours, *others):
            path.touch()
        environment.unlink_segments(pid)
        assert not any(path.exists() for path in ours)
        assert _is_swept(others[0])
        assert others[1].exists()
    finally:
        for path in (*ours, *others):
            path.unlink(missing_ok=True)
