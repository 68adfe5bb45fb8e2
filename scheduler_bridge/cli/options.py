"""Kinds of options that many commands have; one is made of its name, what it is for, and settings of typer's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import typer


def _kind(metavar: str, least: int | None = None) -> Callable[..., Any]:
    def option(name: str, text: str, **settings: Any) -> Any:
        return typer.Option(name, metavar=metavar, help=text, min=least, **settings)

    return option


count: Final = _kind("N", 1)
seconds: Final = _kind("SECONDS", 0)
hours: Final = _kind("HOURS", 0)
file: Final = _kind("FILE")
folder: Final = _kind("DIR")
