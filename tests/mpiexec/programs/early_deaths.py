"""Loses every place but place 0 after it has said where it listens, and before it has connected to any other."""

from __future__ import annotations

import os
import signal
import time

import apgas
from apgas.transport.tcp import TcpTransport


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    while len(apgas.places()) > 1:
        time.sleep(0.01)
    print("alone", flush=True)


if os.environ["PMI_RANK"] != "0":
    setattr(TcpTransport, "start", die)  # noqa: B010 - mypy knows that it is a method

apgas.run(main, resilient=True)
