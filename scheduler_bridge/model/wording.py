"""Numbers of nodes and times in the sentences that people read."""

from __future__ import annotations


def nodes(count: int) -> str:
    """Word a number of nodes: ``1 node``, ``2 nodes``."""
    return "1 node" if count == 1 else f"{count} nodes"


def are(count: int) -> str:
    """Word that so many (nodes) are: ``1 is``, ``2 are``."""
    return f"{count} {'is' if count == 1 else 'are'}"


def seconds(value_s: float) -> str:
    """Word a time to a tenth of a second, however long it is: ``100 s``, ``2419200.5 s``."""
    return f"{value_s:.1f}".removesuffix(".0") + " s"
