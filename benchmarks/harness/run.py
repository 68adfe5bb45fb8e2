"""One run of a benchmark on place 0: warm up, compute, verify, report."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence, Sized
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import apgas
import glb
from apgas.testing.handlers import ReleaseNewest
from glb.affinity import machine_id

from .errors import BadUsage, first_cause, room_for_compiled, show_error
from .jit import has_numba
from .measurement import (
    Measurement,
    ResultFile,
    cores,
    gather_provenance,
    headline,
    report_to_scheduler,
    show_measurement,
    show_statistics,
    spoken,
)
from .progress import Progress

if TYPE_CHECKING:
    from .cli import Benchmark, CommonOptions


R = TypeVar("R", bound=glb.Result)

CALL_S: Final = 0.02
"""Longest time that a call of ``process`` may stand for when the rate is limited: longer ones come in bursts."""


def run_benchmark(benchmark: Benchmark[Any], options: CommonOptions) -> int:
    """Run ``benchmark`` and report; on place 0, inside ``apgas.run``.

    Returns:
        The exit code: 0 fine, 1 wrong result or failure.

    Raises:
        BadUsage: The result file or the timeline cannot be written.
    """
    if options.trace is not None:
        _trace(options.trace)
    target = ResultFile(options.json)
    target.reserve()
    if not has_numba() and not options.quiet:
        sys.stderr.write("numba is not installed: this runs on the plain kernel, many times slower\n")
    try:
        measurement = _measure(benchmark, options)
        target.write(measurement.as_json())
        report_to_scheduler(measurement.as_json())
    except Exception as error:  # noqa: BLE001 - whatever failed, the user and the file get the reason
        _report_failure(benchmark, options, target, error)
        return 1
    if options.quiet:
        sys.stdout.write(headline(measurement) + "\n")
    else:
        show_measurement(measurement, options.json)
    if options.statistics:
        show_statistics(measurement)
    if measurement.verified is False:
        show_error(f"{benchmark.name}: wrong result", measurement.checked_against, "run again, and report it")
        return 1
    return 0


def _trace(path: Path) -> None:
    try:
        apgas.trace(path)
    except apgas.UsageError as error:
        raise BadUsage(
            f"--trace {path}", str(error), "give a file in a folder that exists and can be written"
        ) from None


def _report_failure(benchmark: Benchmark[Any], options: CommonOptions, target: ResultFile, error: Exception) -> None:
    cause = first_cause(error)
    text = f"{type(cause).__name__}: {cause}"
    if options.debug:
        traceback.print_exception(error)
    remedy = room_for_compiled(error) or ("" if options.debug else "add --debug for the traceback")
    document = {"error": text, "benchmark": benchmark.name, "parameters": dict(benchmark.parameters)}
    report_to_scheduler(document)
    try:
        target.write(document)
    except OSError as trouble:
        remedy = f"the result file {options.json} cannot be written either: {trouble.strerror}"
    show_error(f"{benchmark.name} failed", text, remedy)


def _measure(benchmark: Benchmark[R], options: CommonOptions) -> Measurement:
    born_ago_s, began_s = age_s(), time.monotonic()
    if (added_s := options.added_s) is not None:
        glb.set_user_handler(SlowResizes(*added_s))
    if not options.quiet:
        count = len(apgas.places())
        sys.stderr.write(f"{_label(benchmark)}: warming up {count} {'place' if count == 1 else 'places'}\n")
    _prepare(benchmark.warm_up)  # here first, so that the kernel is compiled once and the others load it
    machines = list(apgas.gather(_prepare, benchmark.warm_up).values())
    workers = options.workers or max(1, cores() // machines.count(machines[0]))
    measurement = Measurement(benchmark, workers, places_start=len(apgas.places()))
    nodes = {place.node for place in apgas.places()}
    begin = partial(_begin, benchmark.warm_up, options.orders, options.places_go_to)
    result = _compute(benchmark, options, measurement, begin)
    if born_ago_s is not None:
        balancer_s = time.monotonic() - began_s - measurement.runs_s[0]
        measurement.startup = {"runtime_s": born_ago_s, "balancer_s": max(0.0, balancer_s)}
    values = [benchmark.value(result)]
    for _ in range(1, options.repeat):
        result = _compute(benchmark, options, measurement, benchmark.warm_up)
        values.append(benchmark.value(result))
    # waits for an order that is being carried out; those not due yet are withdrawn
    apgas.disable_malleable_handler()
    measurement.resizes = apgas.resizes()
    measurement.places_end = len(apgas.places())
    measurement.result = values[-1]
    for record in measurement.resizes:
        nodes.update(record.nodes)
    measurement.provenance = gather_provenance(nodes, benchmark.parameters.get("seed"))
    _verify(benchmark, options, measurement, values, result)
    measurement.notes = benchmark.publish(result)
    return measurement


def age_s() -> float | None:
    """Return how long ago this process was made, to some 10 ms; None where the system does not say."""
    try:
        # the name, in brackets, may hold anything; what follows are fields 3 and on of proc(5)
        fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError, AttributeError):
        return None


def _label(benchmark: Benchmark[R]) -> str:
    return ", ".join([benchmark.name, *(f"{name} {value}" for name, value in benchmark.parameters.items())])


def _prepare(warm_up: Callable[[], object]) -> str:
    """Make this place ready, and return its machine.

    The place has loaded the balancer with this module: none does so while orders wait.
    """
    warm_up()
    return machine_id()


def _begin(warm_up: Callable[[], object], orders: str, hosts: tuple[str, ...]) -> None:
    """Make a place ready, and on place 0 start the clock of the orders.

    The balancer calls this on each place before it works there; on place 0 it has registered its handler by then, so no
    order is refused for being early, and everything is warm already, so the computation begins next.
    """
    warm_up()
    if orders and apgas.here().id == 0:
        apgas.schedule_orders(orders, hosts=hosts)


def _granularity(benchmark: Benchmark[R], options: CommonOptions) -> int | None:
    if options.granularity is not None or benchmark.default_granularity is None or options.rate is None:
        return options.granularity or benchmark.default_granularity
    return max(1, min(benchmark.default_granularity, int(options.rate * CALL_S)))


def _sizing(options: CommonOptions) -> apgas.Sizing | None:
    if options.target_efficiency is None:
        return None
    return apgas.Sizing(target=options.target_efficiency, max_nodes=options.max_nodes, hosts=options.places_go_to)


def _compute(
    benchmark: Benchmark[R], options: CommonOptions, measurement: Measurement, warm_up: Callable[[], object]
) -> R:
    """Compute once, note the numbers in ``measurement``, and return the result."""
    bag = benchmark.make_bag(options.rate)
    total = len(bag) if benchmark.static and isinstance(bag, Sized) else None
    with Progress(_label(benchmark), benchmark.unit, total, options.quiet) as progress:

        def on_progress(done: int, places: int, workers: int) -> None:
            progress.update(done, places, workers)
            apgas.progress(done, total, benchmark.unit)

        config = glb.Config(
            workers=measurement.workers,
            granularity=_granularity(benchmark, options),
            rate=options.rate,
            static=benchmark.static,
            on_progress=on_progress,
            warm_up=warm_up,
            target_efficiency=_sizing(options),
        )
        began_cpu_s = time.process_time()
        outcome = glb.compute(bag, benchmark.make_result, config)
    measurement.runs_cpu_s.append(time.process_time() - began_cpu_s)
    measurement.runs_s.append(outcome.seconds)
    measurement.outcome = outcome
    measurement.nodes = {number: apgas.place(number).node for number in outcome.places}
    return outcome.result


def _verify(
    benchmark: Benchmark[R], options: CommonOptions, measurement: Measurement, values: list[object], last: R
) -> None:
    """Compare every repetition with the known value, or with a sequential run if that is asked for."""
    expected, source = benchmark.known(), "the known value"
    if expected is None and options.verify and benchmark.verify is not None:
        if not options.quiet:
            sys.stderr.write(f"{benchmark.name}: verifying\n")
        right, measurement.checked_against = benchmark.verify(last)
        if any(value != values[-1] for value in values):
            right, measurement.checked_against = False, "the repetitions gave different results"
        measurement.verified = right
        return
    if expected is None and options.verify:
        if not options.quiet:
            sys.stderr.write(f"{benchmark.name}: verifying by a sequential run\n")
        expected, source = benchmark.expected(), "a sequential run"
    if expected is None:
        measurement.checked_against = "not checked" if options.verify else "not checked (--verify would)"
        return
    wrong = [value for value in values if value != expected]
    measurement.verified = not wrong
    measurement.checked_against = (
        f"the result is {spoken(wrong[0])}, but {source} gives {spoken(expected)}" if wrong else source
    )


# Resizes that take longer than they do, as on a system where processes start and end more slowly ---------------------


class SlowResizes(ReleaseNewest):
    """Adds seconds to every resize, in which the computation goes on.

    Before a grow it does at its old size; after a shrink without the leavers, whose nodes are still held.
    """

    def __init__(self, grow_s: float, shrink_s: float) -> None:
        self._grow_s = grow_s
        self._shrink_s = shrink_s

    def preGrow(self, nb_places: int) -> None:  # noqa: ARG002 - however many
        """Keep the newcomers waiting."""
        time.sleep(self._grow_s)

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:  # noqa: ARG002 - the balancer chooses
        """Leave the choice to the balancer."""
        return []

    def postShrink(self, nb_places: int, removed_places: Sequence[apgas.Place]) -> None:  # noqa: ARG002 - whichever places left
        """Keep the nodes of the leavers, as if their processes still ended."""
        time.sleep(self._shrink_s)
