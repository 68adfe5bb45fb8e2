"""The doctor against this machine's real MPI."""

from __future__ import annotations

import pytest
from support import ROOT, Leftovers, Mpi, python_run
from support.mpi import MPICH, OPEN_MPI, need_openmpi

from apgas import doctor


@pytest.mark.parametrize(
    "check",
    [doctor.check_library, doctor.check_binding, doctor.check_world, doctor.check_spawn, doctor.check_emulated_nodes],
)
def test_the_checks_of_mpi_pass_here(check: object, leftovers: Leftovers) -> None:
    assert callable(check)
    result = check()
    assert result.ok, doctor.as_text(result)


@pytest.mark.parametrize(("chosen", "says"), [(MPICH, "MPICH 5"), (OPEN_MPI, "Open MPI v5")], ids=["mpich", "openmpi"])
def test_the_list_is_printed_as_plain_text(chosen: Mpi, says: str, leftovers: Leftovers) -> None:
    if chosen is OPEN_MPI:
        need_openmpi()
    done = python_run(["-c", "from apgas import doctor; raise SystemExit(doctor.main())"], cwd=ROOT, mpi=chosen)
    leftovers.check(done.mark)
    assert "\x1b" not in done.out
    assert f"ok    MPI library       {says}" in done.out
    assert "ok    mpi4py's choice" in done.out
    assert "ok    world of 2" in done.out
    assert "ok    spawn" in done.out
    assert done.rc in (0, 1), done.err
    assert done.rc == ("FAIL" in done.out)
