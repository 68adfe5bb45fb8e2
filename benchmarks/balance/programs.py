"""The contenders: ``python -m benchmarks.balance.programs bare``, or ``glb`` under mpiexec."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache, partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import apgas

from ..compare.contender import Answer, Channel, Command
from ..levelbag import Count
from ..uts.bag import UtsBag
from ..uts.problems import run_kernel, warm_up
from ..uts.tree import Tree
from . import naps
from .stamps import StampedBag, take_stamps

if TYPE_CHECKING:
    from ctypes import CDLL

    from glb import Bag, Config, Outcome

_AFTERMATH_S: Final = 0.05
"""What a resize leaves to be done belongs to it."""


def bare(channel: Channel) -> None:
    """Serve as the kernel without any balancer."""
    warm_up()
    channel.serve({"kernels": _kernels, "twin": _twin_in_c})


def _kernels(command: Command) -> Answer:
    """Run ``processes`` kernels at once, in processes of one session; return their rates added up, and CPU seconds."""
    count = int(command["processes"])
    # no thread has been started here: a copy of this process is as good as itself
    with get_context("fork").Pool(count) as pool:
        found = pool.map(_kernel, [int(command["depth"])] * count, chunksize=1)
    nodes, seconds, cpu_s = zip(*found, strict=True)
    return {
        "tasks": sum(nodes),
        "rate": sum(n / s for n, s in zip(nodes, seconds, strict=True)),
        "cpu_s": sum(cpu_s),
    }


def _kernel(depth: int) -> tuple[int, float, float]:
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    nodes = run_kernel(Tree(depth))
    return nodes, time.perf_counter() - began_s, time.process_time() - began_cpu_s


def _twin_in_c(command: Command) -> Answer:
    """Run the kernel as a C program, in as many lanes as are faster here; return what ``_kernels`` does, or why not."""
    from ..kernels.catalogue import Absent

    try:
        return min((_in_c(lanes, command["depth"]) for lanes in (16, 32)), key=lambda found: found["cpu_s"])
    except Absent as reason:
        return {"absent": str(reason)}


def _in_c(lanes: int, depth: int) -> dict[str, float]:
    from ..kernels.catalogue import expand

    library, tree = _library(lanes), Tree(depth)
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    bag = UtsBag.of_tree(tree)
    nodes, _ = expand(library, lanes, bag, tree)
    seconds, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    return {"tasks": bag.count + nodes, "rate": (bag.count + nodes) / seconds, "cpu_s": cpu_s}


@cache
def _library(lanes: int) -> CDLL:
    from ..kernels import catalogue

    with tempfile.TemporaryDirectory() as folder:
        return catalogue.load_c("uts", Path(folder), f"-DLANES={lanes}")


def balanced(channel: Channel) -> None:
    """Serve as the balancer, on place 0."""
    apgas.run(channel.serve, {"compute": _compute, "paced": _paced, "naps": _naps})


def _run(depth: int, config: Config) -> Outcome[Count]:
    import glb

    outcome = glb.compute(StampedBag.of_tree(Tree(depth)), Count, config)
    expected = Tree(depth).known_nodes()
    if expected is not None and outcome.result.value != expected:
        raise ValueError(f"{outcome.result.value} nodes were found, not {expected}")
    return outcome


def _compute(command: Command) -> Answer:
    """Compute once; ``tail_s``: from the last task anywhere to the return."""
    import glb

    workers = int(command["workers"])
    outcome = _run(command["depth"], glb.Config(workers=workers, warm_up=warm_up))
    returned_s = time.monotonic()
    last_s = max(at_s for place in apgas.places() for at_s, _ in apgas.at(place, take_stamps))
    everybody_s = outcome.seconds * workers * len(apgas.places())
    return {
        "tasks": outcome.statistics.tasks,
        "rate": outcome.statistics.tasks / outcome.seconds,
        "tail_s": returned_s - last_s,
        "starving": (outcome.statistics.stealing_s + outcome.statistics.starving_s) / everybody_s,
    }


def _paced(command: Command) -> Answer:
    """Let places leave and join while all are held to a rate; return what the others did meanwhile."""
    import glb

    places = apgas.places()
    before = len(apgas.resizes())
    began_s: list[float] = []
    begin = partial(_begin, command["orders"], began_s)
    rate = float(command["rate"])
    config = glb.Config(workers=1, rate=rate, warm_up=warm_up, on_progress=begin)
    _run(command["depth"], config)
    apgas.drain_orders()
    records = [record for record in apgas.resizes()[before:] if record.outcome == "done"]
    others = [place for place in places if place in apgas.places()]
    done = [apgas.at(place, take_stamps) for place in others]
    spans = resize_spans(began_s[0], records)
    share = {
        kind: sum(share_done(stamps, chosen, rate) for stamps in done) / len(done) for kind, chosen in spans.items()
    }
    return {"grow": share["grow"] / share["quiet"], "shrink": share["shrink"] / share["quiet"], "quiet": share["quiet"]}


def resize_spans(zero_s: float, records: Sequence[apgas.ResizeRecord]) -> dict[str, list[tuple[float, float]]]:
    """Return begin and end of all grows, of all shrinks, and of the quiet times between two resizes.

    The times of the records began at ``zero_s``.
    """
    spans: dict[str, list[tuple[float, float]]] = {"grow": [], "shrink": [], "quiet": []}
    last_s = None
    for record in records:
        begin_s = zero_s + record.at_s
        if last_s is not None:
            spans["quiet"].append((last_s, begin_s))
        last_s = begin_s + record.seconds + _AFTERMATH_S
        spans[record.kind].append((begin_s, last_s))
    return spans


def _naps(command: Command) -> Answer:
    """Take naps, which places may leave or join; ``greedy``: the time beside that of greedy list scheduling."""
    import glb

    lasting = naps.durations(command["count"], command["mean"] * command["nap_s"], command["variance"])
    places, before, order = len(apgas.places()), len(apgas.resizes()), command["order"]
    if order is not None:
        apgas.schedule_orders(f"{order[0] * command['nap_s']}:{order[1]}")
    ordered_s = time.monotonic()
    outcome = glb.compute(cast("Bag[naps.Naps]", naps.NapBag.whole(len(lasting), lasting)), naps.Naps)
    began_s = time.monotonic() - outcome.seconds - ordered_s
    if sorted(outcome.result.numbers) != list(range(len(lasting))):
        raise ValueError(f"naps {sorted(outcome.result.numbers)} were taken")
    apgas.disable_malleable_handler()  # ends with the resize that is under way
    records = apgas.resizes()[before:]
    if [record.outcome for record in records] != ["done"] * (order is not None):
        raise ValueError(f"what became of the order: {records}")
    return {"greedy": outcome.seconds / naps.greedy_s(lasting, naps.spans(places, records, began_s))}


def _begin(orders: str, began_s: list[float], done: int, _places: int, _workers: int) -> None:
    """Start the clock of the orders when the first progress is seen."""
    if done and not began_s:
        began_s.append(time.monotonic())
        apgas.schedule_orders(orders)


def share_done(stamps: list[tuple[float, int]], spans: list[tuple[float, float]], rate: float) -> float:
    """Return the share of the tasks due in ``spans`` that were done in them; if none is lost, a little around 1.

    A stamp's tasks count for the time since the stamp before.

    Args:
        stamps: When, in s, and how many tasks were done by then since the stamp before, ascending.
        spans: Begin and end of the time looked at, in s.
        rate: Tasks due per second.
    """
    done = 0.0
    for (before_s, _), (at_s, tasks) in pairwise(stamps):
        for begin, end in spans:
            overlap = min(at_s, end) - max(before_s, begin)
            if overlap > 0:
                done += tasks * overlap / (at_s - before_s)
    return done / (rate * sum(end - begin for begin, end in spans))


if __name__ == "__main__":
    {"bare": bare, "glb": balanced}[sys.argv[1]](Channel())
