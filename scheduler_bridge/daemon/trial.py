"""Trials of benchmarks: runs one by itself, to learn what one core does before nodes are emulated; reads results."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

TIMEOUT_S: Final = 1800.0
"""It ends what hangs. The first run on a busy machine, which compiles the kernel, may take minutes."""


class CalibrationError(Exception):
    """A benchmark did not run; the text says which and what it said."""


def run_benchmark(
    benchmark: str, arguments: Sequence[str], path: Path, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Run ``benchmark`` at full speed with one worker on one place.

    Args:
        benchmark: Module name below ``apgas.benchmarks``.
        arguments: Its problem, as on the command line.
        path: Where its JSON document goes; the run has its folder as the current one.
        environment: In addition to this process's.

    Returns:
        The document.

    Raises:
        CalibrationError: It failed, or its result is wrong.
    """
    command = [sys.executable, "-m", f"apgas.benchmarks.{benchmark}", *arguments]
    command += ["--workers", "1", "--verify", "--quiet", "--json", str(path.absolute())]  # it runs elsewhere
    try:
        ended = subprocess.run(
            command,
            cwd=path.parent,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CalibrationError(f"apgas.benchmarks.{benchmark} did not end within {TIMEOUT_S:.0f} s") from None
    if ended.returncode:
        said = " / ".join((ended.stderr or ended.stdout).strip().splitlines()[-3:])
        raise CalibrationError(f"apgas.benchmarks.{benchmark} failed with status {ended.returncode}: {said}")
    result: dict[str, Any] = json.loads(path.read_bytes())
    if result.get("verified") is not True or not result.get("seconds") or not result.get("tasks"):
        raise CalibrationError(f"apgas.benchmarks.{benchmark} did not verify its result: see {path}")
    return result


def children_cpu_s() -> float:
    """Return the CPU seconds of all processes that were started from here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def result_of(path: Path) -> dict[str, Any]:
    """Return what a job wrote to ``path``, or an ``error``."""
    try:
        result: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        return {"error": f"no result: {error}"}
    return result


def import_path() -> str:
    """Return the search path with which jobs import what this process imports, installed or not."""
    root = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
