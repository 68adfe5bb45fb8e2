"""Reads a user's graph: an edge list or a Matrix Market file, each also compressed with gzip.

An edge list has one edge a line, ``TAIL HEAD``, separated by blanks or a comma; vertices are whole numbers of any size
and in any order; lines that begin with ``#`` or ``%``, what follows a ``#``, empty lines and further columns (weights)
are passed over. Of a Matrix Market file (coordinate format) each entry is an edge from its row to its column, whatever
its value. Distances count edges.
"""

from __future__ import annotations

import gzip
import itertools
import warnings
from typing import IO, TYPE_CHECKING, Final

import numpy as np

from ..harness.errors import BadUsage
from .graph import MAX_VERTICES, Graph

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .graph import Integers

_BANNER: Final = "%%matrixmarket"
_COMMENTS: Final = ("#", "%")
_EXAMPLE: Final = 'write one edge a line, as two whole numbers: "17 4"'


def read_graph(path: Path, directed: bool | None = None, multigraph: bool = False) -> Graph:
    """Read the graph in ``path``.

    Args:
        path: The file.
        directed: Whether an edge leads one way only; by default, the edges of an edge list lead both ways, and those of
            a Matrix Market file as its header says (``general``: one way).
        multigraph: Whether an edge that is listed several times counts as several.

    Raises:
        BadUsage: The file cannot be read, or a line of it makes no sense; the error names file and line.
    """
    try:
        with _open(path) as stream:
            first = stream.readline()
            if first.lower().startswith(_BANNER):
                return _matrix(path, first, stream, directed, multigraph)
        with _open(path) as stream:
            edges = _edges(path, stream, 0)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise BadUsage(
            f"--graph {path}", f"cannot read it: {_reason(error)}", "give an edge list or a Matrix Market file"
        ) from None
    if not len(edges):
        raise BadUsage(f"--graph {path}", "there is no edge in it", _EXAMPLE)
    names, numbers = np.unique(edges, return_inverse=True)
    tails, heads = numbers.reshape(edges.shape).astype(np.int64).T
    return _graph(path, tails, heads, names, bool(directed), multigraph)


def _open(path: Path) -> IO[str]:
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rt", encoding="utf-8") if packed else path.open(encoding="utf-8")


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not a text file"
    if isinstance(error, EOFError):
        return "the compressed file is cut off"
    return getattr(error, "strerror", None) or str(error)


def _graph(path: Path, tails: Integers, heads: Integers, names: Integers, directed: bool, multigraph: bool) -> Graph:
    if len(names) > MAX_VERTICES:
        raise BadUsage(f"--graph {path}", f"it has {len(names):,} vertices", f"give at most {MAX_VERTICES:,}")
    return Graph.from_edges(len(names), tails, heads, names=names, directed=directed, simple=not multigraph)


def _edges(path: Path, stream: IO[str], before: int) -> Integers:
    """Return the edges in the rest of ``stream`` as rows of two; ``before`` lines were read already."""
    head: list[str] = []
    for line in stream:
        head.append(line)
        if line.strip() and not line.lstrip().startswith(_COMMENTS):
            break
    body = itertools.chain(head[-1:], stream)
    separator = "," if head and "," in head[-1] else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return np.loadtxt(body, np.int64, comments="#", delimiter=separator, usecols=(0, 1), ndmin=2)
    except (ValueError, OverflowError, Warning):
        pass  # something is unusual: go line by line, to understand it or to say where it is
    with _open(path) as again:
        return _edges_by_line(path, itertools.islice(enumerate(again, 1), before, None))


def _edges_by_line(path: Path, lines: Iterable[tuple[int, str]]) -> Integers:
    found: list[tuple[int, int]] = []
    for number, line in lines:
        text = line.partition("#")[0].strip()
        if not text or text.startswith(_COMMENTS):
            continue
        words = text.replace(",", " ").split()
        if len(words) < 2:
            raise BadUsage(f"{path}:{number}: {text[:60]}", "an edge needs two vertices, and this is one", _EXAMPLE)
        found.append((_number(path, number, words[0]), _number(path, number, words[1])))
    return np.array(found, np.int64).reshape(-1, 2)


def _number(path: Path, line: int, word: str) -> int:
    try:
        value = int(word)
    except ValueError:
        raise BadUsage(
            f"{path}:{line}: {word[:60]}",
            "a vertex is a whole number, and this is none",
            f"number the vertices (networkx.convert_node_labels_to_integers does it); {_EXAMPLE}",
        ) from None
    if not -(2**63) <= value < 2**63:
        raise BadUsage(f"{path}:{line}: {word[:60]}", "the number has more than 64 bits", "give smaller numbers")
    return value


def _matrix(path: Path, banner: str, stream: IO[str], directed: bool | None, multigraph: bool) -> Graph:
    """Read a Matrix Market file whose first line was read. Source: Boisvert et al., NISTIR 5935, 1996."""
    words = banner.lower().split()
    if words[1:3] != ["matrix", "coordinate"] or len(words) != 5:
        raise BadUsage(
            f"{path}:1: {banner.strip()[:60]}",
            "not a sparse matrix: the header has the form %%MatrixMarket matrix coordinate FIELD SYMMETRY",
            "write the adjacency matrix in coordinate format (scipy.io.mmwrite of a sparse matrix does)",
        )
    line, size = _sizes(path, stream)
    edges = _edges(path, stream, line) if size[2] else np.empty((0, 2), np.int64)
    if len(edges) != size[2]:
        raise BadUsage(
            f"{path}:{line}: {size[0]} {size[1]} {size[2]}",
            f"{size[2]:,} entries are announced, but {len(edges):,} follow",
            "the file is cut off or damaged: get it again",
        )
    if len(edges) and not (edges.min() >= 1 and edges.max() <= size[0]):
        wrong = int(np.flatnonzero(((edges < 1) | (edges > size[0])).any(axis=1))[0])
        raise BadUsage(
            f"{path}: entry {wrong + 1}: {edges[wrong, 0]} {edges[wrong, 1]}",
            f"rows and columns go from 1 to {size[0]}, as line {line} says",
            "correct the entry or the size",
        )
    mirrored = words[4] != "general"
    tails, heads = edges.T - 1
    if mirrored and directed:
        tails, heads = np.concatenate([tails, heads]), np.concatenate([heads, tails])
    one_way = not mirrored if directed is None else directed
    return _graph(path, tails, heads, np.arange(1, size[0] + 1), one_way, multigraph)


def _sizes(path: Path, stream: IO[str]) -> tuple[int, tuple[int, int, int]]:
    """Return the line with the sizes: its number, and rows, columns and entries."""
    number, text = 1, "%"
    while not text or text.startswith("%"):
        number, line = number + 1, stream.readline()
        text = line.strip() if line else "end of file"
    words = text.split()
    if len(words) != 3 or not all(word.isdecimal() for word in words):
        raise BadUsage(
            f"{path}:{number}: {text[:60]}", "the size of the matrix belongs here", "write ROWS COLUMNS ENTRIES"
        )
    rows, columns, entries = map(int, words)
    if rows != columns:
        raise BadUsage(
            f"{path}:{number}: {text}",
            f"the matrix has {rows} rows and {columns} columns, but that of a graph is square",
            "give the adjacency matrix of the graph",
        )
    return number, (rows, columns, entries)
