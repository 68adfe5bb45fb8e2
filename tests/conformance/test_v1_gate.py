"""The gate as a process: between a scripted v2 scheduler and a command."""

from __future__ import annotations

import errno
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from support import PATIENCE_S

from apgas.malleability import orders as wire
from apgas.malleability.v1 import lines
from apgas.malleability.v1.communicator import ENV_LISTEN, ENV_SCHEDULER
from apgas.malleability.v1.gate import Gate, Times, Translator, ports

GATE = """
import sys
from apgas.malleability.v1 import gate
gate.END_S = gate.SILENT_S = 0.1
sys.exit(gate.main(sys.argv[1:]))
"""
STUBBORN = "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True); signal.pause()"


@contextmanager
def started(scheduler: str, nodes: str, *command: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """A gate, of which nothing is left behind."""
    variables = {wire.ENV_SCHEDULER: scheduler, wire.ENV_JOB: "3", wire.ENV_TOKEN: "t" * 32, **more}
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
            gate.terminate()
            with suppress(subprocess.TimeoutExpired):
                gate.wait(PATIENCE_S)  # a killed one would leave its list of nodes behind
            with suppress(ProcessLookupError):  # it has ended
                os.killpg(gate.pid, signal.SIGKILL)


@contextmanager
def welcomed(*command: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """A gate that a scheduler has welcomed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        with started(f"127.0.0.1:{server.getsockname()[1]}", "n1", *command, **more) as gate:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as heard:
                assert isinstance(wire.decode_to_scheduler(heard.readline()), wire.Hello)
                connection.sendall(wire.encode(wire.Welcome(version=wire.PROTOCOL_VERSION)))
                yield gate


def test_a_job_that_does_not_end_without_its_scheduler_is_killed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        endpoint = f"127.0.0.1:{server.getsockname()[1]}"
        with started(endpoint, "n1,n2", sys.executable, "-c", STUBBORN) as gate:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as heard:
                assert isinstance(wire.decode_to_scheduler(heard.readline()), wire.Hello)
                connection.sendall(wire.encode(wire.Welcome(version=wire.PROTOCOL_VERSION)))
                assert gate.stdout is not None
                assert gate.stdout.readline() == "up\n"
            assert "the scheduler is lost: " in gate.communicate(timeout=PATIENCE_S)[1]
    assert gate.returncode == 128 + signal.SIGKILL


def test_a_name_that_is_no_node_is_reported() -> None:
    with started("127.0.0.1:1", "n1,n 2", "true") as gate:
        assert "error: --nodes: 'n 2' is not a host" in gate.communicate(timeout=PATIENCE_S)[1]
    assert gate.returncode == 2


def test_it_is_said_that_a_job_is_never_ready() -> None:
    with welcomed(sys.executable, "-c", "import time; time.sleep(1000)") as gate:
        assert gate.stderr is not None
        said = gate.stderr.readline()
    found = re.fullmatch(
        r"v1 gate: the job has not said within 0.1 s that it is ready, and until then it is not resized: it is to "
        r"report to port (\d+) of ([\d.]+) and to take orders on port (\d+) "
        r"\(-Delastic_scheduler_ip=([\d.]+) -Delastic_scheduler_port=(\d+)\)\n",
        said,
    )
    assert found is not None, said
    reports, ip, job, same_ip, same_port = found.groups()
    assert reports == job == same_port
    assert lines.address_for(int(reports)) == (ip, int(reports)) == (same_ip, int(reports))


# Addresses -----------------------------------------------------------------------------------------------------------


def test_no_two_jobs_have_an_address_or_a_port_together() -> None:
    with lines.own_server() as first, lines.own_server() as second:
        assert len({first.getsockname()[0], second.getsockname()[0], "127.0.0.1"}) == 3
        port = first.getsockname()[1]
        assert port != second.getsockname()[1]
        lines.listening(("127.0.0.1", port)).close()  # the job itself gets it, at an address of its own


def test_a_port_that_a_program_has_at_any_address_is_left_alone() -> None:
    with lines.own_server() as server:
        port = server.getsockname()[1]
    with socket.create_server(("127.0.0.1", port)), lines.own_server() as other:
        assert other.getsockname()[1] != port


@pytest.mark.parametrize(("lacking", "host"), [((), "127.8."), (("127.8.",), "::1"), (("127.8.", "::1"), "127.0.0.1")])
def test_machines_without_other_loopback_addresses(
    lacking: tuple[str, ...], host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def listening(where: tuple[str, int]) -> socket.socket:
        tried.append(where[0])
        if where[0].startswith(lacking or "none"):
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        return socket.create_server(("127.0.0.1", 0))

    monkeypatch.setattr(lines, "listening", listening)
    lines.own_server().close()
    assert tried[-1].startswith(host)


def test_a_machine_with_127_0_0_1_alone_has_two_ports_and_it_is_said_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lines, "own_server", lambda: socket.create_server(("127.0.0.1", 0)))
    server, job = ports({})
    with server:
        assert job[0] == ""
        assert job[1] != server.getsockname()[1]
    assert "to which the published Java system reports nothing" in capsys.readouterr().err


def test_addresses_may_be_chosen() -> None:
    with lines.own_server() as free:
        host, port = free.getsockname()
    chosen = {ENV_SCHEDULER: f"{host}:{port}"}
    for environ, job in [
        (chosen, ("", port)),
        ({ENV_LISTEN: str(port)}, ("127.0.0.1", port)),
        ({**chosen, ENV_LISTEN: f"192.0.2.77:{port}"}, ("192.0.2.77", port)),  # of another machine
    ]:
        server, found = ports(environ)
        with server:
            assert (server.getsockname(), found) == ((host, port), job)


@pytest.mark.parametrize("variable", [ENV_SCHEDULER, ENV_LISTEN])
def test_a_chosen_address_that_is_taken_is_reported(variable: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        with started("127.0.0.1:1", "n1", "true", **{variable: taken}) as gate:
            error = gate.communicate(timeout=PATIENCE_S)[1]
    assert gate.returncode == 1
    assert error == (
        f"v1 gate: {taken} is not to be had (Address already in use); leave {variable} out, and the job gets an "
        "address that is free\n"
    )


class Link:
    """Stands for the way to a scheduler; keeps what is said there."""

    def __init__(self) -> None:
        self.said: queue.SimpleQueue[wire.Message] = queue.SimpleQueue()
        self.send = self.said.put
        self.start = self.close = lambda *_: None


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.5", "::1"])
@pytest.mark.parametrize("given", ["the job's own", "192.0.2.77", "no-address"])
def test_a_job_is_found_at_the_address_that_it_gives(host: str, given: str) -> None:
    if not lines.is_ours(host):
        pytest.skip(f"this machine has no {host}")
    own = given == "the job's own"
    with lines.listening((host if own else "127.0.0.1", 0)) as job:
        job.settimeout(PATIENCE_S)
        link: Any = Link()
        gate = Gate(Translator(["n1", "n2"]), link, ("", job.getsockname()[1]), (host, 0))
        gate.start()
        with socket.create_connection(gate.reports) as caller:
            caller.sendall(f"APGAS-Ready:{host if own else given}\n".encode())
        assert isinstance(link.said.get(timeout=PATIENCE_S), wire.Ready)
        gate.order(wire.Shrink(order=1, count=1))
        order, _ = job.accept()
        with order, order.makefile("rw") as text:
            assert text.readline() == "shrink 1\n"
            text.write("n2\n")
            text.flush()
            done = link.said.get(timeout=PATIENCE_S)
        assert (done.outcome, done.nodes) == ("done", ("n2",))
        gate.close()


def test_what_waits_for_late_names_ends_with_the_gate() -> None:
    link: Any = Link()
    with lines.listening(("127.0.0.1", 0)) as job:
        job.settimeout(PATIENCE_S)
        times = Times(connect_s=PATIENCE_S, grow_s=PATIENCE_S, shrink_s=0.05, late_s=PATIENCE_S)
        gate = Gate(Translator(["n1", "n2"]), link, ("", job.getsockname()[1]), times=times)
        gate.start()
        with socket.create_connection(gate.reports) as caller:
            caller.sendall(b"APGAS-Ready:127.0.0.1\n")
        assert isinstance(link.said.get(timeout=PATIENCE_S), wire.Ready)
        gate.order(wire.Shrink(order=1, count=1))
        order, _ = job.accept()
        with order:
            assert link.said.get(timeout=PATIENCE_S).outcome == "aborted"
            (reader,) = [thread for thread in threading.enumerate() if thread.name == "v1-shrink-1"]
            gate.close()
            reader.join(PATIENCE_S)
            assert not reader.is_alive()
