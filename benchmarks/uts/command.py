"""The command line of UTS and what the harness needs to know."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ..harness.cli import Benchmark
from ..harness.errors import BadUsage
from ..levelbag import Count, gift_tasks
from .tree import FIXED, SHAPES, Tree

if TYPE_CHECKING:
    from .problems import AnyTree

_DEPTH = 13
SAMPLE_NAMES = ("T1", "T1L", "T1XL", "T1XXL", "T2", "T2L", "T3", "T3L", "T3XXL", "T4", "T5")


def command(
    depth: Annotated[
        int | None, typer.Option("--depth", "-d", help="Depth of the tree; the root has depth 0.", show_default="13")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the tree.", show_default="19")] = None,
    branching: Annotated[
        int | None, typer.Option("--branching", "-b", help="Mean number of children.", show_default="4")
    ] = None,
    sample: Annotated[
        str | None, typer.Option("--sample", "--tree", help=f"A published tree instead: {', '.join(SAMPLE_NAMES)}.")
    ] = None,
    shape: Annotated[str, typer.Option(help=f"How branching depends on the level: {', '.join(SHAPES)}.")] = FIXED,
) -> Benchmark[Count]:
    """Count the nodes of an unbalanced tree that exists only as a hash function.

    Example: mpiexec -n 4 python -m benchmarks.uts --depth 15
    """
    return benchmark_of(tree_of(depth, seed, branching, sample, shape))


def tree_of(
    depth: int | None, seed: int | None, branching: int | None, sample: str | None, shape: str = FIXED
) -> AnyTree:
    """Return the tree that the options ask for; those that are None have their usual values.

    Raises:
        BadUsage: There is no such tree.
    """
    options = {"depth": depth, "seed": seed, "branching": branching}
    given = {name: value for name, value in options.items() if value is not None}
    if sample is not None:
        from .problems import SAMPLES

        if sample not in SAMPLES:
            raise BadUsage(f"--sample {sample}", "no such tree is published", f"give one of {', '.join(SAMPLES)}")
        others = given if shape == FIXED else {**given, "shape": shape}
        if others:
            extra = " ".join(f"--{option} {value}" for option, value in others.items())
            raise BadUsage(
                f"--sample {sample} {extra}", "a published tree has its own parameters", f"leave out {extra}"
            )
        return SAMPLES[sample]
    try:
        return Tree(**{"depth": _DEPTH, **given}, shape=shape)
    except ValueError as error:
        option = str(error).partition(" ")[0]
        culprit = {"depth": _DEPTH, "shape": shape, **given}[option]
        raise BadUsage(f"--{option} {culprit}", str(error), f"give another --{option}") from None


def benchmark_of(tree: AnyTree) -> Benchmark[Count]:
    """Return the benchmark that counts the nodes of ``tree``."""
    from . import kernel, problems  # loading takes a while, which --help need not wait for
    from .binomial import BinomialTree, HybridTree

    rule = "every node hashed" if isinstance(tree, BinomialTree | HybridTree) else "last level counted, not hashed"
    return Benchmark(
        name="uts",
        parameters={name: value for name, value in asdict(tree).items() if value != FIXED},
        make_bag=lambda rate: problems.bag_of(tree, gift_tasks(rate)),
        make_result=Count,
        value=lambda result: result.value,
        expected=partial(problems.run_kernel, tree),
        known=tree.known_nodes,
        unit="nodes",
        warm_up=problems.warm_up,
        rule=f"{rule}; {kernel.NAME}",
        noun="nodes",
    )
