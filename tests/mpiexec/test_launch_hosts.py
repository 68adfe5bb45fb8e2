"""Jobs that `apgas.launch` starts on several hosts: they grow there, and whatever is lost, nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, SOON_S, Leftovers, Running
from support.hosts import need_hosts, place_on, start_launched, start_on_hosts
from support.leftovers import Patience

PROGRAMS = Path(__file__).with_name("programs")
ROAMING = PROGRAMS / "roaming.py"

pytestmark = pytest.mark.usefixtures("hosts")


@pytest.fixture
def hosts() -> None:
    need_hosts()


def steps(job: Running, leftovers: Leftovers) -> tuple[list[dict[str, Any]], str]:
    """What the program said after its start and each of its steps, and what was written as errors."""
    done = job.wait()
    leftovers.check(job.mark)
    assert done.rc == 0, done.err + done.out
    said = [json.loads(line) for line in done.out.splitlines()]
    for step in said:
        assert step["pairs"] == len(step["places"]) ** 2
    return said, done.err


def on(step: dict[str, Any]) -> dict[str, str]:
    return {place: host for place, (host, _) in step["places"].items()}


def parent(pid: int) -> int:
    status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return int(status.rpartition(")")[2].split()[1])


@pytest.mark.essential
def test_places_start_join_and_leave_on_several_hosts(leftovers: Leftovers) -> None:
    with start_launched(["host1", "host2"], [ROAMING, "+host3", "-1", "+host2,host3,host1"]) as job:
        (start, grown, shrunk, again), errors = steps(job, leftovers)
    assert start["places"] == {"0": ["host1", "10.0.0.1"], "1": ["host2", "10.0.0.2"]}
    assert grown["places"] == {**start["places"], "2": ["host3", "10.0.0.3"]}
    assert on(shrunk) == {"0": "host1", "2": "host3"}
    assert on(again) == {"0": "host1", "2": "host3", "3": "host2", "4": "host3", "5": "host1"}
    assert errors == ""


def test_the_agent_of_a_host_that_was_left_ends(leftovers: Leftovers) -> None:
    """The batch system may want the host back."""
    with start_launched(["host1", "host2"], [ROAMING, "-1", "wait"]) as job:
        job.expect("waiting")
        patience = Patience(SOON_S)
        while [line for line in job.processes().values() if line.strip().endswith("--agent")]:
            assert not patience.over()
            time.sleep(0.02)
        job.process.terminate()
        assert job.wait(SOON_S).rc == 143
    leftovers.check(job.mark)


def test_a_host_that_cannot_be_used_is_an_error_of_the_spawn(leftovers: Leftovers) -> None:
    script = 'ip -n host3 link set eth0 down; exec "$@"'
    words: list[str | Path] = [
        sys.executable,
        "-m",
        "apgas.launch",
        "--hosts",
        "host1,host2",
        ROAMING,
        "+host2,nowhere",
        "+host3",
        "+host2",
    ]
    with start_on_hosts(3, ["sh", "-c", script, "-", *words]) as job:
        (start, unknown, dead, good), errors = steps(job, leftovers)
    assert (unknown["outcome"], dead["outcome"], good["outcome"]) == ("aborted", "aborted", "done")
    assert unknown["places"] == dead["places"] == start["places"]
    assert "apgas: no process can start on host nowhere: ssh: could not resolve hostname nowhere" in errors
    assert "apgas: no process can start on host host3: ssh: connect to host host3 port 22" in errors


def test_without_a_word_about_other_hosts_the_job_stays_on_its_own_and_does_not_listen(leftovers: Leftovers) -> None:
    words = [sys.executable, "-m", "apgas.launch", "-n", "2", str(ROAMING), "+host2", "+host1"]
    with start_on_hosts(2, words) as job:
        (_, refused, grown), errors = steps(job, leftovers)
    assert (refused["outcome"], grown["outcome"]) == ("aborted", "done")
    assert on(grown) == {"0": "host1", "1": "host1", "2": "host1"}
    assert "host2 is another machine, and the job is for this one" in errors


def test_a_job_of_one_host_may_be_meant_to_grow_onto_others(leftovers: Leftovers) -> None:
    with start_launched(["host1"], [ROAMING, "+host2"], options=["--launcher", "/run/emulated-cluster/ssh"]) as job:
        (start, grown), _ = steps(job, leftovers)
    assert start["places"] == {"0": ["host1", "127.0.0.1"]}
    assert grown["places"] == {**start["places"], "1": ["host2", "10.0.0.2"]}


def test_a_program_that_is_not_there_on_one_host_starts_on_none(leftovers: Leftovers) -> None:
    """A folder lies over it on host2."""
    reach = """#!/bin/sh
exec unshare --mount sh -c 'mount -t tmpfs none /opt && exec /run/emulated-cluster/ssh "$@"' - "$@"
"""
    script = f"mount -t tmpfs none /opt; cp /bin/sleep /opt; printf '%s' '{reach}' > /run/reach; chmod 755 /run/reach; "
    script = script.replace(f"'{reach}'", '"$0"') + 'exec "$@"'
    words = [
        sys.executable,
        "-m",
        "apgas.launch",
        "--hosts",
        "host1,host2",
        "--launcher",
        "/run/reach",
        "/opt/sleep",
        "60",
    ]
    with start_on_hosts(2, ["unshare", "--mount", "sh", "-c", script, reach, *words]) as job:
        done = job.wait(SOON_S)
    assert (done.rc, done.err) == (127, "apgas: /opt/sleep cannot be started: No such file or directory\n")
    leftovers.check(job.mark)


@pytest.mark.parametrize("victim", ["host2", "host3", "host1"])
def test_a_place_killed_on_any_host_ends_the_job_everywhere(victim: str, leftovers: Leftovers) -> None:
    with start_launched(["host1", "host2"], [ROAMING, "+host3", "wait"]) as job:
        job.expect("waiting")
        pid = place_on(job, victim)
        os.kill(pid, signal.SIGKILL)
        done = job.wait(SOON_S)
    leftovers.check(job.mark)
    assert done.rc == 137
    assert re.search(rf"apgas: place \d \({victim}, pid \d+\) died: signal 9; the job ends", done.err)


@pytest.mark.parametrize("resilient", [False, True])
def test_the_loss_of_an_agent_is_that_of_its_places(resilient: bool, leftovers: Leftovers) -> None:
    options = ["--resilient"] if resilient else []
    first = ["host1", "host2", "host2"]
    with start_launched(first, [PROGRAMS / "surviving_hosts.py", "host2", "host3"], options=options) as job:
        job.expect("ready")
        os.kill(parent(place_on(job, "host2")), signal.SIGKILL)
        done = job.wait(SOON_S)
    leftovers.check(job.mark)
    how = "goes on" if resilient else "ends"
    assert f"apgas: host host2 is lost: its agent, or the way to it, has ended; the job {how}\n" in done.err
    assert done.rc == (0 if resilient else 137), done.err
    if resilient:
        assert done.out.splitlines()[-2:] == ["left host1", "again host1 host2 host3"]


def test_a_newcomer_that_dies_before_it_has_joined_ends_its_order_and_no_more(leftovers: Leftovers) -> None:
    """Within MPI_Comm_spawn, place 0 would wait for it for ever."""
    with start_launched(["host1", "host2"], [PROGRAMS / "dying_newcomers.py"], options=["--resilient"]) as job:
        done = job.wait()
    leftovers.check(job.mark)
    assert (done.rc, done.out) == (0, "aborted done 3\n"), done.err


def test_a_cut_link_is_the_loss_of_a_host_on_both_sides(leftovers: Leftovers) -> None:
    """A relay stands for the link, as the streams of the emulated ssh are pipes, which no cable carries."""
    link = [sys.executable, PROGRAMS / "link.py", "/run/emulated-cluster/ssh"]
    options = ["--resilient", "--lost-after", "4", "--launcher", " ".join(map(str, link))]
    program: list[str | Path] = [PROGRAMS / "surviving_hosts.py", "host2", "host3"]
    with start_launched(["host1", "host2", "host2"], program, options=options) as job:
        job.expect("ready")
        began_s = time.monotonic()
        # above the place are the agent, its shell, and what has entered the host for it
        os.kill(parent(parent(parent(place_on(job, "host2")))), signal.SIGUSR1)
        done = job.wait(SOON_S)
        assert time.monotonic() - began_s < 20.0
    leftovers.check(job.mark)
    assert done.rc == 0, done.err
    # a launcher that gets no core at that time looks later
    assert re.search(r"apgas: host host2 is lost: nothing was heard of it for \d+ s; the job goes on\n", done.err)
    assert done.out.splitlines()[-2:] == ["left host1", "again host1 host2 host3"]


@pytest.mark.parametrize("what", ["sleep", "places"])
def test_a_killed_launcher_takes_everything_along_on_every_host(what: str, leftovers: Leftovers) -> None:
    program: list[str | Path] = ["-c", "import time; time.sleep(600)"] if what == "sleep" else [ROAMING, "wait"]
    with start_launched(["host1", "host2", "host3"], program) as job:
        while len([line for line in job.processes().values() if line.startswith(f"{sys.executable} {program[0]}")]) < 3:
            time.sleep(0.02)
        if what == "places":
            job.expect("waiting")
        launcher = next(
            pid for pid, line in job.processes().items() if "apgas.launch --hosts" in line and "emul" not in line
        )
        os.kill(launcher, signal.SIGKILL)
        job.wait(SOON_S)
    leftovers.check(job.mark)


def test_much_output_of_all_hosts_arrives_and_holds_nothing_up(leftovers: Leftovers) -> None:
    """Who reads it is slow, and for longer than a host may be silent."""
    program = "import sys; sys.stdout.write('x' * 79 + chr(10)) ; sys.stdout.write(('y' * 79 + chr(10)) * 50000)"
    words = [
        sys.executable,
        "-m",
        "apgas.launch",
        "--lost-after",
        "6",
        "--hosts",
        "host2,host3",
        sys.executable,
        "-c",
        program,
    ]
    reader = "import sys, time; time.sleep(9); print(sys.stdin.read().count(chr(10)))"
    line = " ".join(map(subprocess.list2cmdline, [[str(word)] for word in words]))
    with start_on_hosts(3, ["sh", "-c", f"{line} | {sys.executable} -c '{reader}'"]) as job:
        done = job.wait()
    assert (done.out, done.err) == ("100002\n", "")
    leftovers.check(job.mark)


def test_a_shell_that_says_something_at_its_start_does_no_harm(leftovers: Leftovers) -> None:
    script = f"""printf '#!/bin/sh\necho welcome\necho to here >&2\nexec /run/emulated-cluster/ssh "$@"\n' > /run/loud
chmod 755 /run/loud; exec {sys.executable} -m apgas.launch --hosts host1,host2 --launcher /run/loud {ROAMING}"""
    with start_on_hosts(2, ["sh", "-c", script]) as job:
        (start,), _ = steps(job, leftovers)
    assert on(start) == {"0": "host1", "1": "host2"}


def test_mpi_finds_out_itself_who_shares_a_host_if_the_launcher_cannot_say(leftovers: Leftovers) -> None:
    """A mapping of more than 1,024 characters has no room; here is a launcher that knows none."""
    program = """
from mpi4py import MPI
shared = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
print(MPI.COMM_WORLD.rank, shared.size)
MPI.COMM_WORLD.Barrier()
"""
    launcher = (
        "import sys; from apgas.core import launching; launching._MAPPING = 'none'; "
        "from apgas.launch.__main__ import main; main()"
    )
    words = [sys.executable, "-c", launcher, "--hosts", "host1,host2,host1", sys.executable, "-c", program]
    with start_on_hosts(2, words) as job:
        done = job.wait(SOON_S)
    assert (done.rc, sorted(done.out.splitlines())) == (0, ["0 2", "1 1", "2 2"]), done.err
    leftovers.check(job.mark)


def test_an_agent_without_a_launcher_says_what_it_is_for() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "apgas.launch", "--agent"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        cwd=ROOT, check=False, timeout=SOON_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "is started by a launcher" in done.stderr
