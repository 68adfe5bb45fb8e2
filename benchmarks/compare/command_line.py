"""The command line of a comparison: its options, interrupts, and what is seen meanwhile."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeAlias, cast

import typer

from apgas import errors

from ..harness.cli import call
from ..harness.errors import BadUsage, show_error


def main(program: str, command: Callable[..., int], arguments: list[str]) -> int:
    """Parse ``arguments``, measure by ``command``, and return the exit code.

    Returns:
        What ``command`` returns, 2 for bad usage, 128 + N if signal N ended it.
    """
    try:
        return cast("int", call(command, program, arguments))
    except BadUsage as error:
        show_error(error.culprit, error.why, error.remedy)
    except Interrupted as interrupt:
        name = program.rpartition(".")[2]
        show_error(f"{name}: interrupted", f"{interrupt.by.name} came; every contender has been ended", "")
        return 128 + interrupt.by
    return 2


Rounds: TypeAlias = Annotated[int, typer.Option(help="How often everybody is asked; medians are shown.")]
Json: TypeAlias = Annotated[Path | None, typer.Option(help="Write the result there.")]
Figure: TypeAlias = Annotated[Path | None, typer.Option(help="Draw it there, as PNG, SVG or PDF.")]
Quick: TypeAlias = Annotated[bool, typer.Option("--quick", help="Small problems: a look, no measurement.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", help="No progress.")]


def check_rounds(rounds: int) -> None:
    """Raise ``BadUsage`` for what is no number of rounds."""
    if rounds < 1:
        raise BadUsage(f"--rounds {rounds}", "there must be at least 1 round", "give --rounds 1 or more")


def chosen(option: str, text: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the names in ``text``, which are separated by commas; raise ``BadUsage`` for one that is not ``known``."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in known:
            raise BadUsage(f"{option} {text}", f'there is no "{name}"', f"choose from {', '.join(known)}")
    return names


class Interrupted(SystemExit):
    """The run was ended by a signal; neither an event loop nor the reader of options keeps this to itself."""

    def __init__(self, by: signal.Signals) -> None:
        super().__init__(128 + by)
        self.by = by


interruptible: Final = partial(errors.interruptible, Interrupted)


# What is seen while it measures: a live line on a terminal, a plain line per measure elsewhere -----------------------


class RunProgress:
    """Shows how far a run of ``steps`` steps is; a context manager."""

    def __init__(self, steps: int, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._steps = steps
        self._quiet = quiet
        self._stream = sys.stderr
        self._clock = clock
        self._began_s = clock()
        self._name = ""
        self._done = 0
        self._live: Any = None

    def __enter__(self) -> Self:
        if not self._quiet and self._stream.isatty():
            from rich.console import Console
            from rich.status import Status

            self._live = Status("starting", console=Console(file=self._stream))
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def begin(self, name: str, text: str) -> None:
        """A measure begins; ``text`` says how large it is."""
        self._name = name
        if not self._quiet and self._live is None:
            self._stream.write(f"{self._line(text)}\n")
            self._stream.flush()

    def note(self, text: str) -> None:
        """Something happens that is not a step."""
        if self._live is not None:
            from rich.markup import escape

            self._live.update(escape(self._line(text)))

    def step(self, text: str) -> None:
        """The next step begins."""
        self.note(text)
        self._done += 1

    def _line(self, text: str) -> str:
        elapsed_s = self._clock() - self._began_s
        parts = [f"{self._name}: {text}", f"{elapsed_s:.0f} s"]
        if 0 < self._done < self._steps:
            left_s = elapsed_s / self._done * (self._steps - self._done)
            parts.append(f"{100 * self._done / self._steps:.0f} %, about {left_s:.0f} s left")
        return " · ".join(parts)
