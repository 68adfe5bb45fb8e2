"""A user's program is checked strictly, with the types that the package brings, and has none of its own to add."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support import PATIENCE_S

PROGRAM = """
from __future__ import annotations

from concurrent.futures import Future, as_completed
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from apgas.futures import MalleableExecutor
from glb import search
from scheduler_bridge import Simulation, Workload, simulate


class Node(NamedTuple):
    depth: int
    value: int


def children(node: Node) -> list[Node]:
    return [Node(node.depth + 1, node.value + more) for more in (1, 2)] if node.depth < 3 else []


def area(width: float, height: float = 1.0) -> float:
    return width * height


def pick(table: npt.NDArray[np.float64], index: int) -> float:
    return float(table[index])


def main() -> None:
    with MalleableExecutor(places=2, initializer=print, initargs=("ready",), retries=1) as executor:
        futures: list[Future[float]] = [executor.submit(area, width, height=2.0) for width in (1.0, 2.0)]
        found: list[float] = [future.result() for future in as_completed(futures)]
        table = executor.scatter(np.zeros(3))
        more: list[float] = list(executor.map(lambda index: pick(table, index), range(3), progress=True))
        executor.resize(3)
        executor.adapt(1, 4)
        names: list[str] = [place.node for place in executor.places]
        print(found, more, names)
    best: Node | None = search.maximize(Node(0, 0), children, attrgetter("value")).result.node
    done: Simulation = simulate(Workload.generate("lublin", jobs=20, nodes=8), "easy", malleable=0.5)
    print(best, done.metrics)
"""
MISTAKE = "executor_places: list[str] = MalleableExecutor().places\nMalleableExecutor().submit(area, 'wide')\n"


@pytest.mark.full
def test_a_users_program_is_clean_and_its_mistakes_are_found(tmp_path: Path) -> None:
    (tmp_path / "clean.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "wrong.py").write_text(PROGRAM + MISTAKE, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "clean.py", "wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [line.partition(":")[0] for line in errors] == ["wrong.py"] * 2, done.stdout + done.stderr
