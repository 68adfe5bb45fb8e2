"""The checklist: what it says when things work, and when they do not."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apgas import doctor
from apgas.doctor import Check
from apgas.runtime import environment


@pytest.fixture
def fake_bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that comes first in PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def script(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


# What another MPI's mpiexec does to a program of ours: every process is alone.
FOREIGN = 'while [ "$1" != -n ]; do shift; done; n=$2; shift 2; for i in $(seq "$n"); do "$@"; done'


def test_a_line_of_the_list_says_what_came_back() -> None:
    text = doctor.as_text(Check("spawn", True, "spawned", "a process joined after 120 ms"))
    assert text == "ok    spawn             a process joined after 120 ms"


def test_a_failure_says_what_was_tried_and_what_mends_it() -> None:
    lines = doctor.as_text(Check("spawn", False, "spawned one", "no answer", "pip install mpich")).splitlines()
    assert lines[0].startswith("FAIL  spawn")
    assert lines[1].split(maxsplit=1) == ["tried", "spawned one"]
    assert lines[2].split(maxsplit=1) == ["mend", "pip install mpich"]


def test_a_foreign_mpiexec_is_found(fake_bin: Path) -> None:
    script(fake_bin, "mpiexec", FOREIGN)
    result = doctor.check_mpiexec()
    assert result.ok is False
    assert str(fake_bin / "mpiexec") in result.came_back
    assert shlex.split(result.mend or "") == ["source", f"{sys.prefix}/bin/activate"]


def test_worlds_of_one_are_found(fake_bin: Path) -> None:
    script(fake_bin, "mpiexec", FOREIGN)
    result = doctor.check_world()
    assert result.ok is False
    assert "worlds of 1 and 1" in result.came_back


OPEN_MPI = """case "$1" in --version) echo "mpiexec (Open MPI) 5.0.11";; *) exit 1;; esac"""


def test_a_foreign_mpiexec_is_named(fake_bin: Path) -> None:
    script(fake_bin, "mpiexec", OPEN_MPI)
    result = doctor.check_mpiexec()
    assert result.ok is False
    assert "belongs to Open MPI" in result.came_back


def test_an_mpiexec_of_another_mpi_than_the_library_is_found(fake_bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apgas.runtime.environment.right_mpiexec", lambda: None)
    monkeypatch.setattr(doctor, "library", lambda: doctor.Library("MPICH 5.0.2", "multiple", "/usr/lib/libmpi.so.12"))
    script(fake_bin, "mpiexec", OPEN_MPI)
    result = doctor.check_mpiexec()
    assert result.ok is False
    assert "belongs to Open MPI, but Python's MPI is MPICH" in result.came_back
    script(fake_bin, "mpiexec", "echo 'HYDRA build details:'; echo 'Version: 5.0.2'")
    assert doctor.check_mpiexec().ok is True


def test_other_mpis_are_listed_with_what_they_can_do(fake_bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    intel = fake_bin / "intel"
    intel.mkdir()
    script(fake_bin, "mpiexec", OPEN_MPI)
    script(intel, "mpiexec", "echo 'Intel(R) MPI Library for Linux* OS, Version 2021.17 Build 20250826'")
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin:{fake_bin}:{intel}:{fake_bin}")
    result = doctor.check_other_mpis()
    assert result.ok is None
    first, second = result.came_back.split(" | ")
    assert first == f"{fake_bin}/mpiexec: Open MPI 5.0.11, {environment.OPEN_MPI.abilities()}"
    assert second == f"{intel}/mpiexec: Intel MPI 2021.17, {environment.INTEL_MPI.abilities()}"


@pytest.mark.parametrize(
    ("library", "ok", "words"),
    [
        (doctor.Library("Open MPI v5.0.11", "multiple"), True, "malleable jobs, growing on the host"),
        (doctor.Library("Intel(R) MPI Library 2021.17", "multiple"), None, "rigid jobs only"),
        (doctor.Library("MPICH 5.0.2", "funneled"), False, "threads: funneled"),
        (doctor.Library("MVAPICH 4.0", "multiple"), False, "MVAPICH 4.0"),
        (doctor.Library(problem="cannot load MPI library"), False, "cannot load MPI library"),
    ],
)
def test_it_says_what_the_library_can_do(
    library: doctor.Library, ok: bool | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "library", lambda: library)
    result = doctor.check_library()
    assert result.ok is ok
    assert words in result.came_back
    assert bool(result.mend) == (ok is False)


def test_an_mpi4py_that_loads_another_mpi_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = doctor.Library("Open MPI v4.1.4", "multiple", "/usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4")
    monkeypatch.setattr(doctor, "library", lambda: foreign)
    monkeypatch.setenv("MPI4PY_MPIABI", "openmpi")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    result = doctor.check_binding()
    assert (result.ok, result.mend) == (False, "unset MPI4PY_MPIABI")
    assert "libmpi.so.40.30.4 (Open MPI v4.1.4), not the MPICH beside this Python" in result.came_back


def test_two_mpis_in_one_environment_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_installed", lambda known: known is not environment.INTEL_MPI)
    result = doctor.check_binding()
    assert (result.ok, result.mend) == (False, "an environment for each: pip uninstall mpich")


@pytest.mark.skipif(os.geteuid() != 0, reason="for root only")
def test_open_mpi_that_refuses_root_is_explained(fake_bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(fake_bin, "mpiexec", OPEN_MPI)
    monkeypatch.delenv("OMPI_ALLOW_RUN_AS_ROOT", raising=False)
    result = doctor.check_world()
    assert result.ok is False
    assert "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1" in result.mend


def test_what_only_malleable_jobs_need_is_not_asked_of_a_rigid_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "library", lambda: doctor.Library("Intel(R) MPI Library 2021.17", "multiple"))
    assert doctor.check_spawn().ok is None


def test_an_mpiexec_outside_path_is_no_failure(fake_bin: Path) -> None:
    result = doctor.check_mpiexec()
    assert result.ok is None
    assert f"{sys.prefix}/bin/mpiexec" in result.came_back


def test_a_probe_that_hangs_is_ended_at_its_deadline(fake_bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(fake_bin, "sinfo", "sleep 61.25")
    monkeypatch.setattr(doctor.run_probe, "__defaults__", (0.2,))
    began = time.monotonic()
    result = doctor.check_slurm()
    assert result.ok is False
    assert "no answer within" in result.came_back
    assert time.monotonic() - began < 30
    assert "sleep 61.25" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def test_slurm_is_not_needed(fake_bin: Path) -> None:
    assert doctor.check_slurm().ok is None


def test_an_installed_slurm_is_named(fake_bin: Path) -> None:
    script(fake_bin, "sinfo", "echo slurm 24.11.1")
    result = doctor.check_slurm()
    assert (result.ok, result.came_back) == (True, "slurm 24.11.1")


def test_a_host_name_that_does_not_resolve_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "no-such-host.invalid")
    result = doctor.check_host_name()
    assert result.ok is None
    assert "/etc/hosts" in result.came_back


def test_a_full_folder_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ENOUGH_SHARED_BYTES", 1 << 60)
    result = doctor.check_shared_memory()
    assert result.ok is False
    assert "/dev/shm" in result.mend


def test_a_folder_that_cannot_take_a_file_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    for result in (doctor.check_shared_memory(), doctor.check_temporary_folder()):
        assert (result.ok, result.came_back) == (False, "No space left on device")
        assert "free some of it" in result.mend


def test_few_open_files_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, 256))
    result = doctor.check_open_files()
    assert result.ok is False
    assert "ulimit" in result.mend


def test_the_exit_code_tells_whether_something_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fine, absent = Check("one", True, "", "works"), Check("two", None, "", "not here")
    broken = Check("three", False, "tried it", "broken", "mend it")
    monkeypatch.setattr(doctor, "CHECKS", (lambda: fine, lambda: absent))
    assert doctor.main() == 0
    assert "everything that is needed works" in capsys.readouterr().out
    monkeypatch.setattr(doctor, "CHECKS", (lambda: fine, lambda: absent, lambda: broken))
    assert doctor.main() == 1
    assert "1 of 3 checks failed" in capsys.readouterr().out
    assert doctor.run_checks() == [fine, absent, broken]
