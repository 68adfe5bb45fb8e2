"""Lists of cores: those of its nodes that a job may use, as the scheduler writes them and as numbers.

A list is text such as ``0-3,8``: ids and ranges in ascending order, commas between. A job whose nodes differ gets a
list for each node.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

ENV_CORE_IDS: Final = "MALLEABLE_CORE_IDS"
"""The cores of each node that the job may use when it starts: a list, or ``NODE=LIST;NODE=LIST``."""
ENV_BIND_CORES: Final = "MALLEABLE_BIND_CORES"
"""``1``: the job is to compute on these cores only."""

FORM: Final = r"^([0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*)?(?!\n)$"
"""What a list looks like; the empty one says nothing."""
LONGEST: Final = 4000
_FORM: Final = re.compile(FORM)


def listed(ids: Iterable[int]) -> str:
    """Write ids, in ascending order, as a list."""
    ranges: list[list[int]] = []
    for core in ids:
        if ranges and core == ranges[-1][1] + 1:
            ranges[-1][1] = core
        else:
            ranges.append([core, core])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ranges)


def parsed(text: str) -> tuple[int, ...]:
    """Read a list.

    Raises:
        ValueError: It is none, or its ids do not ascend.
    """
    if len(text) > LONGEST or not _FORM.match(text):
        raise ValueError(f"{text[:80]!r} is no list of cores, as 0-3,8 is")
    found: list[int] = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        ids = range(int(first), int(last or first) + 1)
        if not ids or (found and ids[0] <= found[-1]):
            raise ValueError(f"the cores {text[:80]!r} do not ascend")
        found += ids
    return tuple(found)


class CoreIds(msgspec.Struct, frozen=True):
    """The cores that a job may use.

    Attributes:
        everywhere: Those of each node that is not named otherwise.
        of: Those of nodes that differ, by name.
        bind: Whether the job is to compute on no others.
    """

    everywhere: tuple[int, ...] = ()
    of: dict[str, tuple[int, ...]] = {}
    bind: bool = False

    def on(self, node: str) -> tuple[int, ...]:
        """Return which cores of a node the job may use.

        Args:
            node: Its name.

        Returns:
            Their ids, in ascending order; none where nothing is known of them.

        Example:
            >>> apgas.CoreIds((2, 3), {"node2": (0, 1)}).on("node1")
            (2, 3)
        """
        return self.of.get(node, self.everywhere)


def read(everywhere: str, of: Mapping[str, str], *, bind: bool) -> CoreIds | None:
    """Return what lists say; None if they say nothing.

    Raises:
        ValueError: One of them is none.
    """
    found = CoreIds(parsed(everywhere), {node: parsed(text) for node, text in of.items()}, bind)
    return found if found.everywhere or found.of else None


def binds(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the job was asked to compute on its cores only."""
    return environ.get(ENV_BIND_CORES) == "1"


def from_environment(environ: Mapping[str, str] = os.environ) -> CoreIds | None:
    """Return what the scheduler has set when it started the job; None if nothing.

    Raises:
        ValueError: The variable holds no lists.
    """
    everywhere, of = "", {}
    for part in environ.get(ENV_CORE_IDS, "").split(";"):
        node, equals, text = part.partition("=")
        if equals:
            of[node] = text
        else:
            everywhere = part
    return read(everywhere, of, bind=binds(environ))


def text(everywhere: str, of: Mapping[str, str]) -> str:
    """Write lists as ``from_environment`` reads them."""
    return ";".join([*([everywhere] if everywhere else []), *(f"{node}={ids}" for node, ids in of.items())])
