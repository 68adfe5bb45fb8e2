"""What a running job holds of Slurm's nodes, and how nodes are given back. Pure: values in, values and steps out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from scheduler_bridge.backends.slurm import commands
from scheduler_bridge.backends.slurm.commands import Words
from scheduler_bridge.backends.slurm.limits import Limits


class HoldingsError(ValueError):
    """The nodes cannot be given back so; the text says why."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """The nodes of one job.

    Attributes:
        job: Its number.
        batch_host: The node that it can never give back: its script runs there.
        own: The nodes of its own allocation, the batch host first.
        companions: The nodes of companion jobs, and whose each one is.
        resized: How often its own allocation was changed.
    """

    job: int
    batch_host: str
    own: tuple[str, ...]
    companions: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    resized: int = 0

    @property
    def nodes(self) -> tuple[str, ...]:
        """All of them, the batch host first."""
        return (*self.own, *self.companions)

    @property
    def jobs(self) -> tuple[int, ...]:
        """All jobs of Slurm's whose nodes these are."""
        return (self.job, *dict.fromkeys(self.companions.values()))

    def owner(self, node: str) -> int:
        """Return the job that ``node`` belongs to.

        Raises:
            HoldingsError: It is not one of ours.
        """
        if node in self.companions:
            return self.companions[node]
        if node in self.own:
            return self.job
        raise HoldingsError(f"{node} is not a node of job {self.job} ({', '.join(self.nodes)})")

    def lent(self, node: str, companion: int) -> Holdings:
        """A companion job has brought ``node``."""
        return replace(self, companions=MappingProxyType({**self.companions, node: companion}))

    def expanded(self, nodes: Iterable[str]) -> Holdings:
        """Its own allocation has ``nodes`` now."""
        now = set(nodes)
        kept = [node for node in self.own if node in now]
        return replace(self, own=(*kept, *sorted(now - set(kept))), resized=self.resized + 1)

    def without(self, nodes: Iterable[str]) -> Holdings:
        """``nodes`` are gone."""
        gone = set(nodes)
        left = {node: job for node, job in self.companions.items() if node not in gone}
        own = tuple(node for node in self.own if node not in gone)
        return replace(
            self, own=own, companions=MappingProxyType(left), resized=self.resized + int(len(own) < len(self.own))
        )

    def giving_back(self, nodes: Iterable[str], limits: Limits) -> tuple[Words, ...]:
        """Return the commands that give ``nodes`` back, once nothing of the job runs there.

        Raises:
            HoldingsError: One of them has to stay, or is none of ours.
        """
        gone = tuple(dict.fromkeys(nodes))
        owners = {node: self.owner(node) for node in gone}
        if self.batch_host in owners:
            raise HoldingsError(f"{self.batch_host} cannot be given back: the script of job {self.job} runs there")
        steps: list[Words] = [commands.cancel(job) for job in dict.fromkeys(owners.values()) if job != self.job]
        if self.job in owners.values():
            self._check_once(limits)
            steps.append(commands.keep(self.job, tuple(node for node in self.own if node not in gone)))
        return tuple(steps)

    def wish_to_release(self, count: int, limits: Limits) -> tuple[str, ...]:
        """Return which ``count`` nodes are best given back: those that came last, of companion jobs first.

        Raises:
            HoldingsError: So many cannot be given back.
        """
        if count > len(self.companions):
            self._check_once(limits)
        return tuple(reversed(self.nodes))[:count]

    def _check_once(self, limits: Limits) -> None:
        if limits.once and self.resized:
            year, month, _ = limits.version
            raise HoldingsError(
                f"this Slurm ({year}.{month:02d} without slurmdbd) gives nodes of job {self.job} back only once, "
                "and not after an expansion"
            )
