"""The picture and the page of a run: job by job where that can be read, else an overview and a part of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from scheduler_bridge.cli import clock
from scheduler_bridge.cli.common import CliError

if TYPE_CHECKING:
    from scheduler_bridge.record import RunRecord
    from scheduler_bridge.report.course import Course, Window

_EXAMPLE: Final = "for example: --window 36h:48h"

WindowOption = Annotated[
    str | None,
    typer.Option(
        "--window",
        metavar="FROM:TO",
        help="Draw nodes over this time since the first submission, such as 36h:48h, below an overview of the run.",
        show_default="the busiest part of a run that is too large to be drawn whole",
    ),
]


@dataclass(frozen=True)
class Drawn:
    """What is drawn.

    Attributes:
        record: What happened to jobs and nodes.
        whole: Where that is only a part of the run: the course of all of it, and which part.
    """

    record: RunRecord
    whole: tuple[Course, Window] | None = None

    def write(self, png: Path | None, html: Path | None) -> None:
        """Write the picture and the page, those that are asked for.

        Raises:
            OSError: One cannot be written.
        """
        from scheduler_bridge.report import gantt, overview
        from scheduler_bridge.report.page import write_page

        if png is not None and self.whole is None:
            gantt.write_png([self.record], png)
        elif png is not None and self.whole is not None:
            overview.write_png(self.whole[0], self.record, self.whole[1], png)
        if html is not None:
            write_page([self.record], html, whole=self.whole)


def times(text: str | None) -> tuple[float, float] | None:
    """From when to when a part of the run is drawn, in seconds since its first submission; None: it is not said.

    Raises:
        CliError: That are no times, or not in this order.
    """
    if text is None:
        return None
    begin, colon, end = text.partition(":")
    if not colon:
        raise CliError(f"--window {text}", "it is given as from:to", _EXAMPLE)
    from_s, to_s = clock.seconds("--window", begin), clock.seconds("--window", end)
    if from_s >= to_s:
        raise CliError(f"--window {text}: it ends before it begins", hint=_EXAMPLE)
    return from_s, to_s


def part(course: Course, asked: tuple[float, float] | None) -> Window:
    """The part of a run that is drawn node by node.

    Raises:
        CliError: The run is over by then.
    """
    from scheduler_bridge.report.course import Window

    if asked is None:
        return course.busiest()
    if asked[0] >= course.makespan_s:
        raise CliError(
            f"--window from {asked[0]:g} s on: nothing is left to draw",
            f"the run takes {course.makespan_s:,.0f} s from its first submission",
            "let it begin earlier",
        )
    return Window(asked[0], min(asked[1], course.makespan_s))


def drawn(record: RunRecord, asked: tuple[float, float] | None) -> Drawn:
    """What is drawn of a record.

    Raises:
        CliError: The part that is asked for is none of the run.
    """
    from scheduler_bridge.report.course import Course, cut, is_large, lives_of

    if asked is None and not is_large(len(record.jobs), len(record.nodes)):
        return Drawn(record)
    course = Course.of(record.policy, len(record.nodes), lives_of(record), until_s=record.end_s, notes=record.notes)
    window = part(course, asked)
    return Drawn(cut(record, window, course.origin_s), (course, window))
