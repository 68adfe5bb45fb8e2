"""The batch: jobs drawn from the mix of the 2024 paper's table, scaled to four slow nodes and one minute.

The table lists configurations of four benchmarks, the sizes at which they run as rigid jobs with weights, and the
bounds within which they run as malleable ones. Here the 32 nodes of the paper become 4, its 8 node-hours about 3
node-minutes, and its ten minutes of submissions a third of one. Source: the batches of the published malleable
APGAS runs (2024); the scaled sizes are ours.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

from scheduler_bridge import policies
from scheduler_bridge.model import JobSpec
from scheduler_bridge.record import Recorder, RunRecord, metrics
from scheduler_bridge.sim import Dynamics, Engine, Simulated
from scheduler_bridge.workloads import TraceJob

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random


NODES: Final = 4
SUBMIT_WINDOW_S: Final = 20.0
AT_ONCE: Final = 3
"""Jobs that are submitted at the beginning; the others follow, uniform in the window."""
MALLEABLE_SHARE: Final = 0.6
BENCHMARKS: Final = ("uts", "nqueens", "bc", "pi")


@dataclass(frozen=True)
class Configuration:
    """A problem of the mix.

    Attributes:
        benchmark: Module name below ``apgas.benchmarks``.
        arguments: Its problem, as on the command line.
        label: The problem in a word, part of the jobs' names.
        work_node_s: Node-seconds of work at the reference speed of an emulated node.
        rigid: Sizes as a rigid job with their weights.
        bounds: Least and most nodes as a malleable job.
    """

    benchmark: str
    arguments: tuple[str, ...]
    label: str
    work_node_s: float
    rigid: tuple[tuple[int, float], ...]
    bounds: tuple[int, int]


@dataclass(frozen=True)
class Drawn:
    """A problem of the mix that was drawn for a batch.

    Attributes:
        problem: The problem.
        spec: The job that computes it.
    """

    problem: Configuration
    spec: JobSpec

    def walltime_s(self, slowdown: float = 1.0) -> float:
        """The bound that a careful user would name if the work takes so much longer than at the reference speed."""
        return _walltime_s(slowdown * self.problem.work_node_s, self.spec.min_nodes)


def _walltime_s(work_node_s: float, min_nodes: int) -> float:
    """Twice what a job needs at its least size, and some seconds for starting, checking and ending."""
    return round(2.0 * work_node_s / min_nodes + 10.0, 1)


@dataclass(frozen=True)
class Shape:
    """What every batch of a kind has in common: number of jobs, total work, number of malleable jobs."""

    mix: tuple[Configuration, ...]
    jobs: tuple[int, int]
    work_node_s: tuple[float, float]
    malleable: int
    window_s: float = SUBMIT_WINDOW_S


def draw(
    random: Random, shape: Shape, *, accept: Callable[[Sequence[Drawn]], bool] | None = None, attempts: int = 20_000
) -> list[Drawn]:
    """Draw a batch: all four benchmarks, both classes, total work within the bounds of ``shape``.

    Batches that do not fit, or that ``accept`` declines, are thrown away and drawn anew, so that the others keep their
    relative odds.

    Raises:
        ValueError: No batch fitted in ``attempts`` draws.
    """
    for _ in range(attempts):
        jobs = _draw_once(random, shape)
        if fits(jobs, shape) and (accept is None or accept(jobs)):
            return jobs
    raise ValueError(f"no batch of {shape.jobs} jobs with {shape.work_node_s} node-seconds in {attempts} attempts")


def fits(batch: Sequence[Drawn], shape: Shape) -> bool:
    """Whether ``batch`` is of this ``shape``."""
    classes = Counter(drawn.spec.job_class for drawn in batch)
    least, most = shape.work_node_s
    return (
        {drawn.problem.benchmark for drawn in batch} == set(BENCHMARKS)
        and classes["malleable"] >= shape.malleable
        and classes["rigid"] >= 2
        and least <= sum(drawn.problem.work_node_s for drawn in batch) <= most
    )


def _draw_once(random: Random, shape: Shape) -> list[Drawn]:
    count = random.randint(*shape.jobs)
    choices = [(configuration, size, weight) for configuration in shape.mix for size, weight in configuration.rigid]
    drawn = random.choices(choices, weights=[weight for _, _, weight in choices], k=count)
    later = sorted(round(random.uniform(0.5, shape.window_s), 1) for _ in range(count - AT_ONCE))
    submissions = [0.0] * AT_ONCE + later
    malleable = [random.random() < MALLEABLE_SHARE for _ in range(count)]
    return [
        _job(index, configuration, size, elastic, submit_s)
        for index, ((configuration, size, _), elastic, submit_s) in enumerate(
            zip(drawn, malleable, submissions, strict=True), start=1
        )
    ]


def _job(index: int, problem: Configuration, size: int, elastic: bool, submit_s: float) -> Drawn:
    least, most = problem.bounds if elastic else (size, size)
    spec = JobSpec(
        job_id=index,
        name=f"{problem.benchmark}{problem.label}-{index}",
        user="demo",
        job_class="malleable" if elastic else "rigid",
        nodes=min(max(size, least), most),
        min_nodes=least,
        max_nodes=most,
        walltime_s=_walltime_s(problem.work_node_s, least),
        submit_s=submit_s,
    )
    return Drawn(problem, spec)


# What a batch will probably do: the same core and policies with simulated jobs ---------------------------------------
#
# Seeds are no excuse: a batch in which nothing is resized, or which takes five minutes, shows nothing. So a batch is
# simulated before it is taken, with the delays of real jobs on two cores.

START_S: Final = 1.3
"""From the start of a job's processes until it computes and takes orders."""
STARTS_S: Final = (0.2, 0.7, START_S, 2.0, 3.0, 4.5, 6.0)
"""From a quick machine to a very busy one."""
UNEVEN: Final = (0.0, 0.3, -0.3)
"""Two jobs do not start equally fast: by such a share every second one takes longer, and the others less."""
GROW_S: Final = 1.2
SHRINK_S: Final = 0.4
END_S: Final = 0.3
"""From the result to the end of the last process."""


def shows_resizing(batch: Sequence[Drawn], nodes: Sequence[str], least: int) -> bool:
    """Whether a batch will see ``least`` grows and shrinks under malleable, and one more if all goes as usual."""
    for start_s, uneven in product(STARTS_S, UNEVEN):
        total = metrics(forecast(batch, nodes, "malleable", start_s=start_s, uneven=uneven))
        if min(total.grows, total.shrinks) < least + (start_s == START_S and not uneven):
            return False
    return True


def forecast(
    batch: Sequence[Drawn], nodes: Sequence[str], policy: str, *, start_s: float = START_S, uneven: float = 0.0
) -> RunRecord:
    """Simulate ``batch`` on ``nodes`` under ``policy``, with ``start_s`` from a job's start until it computes.

    ``uneven`` is the share by which that is more for every second job, and less for the others.

    Raises:
        UnknownPolicyError: There is no such policy.
    """
    recorder = Recorder(nodes, policy)
    engine = Engine(nodes, policies.get(policy), observer=recorder.observe)
    engine.run(_simulated(drawn, start_s * (1 + uneven * (-1) ** drawn.spec.job_id)) for drawn in batch)
    return recorder.record()


def _simulated(drawn: Drawn, start_s: float) -> Simulated:
    # The fixed seconds scale with the nodes here, which is wrong by less than a second at these sizes.
    runtime_s = drawn.problem.work_node_s / drawn.spec.nodes + start_s + END_S
    return TraceJob.of(drawn.spec, runtime_s), Dynamics(ready_delay_s=start_s, grow_s=GROW_S, shrink_s=SHRINK_S)
