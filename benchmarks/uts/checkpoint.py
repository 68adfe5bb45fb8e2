"""The file of a count that is done in pieces: the tree, what is counted, what is pending.

The file is replaced as a whole, so it is always one that the count can go on from, wherever it was stopped. A checksum
over everything finds files that were cut or edited.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..harness.measurement import ResultFile
from .samples import bag_of

if TYPE_CHECKING:
    from pathlib import Path

    from .bag import UtsBag
    from .binomial import BinomialBag
    from .hybrid import HybridBag
    from .samples import AnyTree

FORMAT: Final = "uts-count-1"
_ENTRY: Final = 9
"""Words per pending entry: a row of the queue and its level."""


class CheckpointError(Exception):
    """The file cannot be used; the text says why."""


@dataclass
class Count:
    """How far a count is.

    Attributes:
        bag: The pending nodes, and the number of those counted.
        seconds: CPU seconds spent so far, in all runs.
        runs: Runs that have worked on it.
    """

    bag: UtsBag | BinomialBag | HybridBag
    seconds: float = 0.0
    runs: int = 0


def begin(tree: AnyTree) -> Count:
    """Return a count that has not begun."""
    return Count(bag_of(tree))


def save(path: Path, tree: AnyTree, count: Count) -> None:
    """Write the file, all at once.

    Raises:
        OSError: It cannot be written; what was there stays.
    """
    _, (_, nodes, packed, _) = count.bag.__reduce__()
    content: dict[str, Any] = {
        "format": FORMAT,
        "tree": described(tree),
        "done": count.bag.is_empty(),
        "nodes": nodes,
        "cpu_seconds": count.seconds,
        "runs": count.runs,
        "pending": base64.b64encode(packed.astype("<u4").tobytes()).decode("ascii"),
    }
    ResultFile(path).write({**content, "sha256": _digest(content)})


def load(path: Path, tree: AnyTree) -> Count:
    """Return the count that ``save`` wrote.

    Raises:
        OSError: The file cannot be read.
        CheckpointError: It is no such file, is damaged, or belongs to another tree.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise CheckpointError("it is not a checkpoint, or was cut") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(f'it is not a checkpoint of the form "{FORMAT}"')
    if content.pop("sha256", None) != _digest(content):
        raise CheckpointError("its checksum is wrong: it was changed or damaged")
    if content["tree"] != described(tree):
        raise CheckpointError(f"it belongs to another tree: {spoken(content['tree'])}")
    packed = np.frombuffer(base64.b64decode(content["pending"]), "<u4").astype(np.uint32).reshape(-1, _ENTRY)
    bag = type(bag_of(tree))(tree, content["nodes"], packed)  # type: ignore[arg-type]  # the kind of this tree
    return Count(bag, content["cpu_seconds"], content["runs"])


def described(tree: AnyTree) -> dict[str, Any]:
    """Return what tells one tree from another."""
    return {"kind": type(tree).__name__, **asdict(tree)}


def spoken(parameters: dict[str, Any]) -> str:
    """Write the parameters of a tree for people."""
    return ", ".join(f"{name} {value}" for name, value in parameters.items() if name != "kind")


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
