"""Where numbers get large: path counts beyond the doubles, totals near 2^63; and kernels on other processors."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import PATIENCE_S, ROOT, brandes

from benchmarks.bc.bag import Solver, factor_of, fraction_bits
from benchmarks.bc.graph import MAX_VERTICES, Graph, PathCountError, rmat
from benchmarks.harness.jit import has_numba

KERNELS = [
    pytest.param(True, id="numba", marks=pytest.mark.skipif(not has_numba(), reason="no numba")),
    pytest.param(False, id="numpy"),
]
needs_numba = pytest.mark.skipif(not has_numba(), reason="no numba")


def chain(links: int, width: int) -> Graph:
    """A chain of diamonds: ``width`` ways through each, so width^links paths from end to end."""
    tails: list[int] = []
    heads: list[int] = []
    for link in range(links):
        begin = link * (width + 1)
        for middle in range(begin + 1, begin + 1 + width):
            tails += [begin, middle]
            heads += [middle, begin + width + 1]
    return Graph.from_edges(links * (width + 1) + 1, np.array(tails), np.array(heads))


@needs_numba
def test_path_counts_may_exceed_the_doubles() -> None:
    links, width = 800, 4  # 2^1600 paths
    graph = chain(links, width)
    solver = Solver(graph)
    totals = solver.zeros()
    solver.accumulate(0, graph.vertices, totals)
    values = np.zeros(graph.vertices)
    values[graph.names[: graph.active]] = totals / factor_of(graph.vertices)
    joints = values[:: width + 1]
    before = np.arange(links + 1) * (width + 1)
    assert joints.tolist() == pytest.approx((before * before[::-1]).tolist(), rel=1e-9)


@pytest.mark.parametrize("compiled", KERNELS)
def test_scaling_is_that_of_the_oracle(compiled: bool) -> None:
    graph = chain(330, 8)  # 2^990 paths: one distance is scaled
    starts, heads = graph.out.starts.tolist(), graph.out.neighbours.tolist()
    successors = [heads[starts[v] : starts[v + 1]] for v in range(graph.vertices)]
    head = int(np.flatnonzero(graph.names == 0)[0])
    solver = Solver(graph, compiled)
    totals = solver.zeros()
    at = solver.sources.tolist().index(head)
    solver.accumulate(at, at + 1, totals)
    found = brandes.dependencies(successors, head, 2.0**960)
    units = factor_of(graph.vertices)
    assert totals.tolist() == [int(dependency * units + 0.5) for dependency in found[: graph.active]]


@pytest.mark.parametrize("compiled", KERNELS)
def test_path_counts_too_far_apart_are_refused(compiled: bool) -> None:
    links, width = 700, 8  # 2^2100 paths along the chain, one beside it
    wide = chain(links, width)
    count = wide.vertices
    tails = np.repeat(np.arange(count), np.diff(wide.out.starts))
    names = wide.names
    beside = np.arange(count, count + 2 * links)
    more_tails = np.concatenate([names[tails], [0], beside[:-1]])
    more_heads = np.concatenate([names[wide.out.neighbours], beside[:1], beside[1:]])
    graph = Graph.from_edges(count + len(beside), more_tails, more_heads)
    head = int(np.flatnonzero(graph.names == 0)[0])
    solver = Solver(graph, compiled)
    at = solver.sources.tolist().index(head)
    with pytest.raises(PathCountError, match=rf"vertex {head}, .* 2\^960"):
        solver.accumulate(at, at + 1, solver.zeros())


@pytest.mark.parametrize("bits", range(1, 32))
def test_totals_cannot_overflow(bits: int) -> None:
    for vertices in (2**bits // 2 + 1, 2**bits - 1, min(2**bits, MAX_VERTICES)):
        if vertices >= 2:
            units = 2 ** fraction_bits(vertices)
            assert vertices * ((vertices - 2) * units + 1) < 2**63
            assert vertices * units < 2**52, "a dependency and one half must be exact"
            assert units >= 1


SCRIPT = """
import hashlib
from benchmarks.bc.bag import Solver
from benchmarks.bc.graph import rmat
graph = rmat(6, 2)
solver = Solver(graph)
totals = solver.zeros()
solver.accumulate(0, graph.vertices, totals)
print(hashlib.sha256(totals.tobytes()).hexdigest())
"""


@needs_numba
@pytest.mark.parametrize(
    "settings",
    [{"NUMBA_DISABLE_JIT": "1"}, {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}],
    ids=["not compiled", "generic processor"],
)
def test_the_kernel_gives_the_same_bits_anywhere(settings: dict[str, str], tmp_path: Path) -> None:
    environment = os.environ | settings | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    graph = rmat(6, 2)
    solver = Solver(graph, compiled=False)
    totals = solver.zeros()
    solver.accumulate(0, graph.vertices, totals)
    assert done.stdout.strip() == hashlib.sha256(totals.tobytes()).hexdigest()
