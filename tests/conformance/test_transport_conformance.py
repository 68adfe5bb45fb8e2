from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from support import Leftovers, python_run
from support.transport_conformance import CHECKS, Check

from apgas.transport.auth import new_token
from apgas.transport.tcp import TcpTransport


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_tcp_transport_keeps_the_contract(check: Check) -> None:
    check(partial(TcpTransport, new_token()))


@pytest.mark.parametrize("bulk_bytes", [1, 10_000])
def test_the_mpi_transport_keeps_the_contract(bulk_bytes: int, leftovers: Leftovers) -> None:
    """In a process of its own, for MPI; with all buffers by MPI, and with some."""
    program = Path(__file__).parents[1] / "support" / "programs" / "mpi_conformance.py"
    job = python_run([program, str(bulk_bytes)])
    assert job.rc == 0, job.err
    assert job.out.splitlines() == [f"fine {check.__name__}" for check in CHECKS], job.err
    leftovers.check(job.mark)
