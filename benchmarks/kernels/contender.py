"""What is measured: contenders that do a measured amount of work in one thread, and what a measure asks of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ..harness.goals import Quantity

Amounts: TypeAlias = Mapping[str, float]
Work: TypeAlias = Callable[[], Amounts]
"""Does the work once, in the calling thread, and returns how much of what was done."""


class Absent(Exception):
    """A contender cannot take part; the text says why."""


@dataclass(frozen=True)
class Setting:
    """What contenders are prepared for.

    Attributes:
        quick: Whether small problems will do.
        folder: Where files may be put that are not needed afterwards.
    """

    quick: bool
    folder: Path


@dataclass(frozen=True)
class Contender:
    """Somebody who does the work.

    Attributes:
        name: Short name, "ours" for us.
        label: Name for people.
        prepare: Loads and compiles what is needed, and returns the work; may raise ``Absent``.
        group: Goals may be set against the best of a group.
    """

    name: str
    label: str
    prepare: Callable[[Setting], Work]
    group: str = ""


@dataclass(frozen=True)
class Measure:
    """One kernel beside its references; all amounts are told per CPU-second.

    Attributes:
        name: What ``--measures`` calls it.
        title: Says for people what is computed.
        quantities: What is read off the amounts; the first is drawn in the figure.
        contenders: Who takes part, ours first.
        rule: What a rate counts.
    """

    name: str
    title: Callable[[bool], str]
    quantities: tuple[Quantity, ...]
    contenders: tuple[Contender, ...]
    rule: str
