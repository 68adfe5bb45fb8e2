"""``malleable simulate`` as a whole, from its start to its table, beside a bare loop over the same file."""

from __future__ import annotations

import compileall
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import scheduler_bridge
from scheduler_bridge.experiments.real_workloads.cells import THETA_FILE
from scheduler_bridge.workloads import Workload, load, write_swf
from scheduler_bridge.workloads.generate import generate

PROCESS: Final = "process"
MILLION: Final = "million"
MOST_TIMES: Final = 5.0
"""The goal: at most this multiple of the bare loop's time."""
MOST_MB: Final = 600.0
"""The goal for a million jobs."""
_BARE: Final = Path(__file__).with_name("bare.py")
_DEADLINE_S: Final = 3600
"""After this time a measured process is ended by SIGALRM: an alarm outlasts the start of a program."""
_LONE: Final = f"""
import json, os, signal, subprocess, sys
process = subprocess.Popen([sys.executable, *sys.argv[1:]], preexec_fn=lambda: signal.alarm({_DEADLINE_S}))
_, status, usage = os.wait4(process.pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
"""
"""A small parent: Linux counts the memory of the process that starts a program as that program's."""


@dataclass(frozen=True)
class Whole:
    """Costs of both: the least CPU seconds of several runs in turn, and our most memory.

    Attributes:
        label: The workload.
        bare_s: The bare loop's CPU seconds, its process as a whole.
        cpu_s: Ours.
        mean_wait_s: What came out, the same of both.
    """

    label: str
    jobs: int
    nodes: int
    bare_s: float
    cpu_s: float
    memory_mb: float
    mean_wait_s: float

    @property
    def times(self) -> float:
        """How many times the bare loop's time it takes."""
        return self.cpu_s / self.bare_s

    @property
    def goal(self) -> str:
        """Whether the goals are met, in words."""
        if self.jobs >= 1_000_000:
            return f"<= {MOST_MB:g} MB {'met' if self.memory_mb <= MOST_MB else 'MISSED'}"
        return f"<= {MOST_TIMES:g} x {'met' if self.times <= MOST_TIMES else 'MISSED'}"


def workloads(suite: str, data: Path | None) -> list[Workload]:
    """The workloads: a machine of 100 nodes like KTH's, and where there are the data 10,000 real jobs of Theta."""
    if suite == MILLION:
        return [generate("lublin", 1, jobs=1_000_000, load=0.8)]
    found = [generate("lublin", 1, jobs=10_000, load=0.8)]
    if data is not None and (data / THETA_FILE).exists():
        theta = load(data / THETA_FILE)
        begin_s = theta.jobs[43].submit_s  # before that are jobs of months before
        window = theta.window(begin_s, theta.jobs[10_043].submit_s)
        found.append(window)
    return found


def measure(workload: Workload, policy: str = "easy", times: int = 3) -> Whole:
    """Measure both in turn, each in processes of its own.

    Raises:
        RuntimeError: They do not agree, or one of them fails.
    """
    # as where it is installed: a checkout whose user keeps no bytecode compiles all of it at each start
    compileall.compile_dir(Path(scheduler_bridge.__file__).parent, quiet=2)
    with tempfile.TemporaryDirectory() as folder:
        file, nodes = Path(folder) / "jobs.swf", str(workload.nodes)
        write_swf(workload, file)
        simulate = ["-m", "scheduler_bridge.cli", "simulate", "--workload", str(file), "--nodes", nodes]
        bare, ours = [], []
        for _ in range(times):
            bare.append(_run([str(_BARE), str(file), nodes]))
            ours.append(_run([*simulate, "--policy", policy, "--json", "-"]))
    expected_s = float(bare[0][0])
    mean_wait_s = json.loads(ours[0][0])["metrics"]["mean_wait_s"]
    if abs(mean_wait_s - expected_s) > 1e-6 * expected_s:
        raise RuntimeError(f"{workload.name}: the mean wait is {mean_wait_s} s, the bare loop's is {expected_s} s")
    return Whole(
        label=f"{policy}: {workload.label}",
        jobs=len(workload),
        nodes=workload.nodes,
        bare_s=min(cpu_s for _, cpu_s, _ in bare),
        cpu_s=min(cpu_s for _, cpu_s, _ in ours),
        memory_mb=max(memory_mb for _, _, memory_mb in ours),
        mean_wait_s=mean_wait_s,
    )


def _run(words: Sequence[str]) -> tuple[str, float, float]:
    """Run Python with these words: what it prints, its CPU seconds and its most memory in MB.

    The user's part of the time alone would be an estimate: Linux divides the exact sum by the ticks of a timer, and a
    process of some milliseconds that no tick found in its own code has none.
    """
    done = subprocess.run([sys.executable, "-c", _LONE, *words], stdout=subprocess.PIPE, text=True, check=True)
    printed, _, usage = done.stdout.rstrip().rpartition("\n")
    code, cpu_s, memory_mb = json.loads(usage)
    if code:
        raise RuntimeError(f"{' '.join(words)} ended with code {code}")
    return printed, cpu_s, memory_mb
