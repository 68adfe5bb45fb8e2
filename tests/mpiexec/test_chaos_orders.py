"""A thousand orders at once: each is answered once, those that are carried out in their order, and the job goes on."""

from __future__ import annotations

import json
import random
import socket
import sys
from pathlib import Path
from typing import Any, BinaryIO

from support import PATIENCE_S, Leftovers, start_job
from support.mpi import BIN

from apgas.malleability import orders as wire

PROGRAM = Path(__file__).parent / "programs" / "many_orders.py"
ORDERS = 1000
TOKEN = "0123456789abcdef"


def _orders(rng: random.Random) -> list[wire.Grow | wire.Shrink]:
    """A few that can be carried out, and many that cannot."""
    return [
        wire.Grow(order=number, count=1)
        if number < 8 and number % 2 == 0
        else wire.Shrink(order=number, count=1 if number < 8 else rng.randint(50, 10**6))
        for number in range(ORDERS)
    ]


def _greet(connection: socket.socket, lines: BinaryIO) -> None:
    assert json.loads(lines.readline())["type"] == "hello"
    connection.sendall(wire.encode(wire.Welcome(version=wire.PROTOCOL_VERSION)))
    assert json.loads(lines.readline())["type"] == "ready"


def _outcomes(lines: BinaryIO) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while len(found) < ORDERS:
        message = json.loads(lines.readline() or b'{"type": "end"}')
        assert message["type"] in ("outcome", "deferred"), f"after {len(found)} outcomes: {message}"
        if message["type"] == "outcome":
            found.append(message)
    return found


def test_a_thousand_orders_at_once_are_all_answered(leftovers: Leftovers) -> None:
    orders = _orders(random.Random(0))
    with socket.create_server(("127.0.0.1", 0)) as scheduler:
        scheduler.settimeout(PATIENCE_S)
        env = {
            wire.ENV_SCHEDULER: f"127.0.0.1:{scheduler.getsockname()[1]}",
            wire.ENV_JOB: "1",
            wire.ENV_TOKEN: TOKEN,
        }
        command: list[str | Path] = [BIN / "mpiexec", "-n", "2", sys.executable, PROGRAM, str(ORDERS)]
        with start_job(command, env) as job:
            connection, _ = scheduler.accept()
            with connection, connection.makefile("rb") as lines:
                connection.settimeout(PATIENCE_S)
                _greet(connection, lines)
                connection.sendall(b"".join(map(wire.encode, orders)))
                outcomes = _outcomes(lines)
                done = job.wait()
                leftovers.check(job.mark)
    assert done.rc == 0, done.err
    assert sorted(outcome["order"] for outcome in outcomes) == list(range(ORDERS))
    carried_out = [outcome["order"] for outcome in outcomes if outcome["outcome"] == "done"]
    assert carried_out == list(range(8)), carried_out
    refused = [outcome for outcome in outcomes if outcome["outcome"] == "refused"]
    assert len(refused) == ORDERS - 8
    assert {outcome["reason"].split()[0] for outcome in refused} == {"cannot", "64"}
    printed = json.loads(done.out.splitlines()[-1])
    assert printed["members"] == [0, 1]
    assert [tuple(pair) for pair in printed["outcomes"]] == [(o["order"], o["outcome"]) for o in outcomes]
