"""Files of hosts, launchers, and the programs by which mpiexec reaches hosts."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from support import PATIENCE_S
from support.processes import carrying

from apgas.launch import ENV_REACHED
from scheduler_bridge.backends.hosts import Host, launcher_of, read_hosts
from scheduler_bridge.backends.hosts.hosts import Reach, fewest_cores, parse_hosts
from scheduler_bridge.daemon import DaemonError
from scheduler_bridge.jobrunner.processes import ENV_MARK


def test_a_file_of_hosts_is_read_as_mpiexec_reads_it_and_may_say_more() -> None:
    text = "# the cluster\nalpha:16\nbeta  slots=8 # old\n\ngamma cores=8 address=me@10.0.0.7\ndelta\n"
    hosts = parse_hosts(text, "hosts.txt")
    assert hosts == (
        Host("alpha", "alpha", 16),
        Host("beta", "beta", 8),
        Host("gamma", "me@10.0.0.7", 8),
        Host("delta", "delta", None),
    )
    assert fewest_cores(hosts) is None
    assert fewest_cores(hosts[:3]) == 8


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "hosts.txt: it names no host"),
        ("# alpha\n", "hosts.txt: it names no host"),
        ("a\nb\na", "hosts.txt:3: host a is named twice, first on line 1"),
        ("a:0", "hosts.txt:1: '0' is not a number of cores"),
        ("a:", "hosts.txt:1: '' is not a number of cores"),
        ("a cores=2000", "hosts.txt:1: '2000' is not a number of cores"),
        ("a:2 cores=2", "hosts.txt:1: the cores of a are given twice"),
        ("a core=2", "hosts.txt:1: 'core=2' is not understood"),
        ("a address=", "hosts.txt:1: '' is not an address"),
        ("a address=-oProxyCommand=x", "hosts.txt:1: '-oProxyCommand=x' is not an address"),
        ("-a", "hosts.txt:1: '-a' is not a name of a host"),
        ("a$b", "hosts.txt:1: 'a$b' is not a name of a host"),
    ],
)
def test_a_wrong_line_is_named(text: str, words: str) -> None:
    with pytest.raises(DaemonError) as caught:
        parse_hosts(text, "hosts.txt")
    assert str(caught.value) == words
    assert caught.value.hint


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DaemonError, match=r"none\.txt: No such file"):
        read_hosts(tmp_path / "none.txt")


def test_a_launcher_is_split_once_and_nothing_in_it_is_read_by_a_shell() -> None:
    docker = launcher_of("docker exec --user 'a b' {host}-x sh -c {command}")
    command = ("docker", "exec", "--user", "a b", "h-x", "sh", "-c", "echo $HOME; {host}")
    assert docker.command("h", "echo $HOME; {host}") == command
    assert docker.in_shell("found", "command") == """docker exec --user 'a b' "$found"-x sh -c "$command\""""


def test_a_program_alone_is_called_like_ssh() -> None:
    assert launcher_of("ssh -p 2222").command("h", "true")[:5] == ("ssh", "-p", "2222", "-o", "BatchMode=yes")
    assert launcher_of("/opt/agent").command("h", "true") == ("/opt/agent", "h", "true")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the launcher is empty"),
        ("ssh 'x", "cannot be read: no closing quotation"),
        ("ssh {command}", r"has no \{host\}"),
        ("ssh {host}", r"needs \{command\} once"),
        ("ssh {host} x{command}", "as a word of its own"),
        ("ssh {host} {command} {command}", r"needs \{command\} once"),
    ],
)
def test_a_wrong_launcher_is_reported(text: str, words: str) -> None:
    with pytest.raises(DaemonError, match=words) as caught:
        launcher_of(text)
    assert caught.value.hint


@pytest.fixture
def reach(tmp_path: Path) -> Reach:
    """Reaches hosts through a program that says how it was called, and runs the command here."""
    agent = tmp_path / "an agent"
    agent.write_text('#!/bin/sh\necho "called for $1"\nexec sh -c "$2"\n', encoding="utf-8")
    agent.chmod(0o755)
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    reach = Reach(folder, launcher_of(f"'{agent}' {{host}} {{command}}"))
    reach.write()
    reach.know_hosts([Host("a", "10.0.0.1"), Host("b", "b")])
    return reach


def run(reach: Reach, *words: str, mark: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != ENV_MARK}
    if mark:
        environment[ENV_MARK] = mark
    command = [str(reach.program), "-x", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def test_launchers_reach_a_host_at_its_address_with_the_words_as_they_are(reach: Reach) -> None:
    done = run(reach, "a", "echo", "'x  y'", "$((1 + 1))", ";", "exit", "7")
    assert (done.returncode, done.stdout) == (7, "called for 10.0.0.1\nx  y 2\n")
    stranger = run(reach, "c", "true")
    assert (stranger.returncode, stranger.stderr) == (255, "c is not a node of this scheduler\n")


def test_this_machine_is_reached_without_the_launcher(reach: Reach) -> None:
    here = os.uname().nodename
    reach.know_hosts([Host(here, "nowhere")])
    assert run(reach, here, "echo", "here").stdout == "here\n"


def test_what_a_job_leaves_on_a_host_is_ended_there(reach: Reach) -> None:
    stubborn = "setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' > /dev/null 2>&1 & echo $!"
    done = run(reach, "b", f"sh -c '{stubborn.replace(chr(39), chr(39) + chr(92) + chr(39) + chr(39))}; exit 3'",
               mark="a" * 32)  # fmt: skip
    assert done.returncode == 3
    assert carrying(f"{ENV_MARK}={'a' * 32}") == []
    assert len(done.stdout.split()) == 4


def test_what_another_call_of_the_same_job_runs_on_the_host_stays(reach: Reach) -> None:
    mark = "b" * 32
    command = [str(reach.program), "b", f"sh -c 'echo $$ ${ENV_REACHED}; exec sleep 600'"]
    with subprocess.Popen(command, env={**os.environ, ENV_MARK: mark}, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "called for b\n"
        pid, reached = other.stdout.readline().split()
        try:
            assert reached.startswith(mark)
            assert run(reach, "b", "true", mark=mark).returncode == 0
            assert other.poll() is None
        finally:
            os.kill(int(pid), signal.SIGTERM)
    assert other.returncode == 128 + signal.SIGTERM


def test_all_is_removed_in_the_end(reach: Reach) -> None:
    folder = reach.program.parent
    assert len(list(folder.iterdir())) == 3
    reach.forget()
    assert list(folder.iterdir()) == []
