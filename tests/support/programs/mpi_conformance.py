"""Runs the transports' conformance suite on MPI transports that share this process; says which checks hold.

The places have one rank, so they differ by the tags of what they send, which are unique in a process.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from apgas.runtime import environment
from apgas.transport.auth import new_token
from apgas.transport.communicators import Epoch
from apgas.transport.mpi import MpiTransport
from apgas.transport.tcp import TcpTransport

environment.prepare()
from mpi4py import MPI  # noqa: E402 - the environment has to be prepared before

sys.path.append(str(Path(__file__).parents[2]))
from support.transport_conformance import CHECKS  # noqa: E402 - likewise

environment.unlink_leftovers()
TOKEN = new_token()
OURS, OF_THE_PROGRAM = MPI.COMM_SELF.Dup(), MPI.COMM_SELF.Dup()


def new() -> MpiTransport:
    transport = MpiTransport(TcpTransport(TOKEN), MPI, bulk_bytes=int(sys.argv[1]))
    transport.communicators.adopt(Epoch(0, OURS, dict.fromkeys(range(16), 0)), OF_THE_PROGRAM)
    return transport


for check in CHECKS:
    try:
        check(new)
    except BaseException:  # noqa: BLE001 - the next check is run in any case
        traceback.print_exc()
        print("FAILED", check.__name__, flush=True)
    else:
        print("fine", check.__name__, flush=True)
