"""A slow network between hosts: everything takes longer, and nothing is lost."""

from __future__ import annotations

import json
import shlex
import shutil

import pytest
from support import Leftovers
from support.chaos import storm_command
from support.hosts import need_hosts, start_on_hosts

SLOW = "tc qdisc add dev eth0 root tbf rate 10mbit burst 64kbit latency 500ms"
"""Of host1, on which place 0 is and which all newcomers join; place 1 is elsewhere."""


def test_a_slow_network_loses_nothing(leftovers: Leftovers) -> None:
    need_hosts()
    if shutil.which("tc") is None:
        pytest.skip("tc is not installed")
    mpiexec, _, _, *program = storm_command(seed=1, cycles=2)
    places = shlex.join([mpiexec, "-hosts", "host1,host2", "-ppn", "1", "-n", "2", *program])
    with start_on_hosts(2, ["sh", "-c", f"{SLOW} || exit 77; exec {places}"]) as job:
        done = job.wait()
        leftovers.check(job.mark)
    if done.rc == 77:
        pytest.skip(f"the network cannot be slowed down here: {done.err}")
    assert done.rc == 0, done.err
    last = json.loads(done.out.splitlines()[-1])
    assert last["over"] is True
    assert last["cycle"] == 2
    assert last["activities"] > 0
