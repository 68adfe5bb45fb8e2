"""Jobs on emulated hosts, which have names and addresses of their own; needs root or user namespaces."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from support.mpi import BIN, PATIENCE_S, ROOT, Running, start_job

CLUSTER = ROOT / "launch" / "emulated-cluster"
REQUIRED = "MALLEABLE_REQUIRE_HOSTS"


@functools.cache
def why_no_hosts() -> str:
    """Tries to emulate a host; returns why it cannot be done here, or nothing."""
    command = [sys.executable, str(CLUSTER), "--hosts", "1", "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


def need_hosts() -> None:
    """Skips the test where hosts cannot be emulated; fails it there if MALLEABLE_REQUIRE_HOSTS=1 demands them."""
    why = why_no_hosts()
    if why and os.environ.get(REQUIRED) == "1":
        pytest.fail(f"{REQUIRED}=1, but {why}")
    if why:
        pytest.skip(why)


def start_on_hosts(hosts: int, command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> Running:
    """Starts a command on host1 of some emulated hosts."""
    return start_job([sys.executable, CLUSTER, "--hosts", str(hosts), "--", *command], env)


def start_launched(
    first: Sequence[str], args: Sequence[str | Path], hosts: int = 3, options: Sequence[str] = ()
) -> Running:
    """Starts `apgas.launch` with one first place on each of the hosts named, in a cluster with that number of hosts."""
    launcher = [sys.executable, "-m", "apgas.launch", "--hosts", ",".join(first), *options]
    return start_on_hosts(hosts, [*launcher, sys.executable, *args])


def start_places(first: Sequence[str], args: Sequence[str | Path], hosts: int = 4) -> Running:
    """Starts `mpiexec` with one first place on each of the hosts named, in a cluster of ``hosts`` hosts."""
    names = ",".join(first)
    return start_on_hosts(
        hosts, [BIN / "mpiexec", "-hosts", names, "-ppn", "1", "-n", str(len(first)), sys.executable, *args]
    )


def place_on(job: Running, host: str) -> int:
    """Returns the process id of the Python place of a job on an emulated host."""
    wanted = f"PMI_HOSTNAME={host}".encode()
    for pid, line in job.processes().items():
        if line.startswith(sys.executable):
            with suppress(OSError):  # it ended just now
                if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    return pid
    raise AssertionError(f"no place on {host}: {job.processes()}")
