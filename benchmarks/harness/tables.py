"""Tables of figures and goals, as people see them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

WIDEST: Final = 400
MIN_WIDTH: Final = 80


def coloured(verdicts: str) -> Text:
    """Return what became of goals, with colours."""
    from rich.text import Text

    text = Text(verdicts)
    text.highlight_words(["MISSED"], "bold red")
    text.highlight_words(["met"], "green")
    return text


def print_whole(console: Console, table: Table, remarks: Iterable[str], path: Path | None) -> None:
    """Print a table, remarks below it, and where the result file is; a line too long is better than one that is cut."""
    from rich.measure import Measurement
    from rich.text import Text

    console.width = max(Measurement.get(console, console.options.update(max_width=WIDEST), table).maximum, MIN_WIDTH)
    console.print(table)
    for remark in remarks:
        console.print(Text(remark), soft_wrap=True)
    if path is not None:
        console.print(Text(f"result file: {path}"), soft_wrap=True)
