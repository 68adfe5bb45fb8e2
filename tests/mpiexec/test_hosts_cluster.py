"""The emulated cluster itself: hosts that know each other, signals and codes passed on, and nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import SOON_S, Completed, Leftovers
from support.hosts import CLUSTER, need_hosts, start_on_hosts
from support.mpi import BIN

pytestmark = pytest.mark.usefixtures("hosts")


@pytest.fixture
def hosts() -> None:
    need_hosts()


def run(script: str, hosts: int = 3) -> Completed:
    with start_on_hosts(hosts, ["sh", "-c", script]) as job:
        return job.wait()


def outside() -> tuple[set[Path], str, str]:
    """What of this machine a cluster could disturb."""
    return set(Path("/sys/class/net").iterdir()), Path("/proc/self/mounts").read_text(), os.uname().nodename


def test_mpiexec_reaches_all_hosts_and_they_have_names_and_addresses_of_their_own(leftovers: Leftovers) -> None:
    before = outside()
    show = "hostname; cat /etc/hosts; ip -4 -o address show eth0; ip route"
    done = run(f"{BIN}/mpiexec -n 3 hostname && $HYDRA_LAUNCHER_EXEC host2 '{show}'")
    leftovers.check(done.mark)
    lines = done.out.splitlines()
    assert sorted(lines[:3]) == ["host1", "host2", "host3"]
    assert lines[3:8] == ["host2", "127.0.0.1 localhost", "10.0.0.1 host1", "10.0.0.2 host2", "10.0.0.3 host3"]
    assert "inet 10.0.0.2/24" in lines[8]
    assert [line.split()[0] for line in lines[9:]] == ["10.0.0.0/24"]  # there is no way out
    assert outside() == before


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", 137), ("true", 0)])
def test_the_code_of_the_command_is_passed_on(script: str, code: int) -> None:
    assert run(script, hosts=1).rc == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_the_command_once(number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    # Whether the shell waits already when the signal comes, or is about to: its end does not depend on it.
    script = f"sleep 600 & trap 'echo caught; kill $!' {name}; echo up; wait; exit 9"
    with start_on_hosts(1, ["sh", "-c", script]) as job:
        job.expect("up")
        os.killpg(job.process.pid, number)  # the whole group, as a terminal would
        done = job.wait(SOON_S)
    assert (done.rc, done.out.split()) == (9, ["up", "caught"])


def test_what_the_command_leaves_behind_ends_with_it(leftovers: Leftovers) -> None:
    done = run("for h in host1 host2; do $HYDRA_LAUNCHER_EXEC $h 'setsid nohup sleep 600 >/dev/null 2>&1 &'; done")
    leftovers.check(done.mark)
    assert done.rc == 0


def test_nothing_stays_when_the_cluster_is_killed(leftovers: Leftovers) -> None:
    before = outside()
    with start_on_hosts(2, ["sh", "-c", "trap '' TERM INT; setsid sleep 600 & echo up; sleep 600"]) as job:
        job.expect("up")
        job.process.kill()
        assert job.wait(SOON_S).rc == -signal.SIGKILL
        leftovers.check(job.mark)
    assert outside() == before


def test_hosts_that_do_not_answer_are_reported_by_the_stand_in_of_ssh() -> None:
    script = "ip -n host2 link set eth0 down; for h in host2 host9; do $HYDRA_LAUNCHER_EXEC -x $h true; echo $?; done"
    done = run(script)
    assert done.out.split() == ["255", "255"]
    assert "ssh: connect to host host2 port 22: No route to host" in done.err
    assert "ssh: could not resolve hostname host9" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--hosts", "0", "--", "true"], 2, "--hosts 0: give a number from 1 to 250"),
        (["--", "no-such-command"], 127, "no-such-command: no such command"),
        ([], 2, "COMMAND"),
    ],
)
def test_wrong_usage_is_reported(arguments: list[str], code: int, words: str) -> None:
    done = subprocess.run([sys.executable, CLUSTER, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert words in done.stderr


def test_without_its_tools_it_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "true").symlink_to("/bin/true")
    done = subprocess.run(
        [sys.executable, CLUSTER, "--", "true"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 125
    assert "the command ip is missing; install the package iproute2" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run without root already")
def test_it_works_without_root_where_the_kernel_allows_it() -> None:
    become = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    allowed = subprocess.run([*become, "unshare", "-Urn", "true"], capture_output=True, check=False, cwd="/")
    if allowed.returncode != 0:
        pytest.skip(f"no user namespaces here: {allowed.stderr.decode().strip()}")
    show = "hostname; $HYDRA_LAUNCHER_EXEC host2 hostname"
    command = [*become, "/usr/bin/env", "python3", str(CLUSTER), "--hosts", "2", "--", "sh", "-c", show]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert (done.returncode, done.stdout.split()) == (0, ["host1", "host2"]), done.stderr
