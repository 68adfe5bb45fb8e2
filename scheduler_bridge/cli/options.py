"""Options of commands, as defaults: of a command's parameters, and of the fields of structs that stand for several.

Example: ``nodes: int | None = options.count(None, "--nodes", "How many: node1, ...", max=100_000)``
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final, Protocol, TypeVar, cast

import typer

_T = TypeVar("_T")

SAID: Final = "option"
"""The key of what typer is to know of an option, in the metadata of its field."""


def described(names: str, text: str | None = None, metavar: str | None = None, **settings: Any) -> Any:
    """An option without a default, as what annotates a type: it is required, or several commands share it.

    Args:
        names: With spaces between them.
        text: Its help.
        metavar: What stands for its value in the help.
        settings: As typer takes them.
    """
    return typer.Option(*names.split(), metavar=metavar, help=text, **settings)


def option(default: _T, names: str, text: str | None = None, metavar: str | None = None, **settings: Any) -> _T:
    """An option that has this value where it is not given; the rest is as for ``described``."""
    said = described(names, text, metavar, **settings)
    what: dict[str, Any] = {"default_factory": default.copy} if isinstance(default, list) else {"default": default}
    return cast("_T", field(**what, metadata={SAID: said}))


class _Kind(Protocol):
    def __call__(self, default: _T, names: str, text: str, **settings: Any) -> _T: ...


def _kind(metavar: str, least: int | None = None) -> _Kind:
    def of_this_kind(default: _T, names: str, text: str, **settings: Any) -> _T:
        return option(default, names, text, metavar, min=least, **settings)

    return of_this_kind


count: Final = _kind("N", 1)
seconds: Final = _kind("SECONDS", 0)
hours: Final = _kind("HOURS", 0)
file: Final = _kind("FILE")
folder: Final = _kind("DIR")
