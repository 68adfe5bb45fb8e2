"""A real Slurm on emulated hosts; needs root, and Debian's packages when it is first used."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from support.console import Console
from support.hosts import CLUSTER
from support.mpi import ROOT

REQUIRED = "MALLEABLE_REQUIRE_SLURM"
RELEASE = "MALLEABLE_SLURM_RELEASE"
NEWEST = "forky"
"""The release of Debian with the newest Slurm; its packages change."""
_INSTALL_S = 300.0


@functools.cache
def why_no_slurm(release: str) -> str:
    """Tries to install and to start that Slurm; returns why it cannot be done here, or nothing."""
    for arguments in (["--install-slurm"], ["--slurm", "--hosts", "1", "--", "true"]):
        try:
            done = subprocess.run(
                [sys.executable, str(CLUSTER), *arguments], capture_output=True, text=True, check=False,
                timeout=_INSTALL_S, stdin=subprocess.DEVNULL, env={**os.environ, RELEASE: release},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"emulated-cluster {arguments[0]} has not ended after {_INSTALL_S:g} s"
        if done.returncode:
            return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
    return ""


def need_slurm(*, demanded: bool = True) -> None:
    """Skips the test where Slurm cannot run; fails it there if MALLEABLE_REQUIRE_SLURM=1 demands it."""
    why = why_no_slurm(os.environ.get(RELEASE, ""))
    if why and os.environ.get(REQUIRED) == "1" and demanded:
        pytest.fail(f"{REQUIRED}=1, but {why}")
    if why:
        pytest.skip(why)


class Cluster(Console):
    """Four hosts, host1 to host4, with two cores each, and Slurm on them; commands run on the login host.

    Args:
        folder: Where jobs write, and where their state folders are.
        options: Further options of the emulated cluster.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        super().__init__(folder, "--slurm", *options)

    def submit(self, nodes: int, script: str, *options: str) -> int:
        """Submit a batch script; its output goes to ``job-N.txt``; return its number."""
        path = self.folder / f"script-{uuid.uuid4().hex[:8]}.sh"
        path.write_text(f"#!/bin/bash\ncd {ROOT}\n{script}\n", encoding="utf-8")
        output = f"--output={self.folder}/job-%j.txt"
        printed = self.run("sbatch", "--parsable", f"--nodes={nodes}", "--exclusive", output, *options, path)
        return int(printed.split()[0])

    def text(self, job: int) -> str:
        """What a batch script has written so far."""
        path = self.folder / f"job-{job}.txt"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def texts(self) -> str:
        """What all of them have written."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("job-*.txt")))

    def held(self) -> dict[int, tuple[str, ...]]:
        """The nodes that running jobs hold, as squeue says."""
        jobs = [line.split() for line in self.run("squeue", "-h", "-t", "R", "-o", "%i %N").splitlines()]
        return {int(job): tuple(self.run("scontrol", "show", "hostnames", nodes).split()) for job, nodes in jobs}

    def nodes(self) -> list[str]:
        """All nodes that any running job holds."""
        return sorted(node for nodes in self.held().values() for node in nodes)

    def story(self) -> str:
        """What Slurm and the jobs say, for a failure."""
        said = (self.run(*words, code=None) for words in (["squeue"], ["squeue", "-s"], ["sinfo"]))
        return "\n".join((*said, self.texts()))

    def resize(self, job: int, change: str) -> None:
        """Order a resize as soon as the program of ``job`` takes orders, and none is under way."""
        words = ("malleable", "slurm", "resize", str(job), change)
        self.until(lambda: "is ordered to" in self.run(*words, code=None), f"job {job} takes orders")

    def until_nodes(self, count: int) -> list[str]:
        """Wait until jobs hold that many nodes in all; return them."""
        self.until(lambda: len(self.nodes()) == count, f"{count} nodes are held")
        return self.nodes()

    def until_says(self, job: int, words: str) -> str:
        """Wait until a batch script has written ``words``."""
        self.until(lambda: words in self.text(job), f"job {job} says {words!r}")
        return self.text(job)

    def until_over(self, job: int) -> str:
        """Wait until no job is left; return what ``job`` has written."""
        self.until(lambda: not self.run("squeue", "-h").strip(), "no job is left")
        return self.text(job)
