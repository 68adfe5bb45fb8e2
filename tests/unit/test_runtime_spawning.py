"""Looking at hosts before MPI is asked to spawn there."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import PATIENCE_S

from apgas.errors import ApgasError
from apgas.runtime import spawning
from apgas.runtime.spawning import Launcher, is_here, launcher_of, probe, probe_here

Agent = Callable[[str], Launcher]


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """Makes a launcher whose program is a shell script; $1 is the host, the rest what to run there."""

    def make(script: str) -> Launcher:
        program = tmp_path / "agent"
        program.write_text(f"#!/bin/sh\nhost=$1; shift\n{script}\n")
        program.chmod(0o755)
        return Launcher("ssh", str(program))

    return make


@pytest.mark.parametrize(
    ("proxy", "environ", "expected"),
    [
        (["--launcher", "fork"], {}, Launcher("fork", "", (), "/p")),
        (["--launcher", "ssh", "--launcher-exec", "/a"], {}, Launcher("ssh", "/a", (), "/p")),
        # the command line of mpiexec holds, not what the environment says
        (["--launcher", "fork"], {"HYDRA_LAUNCHER": "ssh"}, Launcher("fork", "", (), "/p")),
        (["--launcher", "ssh"], {"HYDRA_LAUNCHER_EXTRA_ARGS": "-p 22"}, Launcher("ssh", "", ("-p", "22"), "/p")),
        (None, {"HYDRA_LAUNCHER": "fork"}, Launcher("fork")),
        (None, {}, Launcher("ssh")),
    ],
)
def test_the_launcher_is_the_one_of_our_mpiexec(
    proxy: list[str] | None, environ: dict[str, str], expected: Launcher
) -> None:
    assert launcher_of(None if proxy is None else ["/p", "--pgid", "0", *proxy], environ) == expected


def test_only_remote_shells_can_be_asked_and_ssh_never_for_a_password() -> None:
    words = ["python", "-c", "import apgas; apgas"]
    assert Launcher("slurm").command("a", words) is None
    assert Launcher("ssh").command("a", words) == [
        *("ssh", "-o", "BatchMode=yes", "a"),
        "python -c 'import apgas; apgas'",
    ]
    assert Launcher("ssh", "/agent", ("-q",)).command("a", words) == [
        "/agent",
        "-q",
        "a",
        "python -c 'import apgas; apgas'",
    ]


def test_a_host_with_our_python_and_package_is_fine(agent: Agent, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    probe(agent(f'echo $host >> {seen}; exec /bin/sh -c "$*"'), ["a", "b", "a"])
    assert sorted(seen.read_text().split()) == ["a", "b"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo noise >&2; echo 'connect: No route to host' >&2; exit 255", "host a: connect: No route to host"),
        ("exit 3", "host a: exit code 3"),
        (f"exec {sys.executable} -S -c 'import apgas_is_not_here'", "host a: ModuleNotFoundError"),
        ("exec /no/such/python", "host a: .*not found"),
    ],
)
def test_a_host_that_cannot_be_used_is_named_with_its_reason(agent: Agent, script: str, reason: str) -> None:
    with pytest.raises(ApgasError, match=reason):
        probe(agent(script), ["a"])


def test_a_host_without_the_folder_or_the_proxy_is_found_out(agent: Agent, tmp_path: Path) -> None:
    there = agent('exec /bin/sh -c "$*"')
    with pytest.raises(ApgasError, match=r"MPI is not installed there: no /no/proxy"):
        probe(Launcher("ssh", there.program, (), "/no/proxy"), ["a"])
    gone = tmp_path / "gone"
    gone.mkdir()
    hidden = agent(f'rmdir {gone}; exec /bin/sh -c "$*"')
    before = Path.cwd()
    os.chdir(gone)
    try:
        with pytest.raises(ApgasError, match=r"No such file or directory: .*gone"):
            probe(hidden, ["a"])
    finally:
        os.chdir(before)


def test_a_host_that_does_not_answer_is_given_up_and_its_probe_ended(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    # the other one answers at once: on a busy machine a Python may need longer than that
    silent = agent(f"[ $host = good ] && exit; echo $$ > {file}.new; mv {file}.new {file}; sleep 600")
    with pytest.raises(ApgasError, match=r"^no place can start on host bad: no answer within 2 s$"):
        probe(silent, ["bad", "good"], deadline_s=2.0)
    pid = int(file.read_text())
    until = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()


def test_a_launcher_that_does_not_exist_is_named() -> None:
    with pytest.raises(ApgasError, match="host a: /no/such/agent: No such file"):
        probe(Launcher("ssh", "/no/such/agent"), ["a"])


def test_this_machine_needs_its_interpreter_and_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    probe_here()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ApgasError, match=r"no place can start on this host: .*python is not there any more"):
        probe_here()
    monkeypatch.undo()
    monkeypatch.setattr(spawning, "__file__", str(tmp_path / "spawning.py"))
    with pytest.raises(ApgasError, match=r"joining\.py is not there any more"):
        probe_here()


def test_this_machine_is_known_by_its_names() -> None:
    assert all(is_here(name) for name in ("", "localhost", os.uname().nodename, "127.0.0.1"))
    assert not is_here("name.invalid")
    assert not is_here("192.0.2.77")  # an address that no machine has
