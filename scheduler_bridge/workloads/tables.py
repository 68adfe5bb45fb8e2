"""Tables of the package's own: what is known of machines, in TOML beside the code that uses it."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import TypeVar

import msgspec

T = TypeVar("T")


def read_table(package: str, name: str, kind: type[T]) -> dict[str, T]:
    """Read the entries of a file of ``package``, by their names.

    Raises:
        msgspec.ValidationError: An entry is none of that kind.
    """
    text = files(package).joinpath(name).read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, kind])  # type: ignore[valid-type]  # known when it is called
