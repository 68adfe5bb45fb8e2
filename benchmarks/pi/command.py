"""The command ``python -m benchmarks.pi``."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from ..harness.cli import Benchmark
from ..harness.errors import BadUsage
from ..harness.options import parse_count
from .bag import Hits, PiBag, count_span, load_kernel

MAX_SAMPLES: Final = 2**62
KNOWN_HITS: Final = {
    (1_000_000, 1): 785_428,
    (10_000_000, 1): 7_853_412,
    (100_000_000, 1): 78_534_958,
    (1_000_000_000, 1): 785_394_795,
    (10_000_000_000, 1): 7_853_954_082,
    (1_000_000, 2): 784_720,
    (10_000_000, 2): 7_854_542,
    (100_000_000, 2): 78_546_419,
    (1_000_000_000, 2): 785_391_945,
    (10_000_000_000, 2): 7_853_989_950,
}
"""Hits by (samples, seed), each from one sequential run of the kernel."""


def build(samples: int, seed: int) -> Benchmark[Hits]:
    """Return Monte Carlo Pi with ``samples`` points under ``seed``."""

    def recorded() -> object | None:
        hits = KNOWN_HITS.get((samples, seed))
        return None if hits is None else Hits(hits, samples).pi

    return Benchmark(
        name="pi",
        parameters={"samples": samples, "seed": seed},
        make_bag=lambda _: PiBag.whole(samples, seed),
        make_result=Hits,
        value=lambda result: result.pi,
        expected=lambda: Hits(count_span(0, samples, seed), samples).pi,
        unit="samples",
        static=True,
        default_granularity=1 << 21,
        warm_up=load_kernel,
        known=recorded,
        rule="two points per Philox counter",
    )


def command(
    samples: Annotated[str, typer.Option(help="Points to draw, like 1e9.")] = "1e9",
    seed: Annotated[int, typer.Option(help="Key of the random numbers.")] = 1,
) -> Benchmark[Hits]:
    """Estimate Pi from random points, exactly reproducible on any number of places.

    Example: mpiexec -n 4 python -m benchmarks.pi --samples 1e10
    """
    count = parse_count("--samples", samples)
    if count > MAX_SAMPLES:
        raise BadUsage(f"--samples {samples}", "more than 2^62 samples", "give fewer samples")
    if not 0 <= seed < 2**64:
        raise BadUsage(f"--seed {seed}", "the key has 64 bits", "give a seed from 0 to 2^64 - 1")
    return build(count, seed)
