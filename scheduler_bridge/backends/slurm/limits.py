"""What the installed Slurm lets a job do, from its version and its configuration. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

JSON_SINCE: Final = (23, 2)
"""From here on ``scontrol`` speaks JSON; before it does not, or in another form."""

ONCE_UNTIL: Final = (22, 5)
"""So old a Slurm takes one NodeList of a job only if it has no database, and none after an expansion: 'the DB index is
being set' (seen with 22.05.8)."""

TRIED: Final = ((22, 5), (24, 11))


@dataclass(frozen=True, slots=True)
class Limits:
    """What the installed Slurm can do.

    Attributes:
        version: Of Slurm: year, month, patch.
        auth: How its daemons and users prove who they are: ``auth/munge``, ``auth/slurm``.
        expansion: Whether a job may be expanded by another one.
        once: Whether a job can be resized only once.
        json: Whether ``scontrol`` speaks JSON.
    """

    version: tuple[int, int, int]
    auth: str
    expansion: bool
    once: bool
    json: bool

    @classmethod
    def of(cls, version: tuple[int, int, int], configuration: Mapping[str, str]) -> Limits:
        """Derive them from the version and from ``scontrol show config``."""
        parameters = configuration.get("SchedulerParameters", "").replace(" ", "").split(",")
        database = configuration.get("AccountingStorageType", "")
        return cls(
            version=version,
            auth=configuration.get("AuthType", "") or "unknown",
            expansion="permit_job_expansion" in parameters,
            once=version[:2] <= ONCE_UNTIL and "slurmdbd" not in database,
            json=version[:2] >= JSON_SINCE,
        )

    def sentences(self) -> tuple[str, ...]:
        """Say them, for people."""
        year, month, patch = self.version
        said = [f"Slurm {year}.{month:02d}.{patch}, {self.auth}"]
        said.append("jobs grow by companion jobs" + (" or by expansion (--grow-by expand)" if self.expansion else ""))
        if not self.expansion:
            said.append("not by expansion: SchedulerParameters has no permit_job_expansion")
        if self.once:
            said.append(
                f"without slurmdbd, {year}.{month:02d} gives nodes of a job back only once, not after an expansion"
            )
        if not TRIED[0] <= self.version[:2] <= TRIED[1]:
            said.append("another version than those tried (22.05 to 24.11)")
        return tuple(said)
