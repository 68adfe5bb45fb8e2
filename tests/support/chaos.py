"""Jobs in a storm: traffic between all places while the job grows and shrinks without end, for tests that break it."""

from __future__ import annotations

import json
import random
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from stress.soak import START

from support.mpi import BIN, Running, start_job


@dataclass(frozen=True)
class Storm:
    """A job that never ends by itself.

    Attributes:
        job: Its processes.
        place_0: Process id of place 0.
    """

    job: Running
    place_0: int

    def by_role(self) -> dict[str, list[int]]:
        """Returns the living processes: mpiexec, proxy, place 0, place (of the first world), newcomer.

        Without what only looks after places: the job goes on without it.
        """
        found: dict[str, list[int]] = defaultdict(list)
        for pid, line in self.job.processes().items():
            if not any(word in line for word in ("cmd=abort", "watchdog.py")):
                found[self._role(pid, line)].append(pid)
        return dict(found)

    def _role(self, pid: int, line: str) -> str:
        if pid == self.place_0:
            return "place 0"
        for word, role in (("hydra_pmi_proxy", "proxy"), ("mpiexec", "mpiexec"), ("runtime.joining", "newcomer")):
            if word in line:
                return role
        return "place"


def storm_command(seed: int, places: int = 3, cycles: int = 10**6) -> list[str]:
    """Returns the command of a job that starts with ``places`` places and goes on for ``cycles`` cycles."""
    options = {"cycles": cycles, "seconds": 0, "seed": seed, "most": 5}
    return [str(BIN / "mpiexec"), "-n", str(places), sys.executable, "-c", START, json.dumps(options)]


def start_storm(seed: int, env: Mapping[str, str] | None = None) -> Storm:
    """Starts a storm and waits until its places know each other."""
    job = start_job(storm_command(seed), env)
    try:
        said = job.expect("witness", 60.0)
    except BaseException:
        job.__exit__()
        raise
    return Storm(job, json.loads(said.splitlines()[0])["place_0"])


def moment_s(rng: random.Random) -> float:
    """Returns when to strike, in seconds after the start: a grow or a shrink is then mostly under way."""
    return rng.random() * 1.5
