"""The command ``python -m benchmarks.bc``."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from benchmarks.bc.bag import BLOCK_SOURCES, BCBag, Centrality, fraction_bits, load_solver
from benchmarks.bc.graph import MAX_SCALE
from benchmarks.harness.errors import BadUsage
from benchmarks.harness.spec import Benchmark


def warm_up(scale: int, seed: int) -> None:
    """Generate the graph and load the kernel on the place where this runs."""
    load_solver(scale, seed)


def sequential(scale: int, seed: int) -> Centrality:
    """Compute the whole centrality here, in one go."""
    solver = load_solver(scale, seed)
    totals = solver.zeros()
    solver.accumulate(0, 1 << scale, totals)
    return Centrality(totals)


def build(scale: int, seed: int) -> Benchmark[Centrality]:
    """Return the betweenness centrality of the R-MAT graph of 2^``scale`` vertices under ``seed``."""
    bits = fraction_bits(1 << scale)
    return Benchmark(
        name="bc",
        parameters={"scale": scale, "seed": seed},
        make_bag=partial(BCBag.whole, scale, seed),
        make_result=Centrality,
        value=lambda result: result.summary(bits),
        expected=lambda: sequential(scale, seed).summary(bits),
        unit="sources",
        static=True,
        default_granularity=BLOCK_SOURCES if scale >= 10 else 8 * BLOCK_SOURCES,
        warm_up=partial(warm_up, scale, seed),
        rule="all vertices are sources",
    )


def command(
    scale: Annotated[int, typer.Option(help="2^SCALE vertices, 8 times as many edges.")] = 12,
    seed: Annotated[int, typer.Option(help="Seed of the graph.")] = 2,
) -> Benchmark[Centrality]:
    """Compute the betweenness centrality of an R-MAT graph, exactly reproducible on any number of places.

    Example: mpiexec -n 4 python -m benchmarks.bc --scale 14 --verify
    """
    if not 1 <= scale <= MAX_SCALE:
        raise BadUsage(
            f"--scale {scale}", f"a graph has 2^1 to 2^{MAX_SCALE} vertices", f"give a scale from 1 to {MAX_SCALE}"
        )
    if not 0 <= seed < 2**64:
        raise BadUsage(f"--seed {seed}", "a seed has 64 bits", "give a seed from 0 to 2^64 - 1")
    return build(scale, seed)
