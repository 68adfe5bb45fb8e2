"""The workloads: real days of Theta where they are at hand, twins of other machines, and generators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from scheduler_bridge.experiments.real_workloads import traces as papers
from scheduler_bridge.experiments.sweep import Scale
from scheduler_bridge.workloads import Workload, convert, mebf_rule
from scheduler_bridge.workloads.conversion import Rule, amdahl_rule
from scheduler_bridge.workloads.generate.batches import batch
from scheduler_bridge.workloads.generate.cirne import cirne
from scheduler_bridge.workloads.generate.lublin import lublin
from scheduler_bridge.workloads.generate.twins import PORTRAITS, twin

_MEBF_RULE: Final = mebf_rule("medium", overheads=None)
_FIRST_BATCH: Final = 41
"""The paper's batches have the seeds from 42 on."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A workload of the experiment.

    Attributes:
        name: In tables and files.
        label: For people; says where jobs are synthetic.
        make: Reads or draws it, from a seed and the percentage of malleable jobs.
        cost: What resizes cost, as for ``parse_cost``.
        warmup: Left out at the beginning, as a part of the time of submissions; None: nothing, all of it counts.
        tuned: The own policy's parameters were chosen on other seeds of it.
    """

    name: str
    label: str
    make: Callable[[int, int], Workload]
    cost: str = "none"
    warmup: float | None = papers.SMALL_WARMUP
    tuned: bool = False

    def warmup_s(self, workload: Workload) -> float | None:
        """Seconds that the figures leave out at the beginning."""
        if self.warmup is None:
            return None
        return self.warmup * (workload.jobs[-1].submit_s - workload.jobs[0].submit_s)


SIZES: Final[dict[Scale, dict[str, int]]] = {
    "small": {"haswell": 400, "knl": 400, "eagle": 400, "ricc": 300, "kit": 250, "lublin": 250, "cirne": 200},
    "full": {"haswell": 3000, "knl": 3000, "eagle": 3000, "ricc": 1500, "kit": 1000, "lublin": 1500, "cirne": 1000},
}
"""How many jobs are drawn."""
_CROWDED: Final = 0.4
"""Submissions of Haswell's and KNL's first days come so much faster, or their machines would not be full before the
end."""


def traces(scale: Scale, data: Path | None) -> list[Trace]:
    """The workloads; Theta only where the data are."""
    found = [_real(trace) for trace in papers.traces(scale, data) if trace.paper == "theta"]
    jobs = SIZES[scale]
    for name, what, arrivals in (
        ("haswell", "Haswell", _CROWDED),
        ("knl", "KNL", _CROWDED),
        ("eagle", "Eagle", 1.0),
        ("ricc", "RICC", 1.0),
    ):
        label = f"{what} twin{', crowded' if arrivals < 1 else ''} (synthetic)"
        make = partial(_twin, name, jobs[name], arrivals=arrivals)
        found.append(Trace(f"{name}-twin", label, make, tuned=name == "haswell"))
    kit = partial(_twin, "kit", jobs["kit"], arrivals=0.75, rule=_MEBF_RULE)
    found.append(Trace("kit-twin", "KIT twin, intensive, resizes cost (synthetic)", kit, "mebf:10", tuned=True))
    label = "Lublin-Feitelson, 100 nodes, load 0.9 (synthetic)"
    found.append(Trace("lublin", label, partial(_lublin, jobs["lublin"]), tuned=True))
    label = "Cirne-Berman form, 256 nodes, load 1.5 (synthetic)"
    found.append(Trace("cirne", label, partial(_cirne, jobs["cirne"]), tuned=True))
    found.append(Trace("batch", "25 jobs for 32 nodes (synthetic)", _batch, "measured", None))
    return found


def _real(trace: papers.Trace) -> Trace:
    return Trace(trace.name, trace.label, partial(_converted, trace.make), tuned=True)


def _converted(make: Callable[[], Workload], seed: int, share: int, rule: Rule = amdahl_rule) -> Workload:
    return convert(make(), share / 100, seed, rule) if share else make()


@lru_cache(maxsize=2)
def _drawn_twin(name: str, jobs: int, arrivals: float, seed: int) -> Workload:
    return twin(PORTRAITS[name], seed=seed, jobs=jobs, arrival_factor=arrivals)


def _twin(name: str, jobs: int, seed: int, share: int, *, arrivals: float, rule: Rule = amdahl_rule) -> Workload:
    return _converted(partial(_drawn_twin, name, jobs, arrivals, seed), seed, share, rule)


def _lublin(jobs: int, seed: int, share: int) -> Workload:
    return _converted(partial(lublin, jobs, 100, seed=seed, load=0.9), seed, share)


def _cirne(jobs: int, seed: int, share: int) -> Workload:
    return _converted(partial(cirne, jobs, 256, seed=seed, load=1.5), seed, share, _MEBF_RULE)


def _batch(seed: int, share: int) -> Workload:
    return batch(seed=_FIRST_BATCH + seed, malleable=share / 100)
