"""The command line of UTS and what the harness needs to know."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from benchmarks.harness.errors import BadUsage
from benchmarks.harness.spec import Benchmark
from benchmarks.levelbag import Count
from benchmarks.uts.reference import run_kernel, warm_up
from benchmarks.uts.tree import Tree

GRANULARITY_NODES = 100_000
"""About 0.2 to 0.3 ms of the compiled kernel: short beside a steal, long beside a call."""


def command(
    depth: Annotated[int, typer.Option("--depth", "-d", help="Depth of the tree; the root has depth 0.")] = 13,
    seed: Annotated[int, typer.Option(help="Seed of the tree.")] = 19,
    branching: Annotated[int, typer.Option("--branching", "-b", help="Mean number of children.")] = 4,
) -> Benchmark[Count]:
    """Count the nodes of an unbalanced tree that exists only as a hash function.

    Example: mpiexec -n 4 python -m benchmarks.uts --depth 15
    """
    try:
        tree = Tree(depth, seed, branching)
    except ValueError as error:
        option = str(error).partition(" ")[0]
        culprit = f"--{option} {locals()[option]}"
        raise BadUsage(culprit, str(error), f"give another --{option}") from None
    return benchmark_of(tree)


def benchmark_of(tree: Tree) -> Benchmark[Count]:
    """Return the benchmark that counts the nodes of ``tree``."""
    from benchmarks.uts import kernel  # loading takes a while, which --help need not wait for
    from benchmarks.uts.bag import UtsBag

    return Benchmark(
        name="uts",
        parameters={"depth": tree.depth, "seed": tree.seed, "branching": tree.branching},
        make_bag=partial(UtsBag.of_tree, tree),
        make_result=Count,
        value=node_count,
        expected=partial(expected_nodes, tree),
        known=tree.known_nodes,
        unit="nodes",
        static=False,
        default_granularity=GRANULARITY_NODES,
        warm_up=warm_up,
        rule=f"last level counted, not hashed; {kernel.NAME}",
        noun="nodes",
    )


def node_count(result: Count) -> int:
    """Return the JSON result."""
    return result.value


def expected_nodes(tree: Tree) -> int:
    """Return the recorded number of nodes, or else that of a sequential run."""
    known = tree.known_nodes()
    return run_kernel(tree) if known is None else known
