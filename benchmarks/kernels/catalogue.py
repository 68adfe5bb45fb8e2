"""The kernels, and what each is measured beside: a measure per benchmark."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import shutil
import subprocess
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from ..bc.bag import BLOCK_SOURCES, Solver
from ..bc.graph import GRAPH500, Graph, rmat, rmat_edges
from ..compare.engine import OURS, Goal, Quantity
from ..nqueens.bag import known_solutions
from ..nqueens.kernel import run_kernel
from ..pi.bag import count_span, load_kernel
from ..uts.tree import Tree, last_word, law

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..uts.bag import UtsBag

    Edges = NDArray[Any]


# What is measured: contenders that do a measured amount of work in one thread, and what a measure asks of them -------

Amounts: TypeAlias = Mapping[str, float]
Work: TypeAlias = Callable[[], Amounts]
"""Does the work once, in the calling thread, and returns how much of what was done."""


class Absent(Exception):
    """A contender cannot take part; the text says why."""


@dataclass(frozen=True)
class Setting:
    """What contenders are prepared for: whether small problems will do, and a folder for what is not needed later."""

    quick: bool
    folder: Path


@dataclass(frozen=True)
class Contender:
    """A program that does the work.

    Attributes:
        prepare: Loads and compiles what is needed, and returns the work; may raise ``Absent``.
        group: Goals may be set against the best of a group.
    """

    name: str
    label: str
    prepare: Callable[[Setting], Work]
    group: str = ""


@dataclass(frozen=True)
class Measure:
    """One kernel beside its references, ours first; all amounts are given per CPU-second.

    Attributes:
        title: Says for people what is computed.
        quantities: What is read off the amounts; the first is drawn in the figure.
        rule: What a rate counts.
    """

    name: str
    title: Callable[[bool], str]
    quantities: tuple[Quantity, ...]
    contenders: tuple[Contender, ...]
    rule: str


def _done(_result: object, **amounts: float) -> Amounts:
    """Return the amounts of work, which is done when the result is there."""
    return amounts


# The C references, compiled where gcc exists into a folder that the caller removes -----------------------------------

COMPILER: Final = "gcc"
FLAGS: Final = ("-O3", "-march=native", "-std=gnu11", "-shared", "-fPIC")
LIMIT_S: Final = 60.0


def load_c(name: str, folder: Path, *flags: str) -> ctypes.CDLL:
    """Compile ``c/NAME.c`` into ``folder``, with ``flags`` more, and return the library.

    Raises:
        Absent: There is no compiler, or it fails.
    """
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise Absent(f"{COMPILER} is not installed")
    library = folder / f"{name}{len(list(folder.iterdir()))}.so"
    with resources.as_file(resources.files(__package__) / "c" / f"{name}.c") as source:
        command = [compiler, *FLAGS, *flags, str(source), "-o", str(library)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Absent(f"{COMPILER} did not compile {name}.c: {error}") from None
    if done.returncode:
        first = next(iter(done.stderr.splitlines()), "no message")
        raise Absent(f"{COMPILER} did not compile {name}.c: {first}")
    return ctypes.CDLL(str(library))


# UTS: our kernel, the same algorithm in C, and a program that hashes one node after the other ------------------------

_DEPTHS: Final = {False: 13, True: 11}
_NAIVE_DEPTHS: Final = {False: 8, True: 7}
_EVERYTHING: Final = 1 << 62
_C: Final = "C"


def _nodes(nodes: int, hashes: int, tree: Tree) -> Mapping[str, float]:
    if nodes != tree.known_nodes():
        raise ArithmeticError(f"{nodes} nodes were counted where there are {tree.known_nodes()}")
    return {"nodes": nodes, "hashes": hashes}


def _ours_uts(setting: Setting) -> Work:
    from ..uts.bag import UtsBag

    tree = Tree(_DEPTHS[setting.quick])

    def work() -> Mapping[str, float]:
        bag = UtsBag.of_tree(tree)
        while bag.process(_EVERYTHING):
            pass
        return _nodes(bag.count, bag.hashed, tree)

    return work


def _nodes_in_c(lanes: int, setting: Setting) -> Work:
    from ..uts.bag import UtsBag

    tree = Tree(_DEPTHS[setting.quick])
    library = load_c("uts", setting.folder, f"-DLANES={lanes}")

    def work() -> Mapping[str, float]:
        bag = UtsBag.of_tree(tree)
        nodes, hashes = expand(library, lanes, bag, tree)
        return _nodes(bag.count + nodes, bag.hashed + hashes, tree)

    return work


def expand(library: ctypes.CDLL, lanes: int, bag: UtsBag, tree: Tree) -> tuple[int, int]:
    """Expand what the bag holds by the C program, in as many lanes as it was compiled for; return nodes and hashes."""
    queue, branching = bag.queue, law(tree)
    levels, ours, fields = queue.data.shape
    capacity = max(ours, 2 * lanes)  # its lanes are not ours, and a level takes on two vectors at most
    data, entries = np.zeros((levels, capacity, fields), queue.data.dtype), queue.entries.copy()
    data[:, :ours] = queue.data
    sums = (ctypes.c_int64 * 2)()
    library.uts_expand(
        *(ctypes.c_void_p(array.ctypes.data) for array in (data, entries)),
        ctypes.c_int64(levels),
        ctypes.c_int64(capacity),
        *(ctypes.c_void_p(array.ctypes.data) for array in (branching.thresholds, branching.guess)),
        ctypes.c_int64(_EVERYTHING),
        sums,
    )
    return sums[0], sums[1]


def _nodes_naive(setting: Setting) -> Work:
    tree = Tree(_NAIVE_DEPTHS[setting.quick])
    return lambda: _nodes(*count_nodes(tree), tree)


def count_nodes(tree: Tree) -> tuple[int, int]:
    """Return the nodes of a tree and the hashes made, one node after the other, as a short program would do it."""
    thresholds = law(tree).thresholds[0].tolist()
    nodes, hashes = 1, 1
    stack = [(tree.root(), 0)]
    while stack:
        digest, depth = stack.pop()
        if depth == tree.depth:
            continue
        children = bisect_right(thresholds, last_word(digest)) - 1
        nodes += children
        hashes += children
        for child in range(children):
            message = digest + child.to_bytes(4, "big")
            stack.append((hashlib.sha1(message, usedforsecurity=False).digest(), depth + 1))
    return nodes, hashes


UTS: Final = Measure(
    name="uts",
    title=lambda quick: f"UTS, geometric tree, depth {_DEPTHS[quick]}",
    quantities=(
        Quantity("nodes", "nodes", "1/s", (Goal(">=", 0.97, _C),)),
        Quantity("hashes", "hashes", "1/s", (Goal(">=", 0.97, _C),)),
    ),
    contenders=(
        Contender(OURS, "ours", _ours_uts),
        *(
            Contender(f"c{lanes}", f"the same in C, {lanes} lanes", partial(_nodes_in_c, lanes), _C)
            for lanes in (32, 16)
        ),
        Contender("hashlib", "Python and hashlib", _nodes_naive),
    ),
    rule="UTS: nodes of the last level are counted, not hashed, by us and in C; the program with hashlib hashes every "
    "node, of a smaller tree",
)


# N-Queens: our kernel beside plain recursion in C and in Python ------------------------------------------------------

_BOARDS: Final = {False: 16, True: 14}
_NAIVE_BOARDS: Final = {False: 10, True: 9}


def _boards(solutions: int, size: int) -> Mapping[str, float]:
    if solutions != known_solutions(size):
        raise ArithmeticError(f"{solutions} solutions were counted where there are {known_solutions(size)}")
    return {"boards": 1, "solutions": solutions}


def _ours_nqueens(setting: Setting) -> Work:
    size = _BOARDS[setting.quick]
    return lambda: _boards(run_kernel(size), size)


def _boards_in_c(setting: Setting) -> Work:
    size = _BOARDS[setting.quick]
    solve = load_c("nqueens", setting.folder).nqueens_solve
    solve.restype = ctypes.c_int64
    return lambda: _boards(solve(ctypes.c_int64(size)), size)


def _boards_naive(setting: Setting) -> Work:
    size = _NAIVE_BOARDS[setting.quick]
    return lambda: _boards(count_solutions((1 << size) - 1, 0, 0, 0), size)


def count_solutions(full: int, columns: int, left: int, right: int) -> int:
    """Return the number of solutions below a placement, by plain recursion."""
    if columns == full:
        return 1
    solutions = 0
    free = full & ~(columns | left | right)
    while free:
        bit = free & -free
        free ^= bit
        solutions += count_solutions(full, columns | bit, (left | bit) << 1, (right | bit) >> 1)
    return solutions


NQUEENS: Final = Measure(
    name="nqueens",
    title=lambda quick: f"N-Queens, N={_BOARDS[quick]}",
    quantities=(Quantity("solutions", "solutions", "1/s", (Goal(">=", 8, "c"),)),),
    contenders=(
        Contender(OURS, "ours", _ours_nqueens),
        Contender("c", "plain recursion in C", _boards_in_c),
        Contender("python", "the same in Python", _boards_naive),
    ),
    rule="N-Queens: all solutions are counted; we search one of the eight images of each, the others all of them "
    "(Python on a smaller board)",
)


# Betweenness centrality: our kernel beside libraries of graphs, on the graph of GAP and on ours -----------------------
#
# The first is an undirected R-MAT graph with the parameters of Graph500 and 16 edges per vertex, without loops and
# parallel edges, vertices numbered at random. Source: Beamer et al., "The GAP benchmark suite", arXiv:1508.03619. The
# other is that of ``python -m benchmarks.bc``.

_SCALES: Final = {False: 17, True: 12}
_DIRECTED_SCALES: Final = {False: 14, True: 10}
_SEED: Final = 2
_EDGES_PER_VERTEX: Final = 16
_BLOCKS: Final = {False: 8, True: 32}
"""By whether the graph is directed: of the smaller graph many sources are taken, for igraph prepares in each call."""
_FEW: Final = 32
"""Sources for the slower contenders."""


@lru_cache(maxsize=1)
def undirected(scale: int) -> tuple[int, Edges]:
    """Return the number of vertices and the edges, of shape (n, 2), without loops and doubles; smaller end first."""
    vertices = 1 << scale
    number = np.argsort(np.random.Philox(key=_SEED + 1).random_raw(vertices))
    tails, heads = (number[ends] for ends in rmat_edges(scale, _SEED, per_vertex=_EDGES_PER_VERTEX, bounds=GRAPH500))
    low, high = np.minimum(tails, heads), np.maximum(tails, heads)
    keys = np.unique((low * vertices + high)[low != high])
    return vertices, np.stack([keys // vertices, keys % vertices], axis=1)


@lru_cache(maxsize=1)
def _graph(scale: int) -> Graph:
    vertices, edges = undirected(scale)
    low, high = edges.T
    return Graph.from_edges(vertices, low, high, directed=False)


def _spread(scale: int, count: int) -> list[int]:
    """Return sources that have edges, spread over the graph's own order of vertices."""
    _, edges = undirected(scale)
    busy = np.unique(edges)
    chosen: list[int] = busy[np.linspace(0, len(busy) - 1, count).astype(int)].tolist()
    return chosen


def _directed(scale: int) -> Graph:
    return rmat(scale, _SEED)


def _blocks(graph: Graph) -> list[int]:
    """Return the first sources of blocks in the middle of equal shares; those at the ends are unlike the others."""
    count, whole = _BLOCKS[graph.directed], len(graph.sources()) // BLOCK_SOURCES
    return [BLOCK_SOURCES * (whole * (2 * block + 1) // (2 * count)) for block in range(count)]


def _ours_bc(graph_of: Callable[[int], Graph], scales: Mapping[bool, int], setting: Setting) -> Work:
    graph = graph_of(scales[setting.quick])
    solver, starts = Solver(graph), _blocks(graph)

    def work() -> Mapping[str, float]:
        totals = solver.zeros()
        for start in starts:
            solver.accumulate(start, start + BLOCK_SOURCES, totals)
        return {"sources": BLOCK_SOURCES * len(starts)}

    return work


def _same_sources(graph: Graph) -> NDArray[np.uint32]:
    """Return the sources that we take."""
    return np.concatenate([graph.sources()[start : start + BLOCK_SOURCES] for start in _blocks(graph)])


def _textbook_in_c(setting: Setting) -> Work:
    library = load_c("bc", setting.folder)
    graph = _directed(_DIRECTED_SCALES[setting.quick])
    sources = _same_sources(graph)
    return lambda: _done(add_dependencies(library, graph, sources), sources=len(sources))


def add_dependencies(library: ctypes.CDLL, graph: Graph, sources: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Return the sums of the dependencies on ``sources``, by the C program."""
    scores = np.zeros(graph.vertices)
    starts, heads, chosen, sums = (
        ctypes.c_void_p(array.ctypes.data) for array in (graph.out.starts, graph.out.neighbours, sources, scores)
    )
    vertices, count = (ctypes.c_int64(number) for number in (graph.vertices, len(sources)))
    if library.bc_add(vertices, starts, heads, chosen, count, sums):
        raise MemoryError
    return scores


def _igraph_directed(setting: Setting) -> Work:
    package = _package("igraph")
    graph = _directed(_DIRECTED_SCALES[setting.quick])
    tails = np.repeat(np.arange(graph.vertices), np.diff(graph.out.starts))
    theirs = package.Graph(n=graph.vertices, edges=np.stack([tails, graph.out.neighbours], axis=1), directed=True)
    sources = _same_sources(graph).tolist()
    return lambda: _done(theirs.betweenness(sources=sources), sources=len(sources))


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Absent("not installed") from None


def _igraph(setting: Setting) -> Work:
    package = _package("igraph")
    scale = _SCALES[setting.quick]
    vertices, edges = undirected(scale)
    graph = package.Graph(n=vertices, edges=edges)
    sources = _spread(scale, _FEW)
    return lambda: _done(graph.betweenness(directed=False, sources=sources), sources=_FEW)


def _networkit(setting: Setting) -> Work:
    package = _package("networkit")
    package.setNumberOfThreads(1)
    package.setSeed(_SEED, False)
    scale = _SCALES[setting.quick]
    vertices, edges = undirected(scale)
    rows, columns = (np.ascontiguousarray(ends) for ends in edges.T)
    graph = package.GraphFromCoo((np.ones(len(rows)), (rows, columns)), n=vertices, weighted=False, directed=False)
    # it chooses the sources at random
    return lambda: _done(package.centrality.EstimateBetweenness(graph, _FEW, False, False).run(), sources=_FEW)


def _networkx(setting: Setting) -> Work:
    package = _package("networkx")
    scale = _SCALES[setting.quick]
    graph = package.Graph()
    graph.add_edges_from(undirected(scale)[1].tolist())
    sources = _spread(scale, 1)
    targets = list(graph)
    return lambda: _done(package.betweenness_centrality_subset(graph, sources, targets), sources=1)


BC: Final = Measure(
    name="bc",
    title=lambda quick: f"BC, R-MAT graph, scale {_SCALES[quick]}",
    quantities=(Quantity("sources", "sources", "1/s", (Goal(">=", 100), Goal(">=", 4, "igraph"))),),
    contenders=(
        Contender(OURS, "ours", partial(_ours_bc, _graph, _SCALES)),
        Contender("igraph", "igraph", _igraph),
        Contender("networkit", "NetworKit", _networkit),
        Contender("networkx", "networkx", _networkx),
    ),
    rule="BC: shortest paths from one source and their dependencies, one thread; 100 sources/s are 10 ms each",
)

BC_DIRECTED: Final = Measure(
    name="bc-directed",
    title=lambda quick: f"BC, directed R-MAT graph, scale {_DIRECTED_SCALES[quick]}",
    quantities=(Quantity("sources", "sources", "1/s", (Goal(">=", 4, "c"), Goal(">=", 8, "igraph"))),),
    contenders=(
        Contender(OURS, "ours", partial(_ours_bc, _directed, _DIRECTED_SCALES)),
        Contender("c", "one source at a time in C", _textbook_in_c),
        Contender("igraph", "igraph", _igraph_directed),
    ),
    rule="BC, directed: the graph of python -m benchmarks.bc, parallel edges kept; everybody takes the same sources",
)


# Pi: our kernel beside the generators of NumPy, each used as fast as NumPy allows ------------------------------------

_SAMPLES: Final = {False: 1 << 29, True: 1 << 26}
_NUMPY_SAMPLES: Final = {False: 1 << 26, True: 1 << 24}
_CHUNK: Final = 1 << 14
"""Two arrays of this length stay in the second-level cache."""
_PI_SEED: Final = 1
_NUMPY: Final = "numpy"


def _ours_pi(setting: Setting) -> Work:
    samples = _SAMPLES[setting.quick]
    load_kernel()
    return lambda: _done(count_span(0, samples, _PI_SEED), samples=samples)


def _of_numpy(generator: str, setting: Setting) -> Work:
    samples = _NUMPY_SAMPLES[setting.quick]
    make = getattr(np.random, generator)
    return lambda: _done(count_hits(np.random.Generator(make(_PI_SEED)), samples), samples=samples)


def count_hits(generator: np.random.Generator, samples: int) -> int:
    """Return how many of ``samples`` points, a multiple of the chunk, are hits; no array is allocated on the way."""
    x, y = np.empty(_CHUNK), np.empty(_CHUNK)
    hits = 0
    for _ in range(samples // _CHUNK):
        generator.random(out=x)
        generator.random(out=y)
        x *= x
        y *= y
        x += y
        hits += int(np.count_nonzero(x < 1.0))
    return hits


PI: Final = Measure(
    name="pi",
    title=lambda _quick: "Pi, random points",
    quantities=(Quantity("samples", "samples", "1/s", (Goal(">=", 4, _NUMPY),)),),
    contenders=(
        Contender(OURS, "ours, Philox 4x32-10", _ours_pi),
        *(
            Contender(name.lower(), f"NumPy, {name}", partial(_of_numpy, name), _NUMPY)
            for name in ("SFC64", "PCG64", "Philox", "MT19937")
        ),
    ),
    rule="Pi: a sample is one point; 32 bits a coordinate from us, 53 from NumPy",
)

MEASURES: Final = {measure.name: measure for measure in (UTS, NQUEENS, BC, BC_DIRECTED, PI)}
