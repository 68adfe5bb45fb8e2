"""What somebody asks of an experiment on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from scheduler_bridge.experiments.rows import Form

Scale: TypeAlias = Literal["tiny", "small", "full"]

NOT_AGAIN: Final = (None, None, False, False)
"""Nothing is repeated, and it is not only reported."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How an experiment is to be run.

    Attributes:
        scale: How much of it.
        data: The folder with the reference data; None: not given.
        out: Where it keeps what it finds; None: nowhere.
        places: So many processes simulate; None: as many as there are cores, or as mpiexec has started.
        rows: Form of the file of simulations; None: what can be written.
        again: Of real runs: those with a longer lag in seconds, those in which others used more percent of the machine,
            those that failed; and whether to report only.
        hosts: Of real runs: the file of the hosts that are their nodes; None: they are emulated here.
        launcher: How those are reached.
        paced: Whether those are held to small rates of work.
    """

    scale: Scale
    data: Path | None
    out: Path | None
    places: int | None = None
    rows: Form | None = None
    again: tuple[float | None, float | None, bool, bool] = NOT_AGAIN
    hosts: Path | None = None
    launcher: str = "ssh"
    paced: bool = False
