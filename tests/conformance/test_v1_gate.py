"""The gate as a process: between a scripted v2 scheduler and a command."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from support import PATIENCE_S

from apgas.malleability import orders as wire

GATE = "import sys; from apgas.malleability.v1 import gate; gate.END_S = 0.1; sys.exit(gate.main(sys.argv[1:]))"
STUBBORN = "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True); signal.pause()"


@contextmanager
def started(scheduler: str, nodes: str, *command: str) -> Iterator[subprocess.Popen[str]]:
    """A gate, of which nothing is left behind."""
    variables = {wire.ENV_SCHEDULER: scheduler, wire.ENV_JOB: "3", wire.ENV_TOKEN: "t" * 32}
    with subprocess.Popen(
        [sys.executable, "-c", GATE, "--nodes", nodes, "--", *command],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as gate:
        try:
            yield gate
        finally:
            with suppress(ProcessLookupError):  # it has ended
                os.killpg(gate.pid, signal.SIGKILL)


def test_a_job_that_does_not_end_without_its_scheduler_is_killed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        endpoint = f"127.0.0.1:{server.getsockname()[1]}"
        with started(endpoint, "n1,n2", sys.executable, "-c", STUBBORN) as gate:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as lines:
                assert isinstance(wire.decode_to_scheduler(lines.readline()), wire.Hello)
                connection.sendall(wire.encode(wire.Welcome(version=wire.PROTOCOL_VERSION)))
                assert gate.stdout is not None
                assert gate.stdout.readline() == "up\n"
            assert gate.communicate(timeout=PATIENCE_S)[1].startswith("the scheduler is lost: ")
    assert gate.returncode == 128 + signal.SIGKILL


def test_a_name_that_is_no_node_is_reported() -> None:
    with started("127.0.0.1:1", "n1,n 2", "true") as gate:
        assert "error: --nodes: 'n 2' is not a host" in gate.communicate(timeout=PATIENCE_S)[1]
    assert gate.returncode == 2
