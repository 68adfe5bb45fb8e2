"""The executor beside other pools of processes: ``python -m benchmarks.executors``."""

from __future__ import annotations

import json as json_text
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from apgas.errors import extras_named

with extras_named():
    import typer

    from ..compare import command_line, display
    from ..compare.contender import EXECUTORS, Config
    from ..compare.engine import OURS, Goal, Quantity, carry_out, draw_bars
    from ..overheads.__main__ import Overheads
    from ..overheads.catalogue import FUTURES, LOKY, POOL, Measure, hello_of_executor, of_one_case

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PEERS: Final = (POOL, FUTURES, LOKY)
_ALL: Final = (OURS, *_PEERS)
_FAST: Final = (Goal(">=", 3, FUTURES), Goal(">=", 2, POOL))

MEASURES: Final = {
    measure.name: measure
    for measure in (
        of_one_case(
            "submit",
            {"n": 20_000, "limit_s": 0.4},
            _ALL,
            Quantity("per_s", "no-op tasks, submitted one by one", "1/s", _FAST),
        ),
        of_one_case(
            "map", {"n": 50_000, "limit_s": 0.4}, _ALL, Quantity("per_s", "no-op tasks of a map", "1/s", _FAST)
        ),
        of_one_case(
            "sweep",
            {"count": 1000, "least_s": 0.0001, "most_s": 0.3, "workers": 4},
            _ALL,
            Quantity("over_ideal", "sweep of 1,000 tasks, time / ideal", "ratio", (Goal("<=", 1.05),)),
            limit_s=300.0,
            places=4,
            rounds=1,
            note="sweep: a map of tasks that sleep, 0.1 to 300 ms, 37 ms on average, on 4 workers; ideal: sum / 4",
        ),
        of_one_case(
            "large",
            {"n": 50, "bytes": 8 << 20, "limit_s": 0.3},
            _ALL,
            Quantity("per_s", "tasks with an array of 8 MiB", "1/s"),
            Quantity("scattered_per_s", "the same, scattered before", "1/s"),
        ),
        of_one_case(
            "start",
            {},
            _ALL,
            Quantity("start_s", "start of 2 workers from plain Python", "s", (Goal("<=", 1.3, FUTURES),)),
            kind="start",
            note="start: from the command to the first result; ours begins when all workers are there",
        ),
    )
}


def _command(
    rounds: command_line.Rounds = 5,
    measures: Annotated[str, typer.Option(help="What to measure, as a,b.", show_default=",".join(MEASURES))] = "",
    peers: Annotated[
        str | None, typer.Option(help="Which peers to measure beside us, as a,b.", show_default=",".join(_PEERS))
    ] = None,
    json: command_line.Json = None,
    figure: command_line.Figure = None,
    page: Annotated[Path | None, typer.Option(help="Write table and figure there, as Markdown.")] = None,
    quiet: command_line.Quiet = False,
) -> int:
    """Measure the executor beside other pools of processes.

    Example: python -m benchmarks.executors --measures submit,map
    """
    names = command_line.chosen("--measures", measures, MEASURES) or MEASURES
    beside = _PEERS if peers is None else command_line.chosen("--peers", peers, _PEERS)
    asked = Executors(rounds=rounds, measures=[MEASURES[name] for name in names], contenders=(OURS, *beside))
    return carry_out(asked, json, quiet, figure, page)


main = partial(command_line.main, f"python -m {__package__}", _command)


@dataclass(kw_only=True)
class Executors(Overheads):
    """The executor beside others; the costs of the runtime are measured in the same way."""

    name = "executors"
    title = "The executor beside other pools of processes"
    packages: ClassVar[tuple[str, ...]] = ("joblib",)

    def command(self, name: str, measure: Measure) -> list[str]:
        """Return the command line that starts a contender: all do without mpiexec."""
        config = json_text.dumps(Config(measure.places, ()))
        return [sys.executable, "-m", f"{__package__}.contenders", name, config]

    def hello(self, name: str, measure: Measure) -> list[str]:  # noqa: ARG002 - there is one measure of starts
        """Return the command line whose start is measured; the script is a file, as workers that load it need one."""
        return [sys.executable, "-c", hello_of_executor(*EXECUTORS[name], 2)]

    def draw(self, machine: str) -> Figure:
        """Draw the medians of each quantity that more than one has."""
        lines = [line for line in self.lines if len(line.medians) > 1]
        figure, panels = display.new_picture(9, 0.6 + 1.25 * len(lines), max(1, len(lines)), 1)
        for axes, line in zip(panels[:, 0], lines, strict=False):
            goals = ", ".join(line.goals_spoken())
            draw_bars(axes, line.quantity.title + (f"; goal: {goals}" if goals else ""), line)
        figure.suptitle(f"{self.title} ({machine})", fontsize=10, color=display.INK)
        return figure


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
