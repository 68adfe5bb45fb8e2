"""Graph files: what is read, and what is said about those that cannot be."""

from __future__ import annotations

import gzip
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from benchmarks.bc.files import read_graph
from benchmarks.bc.graph import Graph
from benchmarks.harness.errors import BadUsage

PATTERN = "%%MatrixMarket matrix coordinate pattern"


def arcs(graph: Graph) -> list[tuple[int, int]]:
    """The edges by the names of their ends; an undirected one twice."""
    tails = graph.names[np.repeat(np.arange(graph.vertices), np.diff(graph.out.starts))]
    return sorted(zip(tails.tolist(), graph.names[graph.out.neighbours].tolist(), strict=True))


def written(folder: Path, text: str, name: str = "graph.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "7 -3\n-3 10000000000\n",
        "# comment\n\n7 -3\n  -3\t10000000000  \n",
        "% comment\n# another\n7 -3 0.5\n-3 10000000000 1.25\n",
        "7,-3\n-3,10000000000\n",
        "7 -3 {'weight': 2}\n% in between\n-3 10000000000 {} # behind\n",
        "7 -3\r\n-3 10000000000",
        "7 -3\n7 7\n-3 7\n7 -3\n-3 10000000000\n",
    ],
)
def test_edge_lists_in_all_their_forms(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    one_way = [(-3, 10**10), (7, -3)]
    if text.count("7 -3\n") == 2:
        one_way.append((-3, 7))
    assert arcs(read_graph(path, directed=True)) == sorted(one_way)
    graph = read_graph(path)
    assert not graph.directed
    assert graph.vertices == 3
    assert graph.edges == 2
    assert arcs(graph) == [(-3, 7), (-3, 10**10), (7, -3), (10**10, -3)]


def test_parallel_edges_count_when_asked(tmp_path: Path) -> None:
    path = written(tmp_path, "1 2\n1 2\n2 1\n")
    assert arcs(read_graph(path, directed=True, multigraph=True)) == [(1, 2), (1, 2), (2, 1)]
    assert read_graph(path, multigraph=True).edges == 3
    assert read_graph(path).edges == 1


def test_a_compressed_file_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "graph"
    path.write_bytes(gzip.compress(b"1 2\n2 3\n"))
    assert read_graph(path).edges == 2
    path.write_bytes(gzip.compress(f"{PATTERN} general\n3 3 1\n1 2\n".encode()))
    assert arcs(read_graph(path)) == [(1, 2)]


@pytest.mark.parametrize(
    ("header", "asked", "expected"),
    [
        (f"{PATTERN} general", None, [(1, 3), (3, 2)]),
        (f"{PATTERN} general", False, [(1, 3), (2, 3), (3, 1), (3, 2)]),
        (f"{PATTERN} symmetric", None, [(1, 3), (2, 3), (3, 1), (3, 2)]),
        (f"{PATTERN} symmetric", True, [(1, 3), (2, 3), (3, 1), (3, 2)]),
        ("%%matrixmarket MATRIX Coordinate real GENERAL", None, [(1, 3), (3, 2)]),
    ],
)
def test_matrices(header: str, asked: bool | None, expected: list[tuple[int, int]], tmp_path: Path) -> None:
    value = " 0.5" if "real" in header else ""
    graph = read_graph(written(tmp_path, f"{header}\n% comment\n\n5 5 2\n1 3{value}\n3 2{value}\n"), asked)
    assert arcs(graph) == expected
    assert (graph.vertices, graph.active) == (5, 3)
    assert graph.directed is (bool(asked) if asked is not None else "general" in header.lower())
    assert sorted(graph.names.tolist()) == [1, 2, 3, 4, 5]


def test_a_matrix_without_entries_is_a_graph_without_edges(tmp_path: Path) -> None:
    graph = read_graph(written(tmp_path, f"{PATTERN} general\n4 4 0\n"))
    assert (graph.vertices, graph.active, graph.edges) == (4, 0, 0)


def test_what_networkx_writes_is_read(tmp_path: Path) -> None:
    model = nx.gnp_random_graph(30, 0.1, seed=1)
    nx.write_weighted_edgelist(model, tmp_path / "weighted")
    nx.write_edgelist(model, tmp_path / "edges.gz")
    expected = sorted([*model.edges, *((head, tail) for tail, head in model.edges)])
    assert arcs(read_graph(tmp_path / "weighted")) == arcs(read_graph(tmp_path / "edges.gz")) == expected


@pytest.mark.parametrize(
    ("text", "culprit", "why"),
    [
        ("1 2\n3\n", ":2: 3", "two vertices"),
        ("# c\n1 2\n2 three\n", ":3: three", "whole number"),
        ("1 2\n2 3.5\n", ":2: 3.5", "whole number"),
        ("1 2\n2 99999999999999999999\n", ":2: 99999999999999999999", "64 bits"),
        ("", "--graph", "no edge"),
        ("# nothing\n", "--graph", "no edge"),
        ("% nothing\n", "--graph", "no edge"),
        (f"{PATTERN} general\n3 4 1\n1 2\n", ":2: 3 4 1", "square"),
        (f"{PATTERN} general\n% c\nthree\n", ":3: three", "size"),
        (f"{PATTERN} general\n", ":2: end of file", "size"),
        (f"{PATTERN} general\n3 3 2\n1 2\n", ":2: 3 3 2", "1 follow"),
        (f"{PATTERN} general\n3 3 1\n1 2\n2 3\n", ":2: 3 3 1", "2 follow"),
        (f"{PATTERN} general\n3 3 2\n1 2\n1 4\n", "entry 2: 1 4", "from 1 to 3"),
        (f"{PATTERN} general\n3 3 2\n1 2\n0 1\n", "entry 2: 0 1", "from 1 to 3"),
        (f"{PATTERN} general\n3 3 2\n1 2\nx 1\n", ":4: x", "whole number"),
        ("%%MatrixMarket matrix array real general\n2 2\n", ":1: %%MatrixMarket matrix array", "coordinate"),
    ],
)
def test_errors_name_file_line_and_reason(text: str, culprit: str, why: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadUsage) as caught:
        read_graph(path)
    assert culprit in caught.value.culprit
    assert str(path) in caught.value.culprit
    assert why in caught.value.why
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        (b"\x1f\x8b\x08", "cut off"),
        (gzip.compress(b"1 2\n" * 99, mtime=0)[:-9], "cut off"),
        (b"\xff\xfe1 2\n", "text"),
    ],
)
def test_unreadable_files(content: bytes | None, why: str, tmp_path: Path) -> None:
    path = tmp_path / "graph.gz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadUsage, match="cannot read it") as caught:
        read_graph(path)
    assert why in caught.value.why
