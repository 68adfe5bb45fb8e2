"""How far a map is: a bar on a terminal or in a notebook, a line now and then elsewhere.

Who takes the values draws it, so that no thread is left when that is interrupted.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Sized
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

from apgas.errors import ApgasError, UsageError

if TYPE_CHECKING:
    from rich.progress import Progress

LIVE_EVERY_S: Final = 0.2
PLAIN_EVERY_S: Final = 2.0
RATE_OVER_S: Final = 3.0
"""The rate shown is that of the last seconds: it follows grows and shrinks."""


class MapProgress:
    """Shows how many items of a map are done, their rate, the places now, and the resizes since it began.

    ``standing`` returns the number of places, and that of resizes so far.

    Raises:
        UsageError: The package rich is missing.
    """

    def __init__(
        self,
        total: int | None,
        standing: Callable[[], tuple[int, int]],
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        try:
            from rich.console import Console
        except ModuleNotFoundError:
            raise UsageError('progress=True needs the package rich: pip install "malleable-apgas[bridge]"') from None
        self._total = total
        self._standing = standing
        self._console = Console(file=stream or sys.stderr)
        self._live = self._console.is_jupyter or self._console.is_terminal
        self._clock = clock
        self._places, self._resizes_before = standing()
        self._resizes = 0
        self._bar: Progress | None = None
        self._cell: Any = None
        self._due_s = clock() + (0.0 if self._live else PLAIN_EVERY_S)
        self._seen: deque[tuple[float, int]] = deque([(clock(), 0)])

    def __enter__(self) -> Self:
        if self._live:
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (BarColumn(), TextColumn("{task.description}"))
            self._bar = Progress(*columns, console=self._console, auto_refresh=False, transient=True)
            self._bar.add_task(self._line(0, 0.0), total=self._total)
            if self._console.is_jupyter:  # rich alone would need widgets there
                from IPython.display import display

                self._cell = display(self._bar, display_id=True)  # type: ignore[no-untyped-call]  # it has no types
            else:
                self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave a notebook the last state, and a terminal nothing."""
        if self._bar is not None and self._cell is None:
            self._bar.stop()

    def update(self, done: int, *, last: bool = False) -> None:
        """Show that ``done`` items are done, if it is time for that, or these are the ``last`` ones."""
        now = self._clock()
        if now < self._due_s and not (last and self._live):
            return
        self._due_s = now + (LIVE_EVERY_S if self._live else PLAIN_EVERY_S)
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[1][0] >= RATE_OVER_S:
            self._seen.popleft()
        before_s, before = self._seen[0]
        with suppress(ApgasError):  # it is shut down, and the last values are taken
            self._places, resizes = self._standing()
            self._resizes = resizes - self._resizes_before
        line = self._line(done, (done - before) / max(now - before_s, 1e-9))
        if self._bar is None:
            self._console.file.write(f"map: {line}\n")
            self._console.file.flush()
            return
        self._bar.update(self._bar.task_ids[0], completed=done, description=line)
        if self._cell is None:
            self._bar.refresh()
        else:
            self._cell.update(self._bar)

    def _line(self, done: int, rate: float) -> str:
        of_total = "" if self._total is None else f" of {self._total:,}"
        parts = [
            f"{done:,}{of_total} done",
            f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s",
            f"{self._places} {'place' if self._places == 1 else 'places'}",
            f"{self._resizes} {'resize' if self._resizes == 1 else 'resizes'}",
        ]
        if self._total is not None and rate > 0 and done < self._total:
            parts.append(f"{(self._total - done) / rate:.0f} s left")
        return " · ".join(parts)


def total_of(iterables: tuple[object, ...]) -> int | None:
    """Count the items of a map, if all of its iterables know how many they have."""
    sized = [len(iterable) for iterable in iterables if isinstance(iterable, Sized)]
    return min(sized) if sized and len(sized) == len(iterables) else None
