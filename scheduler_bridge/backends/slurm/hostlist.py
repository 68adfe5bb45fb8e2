"""Slurm's way to write lists of hosts: ``rack1n[01-03,7],login``."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NONE = frozenset({"", "(null)", "None", "None assigned"})
_MOST = 100_000
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expand(text: str) -> tuple[str, ...]:
    """Return the names that ``text`` stands for, in its order.

    Raises:
        ValueError: It is not a list of hosts, or one of more than 100,000.
    """
    if text.strip() in _NONE:
        return ()
    names: list[str] = []
    for part in _parts(text.strip()):
        for name in _expanded(part):
            names.append(name)
            if len(names) > _MOST:
                raise ValueError(f"{text!r} stands for more than {_MOST} hosts")
    return tuple(names)


def _parts(text: str) -> Iterator[str]:
    """The parts between the commas that stand outside of brackets."""
    depth = start = 0
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _expanded(part: str) -> Iterator[str]:
    found = _BRACKETS.search(part)
    if found is None:
        if not part or "[" in part or "]" in part:
            raise ValueError(f"{part!r} is not a list of hosts")
        yield part
        return
    head, tail = part[: found.start()], part[found.end() :]
    for item in found[1].split(","):
        numbers = _RANGE.fullmatch(item)
        if numbers is None:
            raise ValueError(f"{item!r} in {part!r} is not a range of numbers")
        first, last = numbers[1], numbers[2] or numbers[1]
        for number in range(int(first), int(last) + 1):
            middle = f"{head}{number:0{len(first)}d}"
            yield from _expanded(middle + tail) if "[" in tail else (middle + tail,)
