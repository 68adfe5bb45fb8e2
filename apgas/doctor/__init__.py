"""Checks what works on this machine, and says how to mend what does not.

Every check tries the real thing, in a process of its own where it could hang, and has a deadline.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import chain

from apgas.doctor import machine, mpi
from apgas.doctor.check import Check, as_text

__all__ = ["CHECKS", "Check", "as_text", "main", "run_checks"]

CHECKS: tuple[Callable[[], Check], ...] = (
    machine.check_python,
    mpi.check_library,
    mpi.check_binding,
    mpi.check_mpiexec,
    mpi.check_other_mpis,
    mpi.check_world,
    mpi.check_spawn,
    mpi.check_emulated_nodes,
    machine.check_numba,
    machine.check_open_files,
    machine.check_shared_memory,
    machine.check_temporary_folder,
    machine.check_host_name,
    machine.check_slurm,
)
"""All checks, in the order of the list: what fails first may be why the next ones do."""


def run_checks() -> list[Check]:
    """Runs every check, one after another; takes a few seconds, at worst a minute or two."""
    return [check() for check in CHECKS]


def main(further: Iterable[Callable[[], Check]] = ()) -> int:
    """Prints the checklist and its verdict.

    Args:
        further: Checks of those that build upon this package; they come last.

    Returns:
        0 if everything needed works, else 1.
    """
    failed = done = 0
    for check in chain(CHECKS, further):
        result = check()
        failed += result.ok is False
        done += 1
        sys.stdout.write(as_text(result) + "\n")
        sys.stdout.flush()
    words = "everything that is needed works" if not failed else f"{failed} of {done} checks failed"
    sys.stdout.write(f"\n{words}\n")
    return 1 if failed else 0
