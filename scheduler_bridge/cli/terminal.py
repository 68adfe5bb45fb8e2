"""The terminal and the log, which show texts of jobs and users and obey none of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from rich.console import Console

from scheduler_bridge.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType
    from rich.segment import Segment


class Terminal(Console):
    """A terminal that shows control characters and markup in a text as they are."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render, as the base does; all that is printed comes through here."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield segment._replace(text=printable(segment.text, keep="\n"))


class _LogLines(logging.Formatter):
    """One line a record, and those of its traceback: no message can forge another."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base's name
        return printable(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), keep="\n")


def log_to_stderr(form: str, *, quiet: bool) -> None:
    """Have this process log on standard error: everything, or errors only."""
    handler = logging.StreamHandler()
    handler.setFormatter(_LogLines(form))
    logging.basicConfig(level=logging.ERROR if quiet else logging.INFO, handlers=[handler])
