"""The references of the kernels' measurement do the same work: their counts are right."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import pytest

from benchmarks.bc.bag import BLOCK_SOURCES, Solver, factor_of
from benchmarks.bc.graph import rmat
from benchmarks.kernels import catalogue
from benchmarks.kernels.catalogue import Absent
from benchmarks.nqueens.bag import known_solutions
from benchmarks.uts.bag import UtsBag
from benchmarks.uts.tree import Tree

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


@needs_gcc
@pytest.mark.parametrize("lanes", [8, 16, 32])
@pytest.mark.parametrize("depth", [2, 3, 6, 10])
def test_uts_in_c_counts_every_node_and_hashes_as_many_as_we_do(depth: int, lanes: int, tmp_path: Path) -> None:
    library = catalogue.load_c("uts", tmp_path, f"-DLANES={lanes}")
    tree = Tree(depth)
    ours, theirs = UtsBag.of_tree(tree), UtsBag.of_tree(tree)
    while ours.process(1 << 40):
        pass
    nodes, hashes = catalogue.expand(library, lanes, theirs, tree)
    assert theirs.count + nodes == ours.count == tree.known_nodes()
    assert hashes == ours.hashed


@needs_gcc
@pytest.mark.parametrize("size", [1, 2, 4, 8, 11])
def test_nqueens_in_c_finds_every_solution(size: int, tmp_path: Path) -> None:
    solve = catalogue.load_c("nqueens", tmp_path).nqueens_solve
    solve.restype = ctypes.c_int64
    assert solve(ctypes.c_int64(size)) == known_solutions(size)


@needs_gcc
def test_centrality_in_c_is_ours_for_the_same_sources(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    graph = rmat(10, 2)
    solver, sources = Solver(graph), catalogue._same_sources(graph)
    totals = solver.zeros()
    for start in catalogue._blocks(graph):
        solver.accumulate(start, start + BLOCK_SOURCES, totals)
    theirs = catalogue.add_dependencies(catalogue.load_c("bc", tmp_path), graph, sources)
    ours = np.zeros(graph.vertices)
    ours[: graph.active] = totals / factor_of(graph.vertices)
    assert len(set(sources.tolist())) == BLOCK_SOURCES * len(catalogue._blocks(graph)) > 500
    assert ours.tolist() == pytest.approx(theirs.tolist(), rel=1e-9, abs=1e-6)
    assert theirs.max() > 1000


def test_the_naive_programs_are_right() -> None:
    assert catalogue.count_nodes(Tree(5)) == (3987, 3987)
    assert catalogue.count_solutions((1 << 8) - 1, 0, 0, 0) == 92


def test_points_of_numpy_give_pi() -> None:
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    samples = 1 << 18
    hits = catalogue.count_hits(np.random.Generator(np.random.SFC64(1)), samples)
    assert abs(4 * hits / samples - 3.1416) < 0.02


def test_wrong_counts_are_refused() -> None:
    with pytest.raises(ArithmeticError, match="6 nodes"):
        catalogue._nodes(6, 6, Tree(2))
    with pytest.raises(ArithmeticError, match="93 solutions"):
        catalogue._boards(93, 8)


def test_the_graph_has_neither_loops_nor_doubles() -> None:
    vertices, edges = catalogue.undirected(8)
    assert vertices == 256
    assert (edges[:, 0] < edges[:, 1]).all()
    assert len({tuple(edge) for edge in edges.tolist()}) == len(edges) > 1000
    graph = catalogue._graph(8)
    assert int(graph.out.starts[-1]) == 2 * len(edges)
    assert len(set(catalogue._spread(8, 4))) == 4


def test_without_a_compiler_the_reference_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "COMPILER", "no-such-compiler")
    with pytest.raises(Absent, match="no-such-compiler is not installed"):
        catalogue.load_c("uts", tmp_path)


@needs_gcc
def test_a_compiler_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "FLAGS", ("-fno-such-flag",))
    with pytest.raises(Absent, match=r"did not compile uts\.c: .*no-such-flag"):
        catalogue.load_c("uts", tmp_path)


def test_a_package_that_is_not_there_is_absent() -> None:
    with pytest.raises(Absent, match="not installed"):
        catalogue._package("no_such_package_of_graphs")
