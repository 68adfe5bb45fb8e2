"""The doctor against this machine's real MPI."""

from __future__ import annotations

import pytest
from support import ROOT, Leftovers, python_run

from apgas import doctor


@pytest.mark.parametrize(
    "check", [doctor.check_library, doctor.check_world, doctor.check_spawn, doctor.check_emulated_nodes]
)
def test_the_checks_of_mpi_pass_here(check: object, leftovers: Leftovers) -> None:
    assert callable(check)
    result = check()
    assert result.ok, doctor.as_text(result)


def test_the_list_is_printed_as_plain_text(leftovers: Leftovers) -> None:
    done = python_run(["-c", "from apgas import doctor; raise SystemExit(doctor.main())"], cwd=ROOT)
    leftovers.check(done.mark)
    assert "\x1b" not in done.out
    assert "world of 2" in done.out
    assert done.rc in (0, 1), done.err
    assert done.rc == ("FAIL" in done.out)
