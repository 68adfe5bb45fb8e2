"""The command line of N-Queens and what the harness needs to know."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ..harness.cli import Benchmark
from ..harness.errors import BadUsage
from ..levelbag import Count, gift_tasks


def command(
    size: Annotated[int, typer.Option("-n", "--size", help="Rows and columns of the board.")] = 15,
) -> Benchmark[Count]:
    """Count the ways to put N queens on an N x N board so that none attacks another.

    Example: mpiexec -n 4 python -m benchmarks.nqueens -n 17
    """
    from . import kernel  # loading takes a while, which --help need not wait for
    from .bag import QueensBag, check_size, known_solutions

    try:
        check_size(size)
    except ValueError as error:
        raise BadUsage(f"-n {size}", str(error), "give another -n") from None
    return Benchmark(
        name="nqueens",
        parameters={"n": size},
        make_bag=lambda rate: QueensBag.of_board(size, gift_tasks(rate)),
        make_result=Count,
        value=solution_count,
        expected=partial(kernel.run_kernel, size),
        known=partial(known_solutions, size),
        unit="placements",
        warm_up=kernel.warm_up,
        rule=f"queens put on rows with two open rows below or more, one of eight images; {kernel.NAME}",
        noun="solutions",
    )


def solution_count(result: Count) -> int:
    """Return the JSON result."""
    from .scalar import PARTS

    return result.value // PARTS
