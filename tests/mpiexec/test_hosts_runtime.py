"""Places on hosts with addresses of their own: they start, join, leave and die across them."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, SOON_S, Leftovers, Running
from support.hosts import need_hosts, place_on, start_on_hosts, start_places
from support.mpi import BIN

ROAMING = ROOT / "tests" / "mpiexec" / "programs" / "roaming.py"
LOOPBACK = "127.0.0.1"

pytestmark = pytest.mark.usefixtures("hosts")


@pytest.fixture
def hosts() -> None:
    need_hosts()


def steps(job: Running, leftovers: Leftovers) -> list[dict[str, Any]]:
    """What the program printed after its start and each of its steps."""
    done = job.wait()
    leftovers.check(job.mark)
    assert done.rc == 0, done.err + done.out
    printed = [json.loads(line) for line in done.out.splitlines()]
    for step in printed:
        assert step["pairs"] == len(step["places"]) ** 2
    return printed


def on(step: dict[str, Any]) -> dict[str, str]:
    return {place: host for place, (host, _) in step["places"].items()}


def test_places_start_join_and_leave_on_four_hosts(leftovers: Leftovers) -> None:
    with start_places(["host1", "host2"], [ROAMING, "+host3,host4", "-1,2", "+host2,host3,host1"]) as job:
        start, grown, shrunk, again = steps(job, leftovers)
    assert start["places"] == {"0": ["host1", "10.0.0.1"], "1": ["host2", "10.0.0.2"]}
    assert grown["outcome"] == shrunk["outcome"] == again["outcome"] == "done"
    assert grown["places"] == {
        **start["places"],
        "2": ["host3", "10.0.0.3"],
        "3": ["host4", "10.0.0.4"],
    }
    assert on(shrunk) == {"0": "host1", "3": "host4"}  # a first place has left, and a newcomer
    assert on(again) == {"0": "host1", "3": "host4", "4": "host2", "5": "host3", "6": "host1"}


def test_a_job_on_one_host_listens_on_loopback_and_still_grows_onto_others(leftovers: Leftovers) -> None:
    with start_places(["host1", "host1"], [ROAMING, "+host1", "+host2", "+host1,host3", "-0"]) as job:
        start, here, there, both, refused = steps(job, leftovers)
    assert start["places"] == {"0": ["host1", LOOPBACK], "1": ["host1", LOOPBACK]}
    assert here["places"] == {**start["places"], "2": ["host1", LOOPBACK]}
    assert there["places"] == {**here["places"], "3": ["host2", "10.0.0.2"]}
    # from now on places on the first host, too, are reached from outside
    assert both["places"] == {**there["places"], "4": ["host1", "10.0.0.1"], "5": ["host3", "10.0.0.3"]}
    assert refused["outcome"] == "aborted"
    assert "place 0" in refused["reason"]


def test_a_single_place_grows_onto_another_host(leftovers: Leftovers) -> None:
    with start_places(["host1"], [ROAMING, "+host2"], hosts=2) as job:
        start, grown = steps(job, leftovers)
    assert start["places"] == {"0": ["host1", LOOPBACK]}
    assert grown["places"] == {**start["places"], "1": ["host2", "10.0.0.2"]}


def test_the_interface_to_listen_on_can_be_named(leftovers: Leftovers) -> None:
    command: list[str | Path] = [BIN / "mpiexec", "-hosts", "host1", "-n", "1", sys.executable, ROAMING, "+host1,host2"]
    with start_on_hosts(2, command, {"APGAS_BIND_HOST": "eth0"}) as job:
        start, grown = steps(job, leftovers)
    assert start["places"] == {"0": ["host1", "10.0.0.1"]}
    assert grown["places"] == {**start["places"], "1": ["host1", "10.0.0.1"], "2": ["host2", "10.0.0.2"]}


def test_an_address_that_makes_no_sense_ends_the_job_with_a_reason(leftovers: Leftovers) -> None:
    command: list[str | Path] = [BIN / "mpiexec", "-hosts", "host1,host2", "-n", "2", sys.executable, ROAMING]
    with start_on_hosts(2, command, {"APGAS_BIND_HOST": "10.0.0.1"}) as job:  # it is host1's
        done = job.wait()
        leftovers.check(job.mark)
    assert done.rc != 0
    assert "host2" in done.err
    assert "APGAS_BIND_HOST=10.0.0.1" in done.err


def test_hosts_that_cannot_be_used_abort_the_order_and_the_job_goes_on(leftovers: Leftovers, tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    # on host4 an empty folder lies where the package should be
    agent.write_text(
        f"""#!/bin/sh
for word; do case $word in host4) break;; esac; done
if [ "$word" = host4 ]; then
    exec unshare --mount sh -c 'mount -t tmpfs none {ROOT}/apgas && exec /run/emulated-cluster/ssh "$@"' - "$@"
fi
exec /run/emulated-cluster/ssh "$@"
"""
    )
    agent.chmod(0o755)
    mpiexec = [str(BIN / "mpiexec"), "-launcher", "ssh", "-launcher-exec", str(agent), "-hosts", "host1,host2"]
    program = [sys.executable, str(ROAMING), "+host3,nowhere", "+host4", "+host5", "+host3"]
    unplugged = 'ip -n host5 link set eth0 down && exec "$@"'
    with start_on_hosts(5, ["sh", "-c", unplugged, "-", *mpiexec, "-n", "2", *program]) as job:
        start, unknown, bare, dead, good = steps(job, leftovers)
    assert (unknown["outcome"], bare["outcome"], dead["outcome"], good["outcome"]) == ("aborted",) * 3 + ("done",)
    assert unknown["places"] == bare["places"] == dead["places"] == start["places"]
    assert "host nowhere: ssh: could not resolve" in unknown["reason"]
    assert "host4: ModuleNotFoundError: No module named 'apgas" in bare["reason"]
    assert "host5: ssh: connect to host host5" in dead["reason"]
    assert on(good) == {"0": "host1", "1": "host2", "2": "host3"}


@pytest.mark.parametrize("victim", ["host2", "host3", "host1"])
def test_a_place_killed_on_any_host_ends_the_job_everywhere(victim: str, leftovers: Leftovers) -> None:
    with start_places(["host1", "host2"], [ROAMING, "+host3", "wait"], hosts=3) as job:
        job.expect("waiting")
        os.kill(place_on(job, victim), signal.SIGKILL)
        done = job.wait(SOON_S)
        leftovers.check(job.mark)
    assert done.rc != 0
    if victim != "host1":
        assert f"({victim}, pid" in done.err or "BAD TERMINATION" in done.out


def test_a_terminated_job_ends_everywhere(leftovers: Leftovers) -> None:
    with start_places(["host1", "host2"], [ROAMING, "+host3", "wait"], hosts=3) as job:
        job.expect("waiting")
        job.process.terminate()
        done = job.wait(SOON_S)
        leftovers.check(job.mark)
    assert done.rc == 143, done.err
    assert "terminated" in done.err
