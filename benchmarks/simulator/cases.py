"""What is simulated, and the goals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scheduler_bridge import policies

THETA: Final = "theta"
"""28 days of a log that comes with the reference data; the other workloads are drawn."""


@dataclass(frozen=True)
class Case:
    """One simulation.

    Attributes:
        generator: A generator of workloads, or ``THETA``, which is real.
        policy: Who decides.
        jobs: How many jobs; 0: as many as the generator makes.
        malleable: Share of malleable jobs.
        load: Of generators that take one; 0: theirs.
        seed: Determines the workload.
        cores_per_node: For policies that let jobs share nodes.
        least_jobs_per_s: The goal, if it is one of speed.
        most_s: The goal, if it is one of time.
    """

    generator: str
    policy: str
    jobs: int = 0
    malleable: float = 0.0
    load: float = 0.0
    seed: int = 1
    cores_per_node: int = 1
    least_jobs_per_s: float | None = None
    most_s: float | None = None

    @property
    def label(self) -> str:
        """The case in words."""
        load = f", load {self.load:g}" if self.load else ""
        share = f", {self.malleable:.0%} malleable" if self.malleable else ""
        what = "Theta, 28 real days" if self.generator == THETA else f"{self.generator} (synthetic)"
        return f"{self.policy}: {what}{load}{share}"


def _twin(generator: str, *, most_s: float, cores_per_node: int) -> tuple[Case, ...]:
    """A machine's twin under a rigid policy, one that resizes, one that reserves for all, and one that shares nodes."""
    return (
        Case(generator, "easy", most_s=most_s),
        Case(generator, "avg", malleable=0.6, most_s=most_s),
        Case(generator, "conservative", malleable=0.6, most_s=most_s),
        Case(generator, "sd-policy", malleable=0.6, most_s=most_s, cores_per_node=cores_per_node),
    )


def _every(generator: str, *, most_s: float, cores_per_node: int) -> tuple[Case, ...]:
    """A machine's twin under every policy that there is, as it is by default."""
    names = policies.names()
    return tuple(
        Case(generator, name, malleable=0.6, most_s=most_s, cores_per_node=cores_per_node if name == "sd-policy" else 1)
        for name in names
    )


_GROWTH: Final = (1_000, 3_000, 10_000, 30_000, 100_000, 200_000)

SUITES: Final[dict[str, tuple[Case, ...]]] = {
    "growth": tuple(
        Case("lublin", "easy", jobs, load=0.8, least_jobs_per_s=30_000 if jobs == 10_000 else None) for jobs in _GROWTH
    ),
    "policies": tuple(
        Case("lublin", policy, 10_000, malleable=0.6, load=0.8)
        for policy in ("easy", "malleable", "min", "pref", "avg", "keep-pref", "mebf")
    ),
    # what was quadratic once: a pass every 5 s, and a queue that only grows, in which every job holds a reservation
    "worst": (
        Case("lublin", "easy-compat", 3_000, load=0.8, least_jobs_per_s=2_000),
        Case("lublin", "conservative", 3_000, load=2.0, least_jobs_per_s=2_000),
    ),
    "theta": tuple(
        Case(THETA, policy, malleable=0.6, most_s=3)
        for policy in ("malleable", "min", "pref", "avg", "keep-pref", "mebf", "best-use")
    ),
    "knl": _twin("knl", most_s=30, cores_per_node=68),
    "eagle": _twin("eagle", most_s=60, cores_per_node=36),
    "every-knl": _every("knl", most_s=30, cores_per_node=68),
    "every-eagle": _every("eagle", most_s=60, cores_per_node=36),
}
"""What can be measured, by name. Memory is to stay below ``MOST_MB`` in all of them."""

MOST_MB: Final = 300.0
