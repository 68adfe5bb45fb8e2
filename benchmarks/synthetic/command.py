"""The command ``python -m benchmarks.synthetic``."""

from __future__ import annotations

import math
from typing import Annotated, Final

import typer

from ..harness.cli import Benchmark
from ..harness.errors import BadUsage
from ..harness.options import parse_count
from .bag import StaticBag, Tally, TreeBag
from .plain import DISTRIBUTIONS
from .work import LEAST_UNITS, MAX_BRANCHING, MAX_TASKS, Work, calibrate, load_kernel

QUICKLY_CHECKED: Final = 10**7
"""Up to this number of tasks the expected value is found in a second, so it is compared without ``--verify``."""


def build(work: Work, parameters: dict[str, object], units_per_s: float) -> Benchmark[Tally]:
    """Return the benchmark that does ``work``, which is called ``parameters`` in the result."""

    def expected() -> dict[str, object]:
        units, total = work.expected()
        return _value(Tally(work.tasks, units, total))

    def publish(result: Tally) -> list[tuple[str, str]]:
        work_s = result.units / units_per_s
        return [("work", f"{work_s:.3f} core-seconds, {1e3 * work_s / work.tasks:.4g} ms a task on average")]

    return Benchmark(
        name="synthetic",
        parameters=parameters,
        make_bag=lambda _: TreeBag.whole(work) if work.branching else StaticBag.whole(work.tasks, work),
        make_result=Tally,
        value=_value,
        expected=expected,
        unit="tasks",
        static=not work.branching,
        warm_up=load_kernel,
        known=lambda: expected() if work.tasks <= QUICKLY_CHECKED else None,
        rule="a task ends when its units are done",
        publish=publish,
    )


def _value(tally: Tally) -> dict[str, object]:
    return {"tasks": tally.tasks, "units": tally.units, "checksum": f"{tally.total:016x}"}


def command(
    work: Annotated[float, typer.Option(help="Core-seconds of all tasks together.")] = 10.0,
    tasks: Annotated[str, typer.Option(help="Number of tasks, like 1e5.")] = "1e4",
    distribution: Annotated[
        str, typer.Option(help=f"Of the tasks' durations: {', '.join(DISTRIBUTIONS)}.")
    ] = "lognormal",
    variance: Annotated[
        float | None,
        typer.Option(help="Of the durations, in squared means.", show_default="1; constant 0, uniform 1/3"),
    ] = None,
    dynamic: Annotated[
        bool,
        typer.Option("--dynamic/--static", help="A tree that grows from one task, or all tasks known at the start."),
    ] = False,
    branching: Annotated[int, typer.Option(help="Children of a task in the tree, at most.")] = 4,
    seed: Annotated[int, typer.Option(help="Which task takes how long.")] = 1,
    units_per_second: Annotated[
        float | None, typer.Option(help="Speed of a core; gives every run the same units.", show_default="measured")
    ] = None,
) -> Benchmark[Tally]:
    """Do work of a known size and spread, to see how well it is balanced; every task is checked.

    Example: mpiexec -n 4 python -m benchmarks.synthetic --work 20 --tasks 1e5 --variance 4 --dynamic
    """
    count = parse_count("--tasks", tasks)
    spread = _variance_of(distribution, variance)
    for name, value in (("work", work), ("units-per-second", 1.0 if units_per_second is None else units_per_second)):
        if not (math.isfinite(value) and value > 0):
            raise BadUsage(f"--{name} {value:g}", "it must be positive", f"give a positive --{name}")
    if count > MAX_TASKS:
        raise BadUsage(f"--tasks {count}", f"more than {MAX_TASKS:,} tasks", "give fewer tasks")
    if not 2 <= branching <= MAX_BRANCHING:
        raise BadUsage(
            f"--branching {branching}", "a tree of one child each is a line", f"give 2 to {MAX_BRANCHING} children"
        )
    if not 0 <= seed < 2**64:
        raise BadUsage(f"--seed {seed}", "a seed has 64 bits", "give a seed from 0 to 2^64 - 1")
    speed = units_per_second or calibrate()
    if work * speed < LEAST_UNITS * count:
        raise BadUsage(
            f"--work {work:g} --tasks {tasks}",
            f"a task would take {1e9 * work / count:.3g} ns, less than it takes to hand it out",
            f"give at most {int(work * speed / LEAST_UNITS):,} tasks, or more work",
        )
    width = branching if dynamic else 0
    drawn = Work.drawn(work * speed, count, distribution=distribution, variance=spread, seed=seed, branching=width)
    parameters: dict[str, object] = {
        "work_s": work,
        "tasks": count,
        "distribution": distribution,
        "variance": spread,
        "start": "dynamic" if dynamic else "static",
        "seed": seed,
        "units_per_s": round(speed),
    }
    return build(drawn, parameters | ({"branching": branching} if dynamic else {}), speed)


def _variance_of(distribution: str, variance: float | None) -> float:
    """Return the variance that is asked for, by default the usual one; refuse what the distribution cannot have."""
    if distribution not in DISTRIBUTIONS:
        raise BadUsage(f"--distribution {distribution}", "no such distribution", f"give {', '.join(DISTRIBUTIONS)}")
    _, default, least, most = DISTRIBUTIONS[distribution]
    asked = default if variance is None else variance
    if not least <= asked <= most:
        allowed = f"{least:g}" if least == most else f"from {least:g} to {most:.6g}"
        raise BadUsage(
            f"--distribution {distribution} --variance {asked:g}",
            f"its variance, in squared means, is {allowed}",
            "give another variance, or lognormal, which can have any up to 100",
        )
    return asked
