"""Where resizes take no time, best-use does not resize a job to and fro at one instant."""

from __future__ import annotations

from itertools import groupby
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core import Settings
from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim import Engine, Scenario, SimRecord

TIMES = st.integers(0, 60) | st.integers(0, 2000)
WALLTIMES = st.sampled_from([60, 600]) | st.integers(1, 80) | st.integers(50, 5000)


@st.composite
def specs(draw: st.DrawFn, job_id: int, largest: int) -> JobSpec:
    """Half of the malleable jobs have wide ranges, or little could move."""
    job_class: Literal["rigid", "malleable"] = draw(st.sampled_from(["rigid", "malleable", "malleable", "malleable"]))
    low, nodes, high = sorted(draw(st.tuples(*[st.integers(1, largest)] * 3)))
    if job_class == "rigid":
        low = high = nodes
    elif draw(st.booleans()):
        low = min(low, 2)
    rho = draw(st.sampled_from([0.0, 0.1, 0.3]))
    return JobSpec(job_id, "j", "u", job_class, nodes, low, high, float(draw(WALLTIMES)), float(draw(TIMES)), rho=rho)


@st.composite
def free(draw: st.DrawFn) -> Scenario:
    """Starts and resizes take no time, all malleable jobs take orders, and they end by their walltime or before it."""
    nodes = draw(st.sampled_from([4, 8, 16, 40]))
    jobs = []
    for job_id in range(draw(st.integers(3, 25))):
        spec = draw(specs(job_id, nodes))
        runtime_s = max(1.0, spec.walltime_s * draw(st.sampled_from([1.0, 1.0, 0.8, 0.3])))
        jobs.append(simulated(spec, runtime_s))
    walltime: Literal["fixed", "scaled"] = draw(st.sampled_from(["fixed", "scaled"]))
    return Scenario(nodes, tuple(jobs), settings=Settings(walltime=walltime, walltime_grace_s=1e9))


def to_and_fro(record: SimRecord) -> list[list[int]]:
    """The sizes at instants at which the job is made both larger and smaller, or smaller as soon as it starts."""
    found, before = [], 0
    for _, changes in groupby(record.sizes, key=lambda change: change[0]):
        sizes = [before] * (before > 0) + [nodes for _, nodes in changes]
        starts, before = before == 0, sizes[-1]
        if sizes != sorted(sizes) and (starts or sizes != sorted(sizes, reverse=True)):
            found.append(sizes)
    return found


@pytest.mark.parametrize(
    "parameters", [{}, {"patience": 0.0}, {"ratio": 0.0}, {"ratio": 2.0, "worth_s": 0.0, "haste": 1.0}]
)
@given(scenario=free())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_job_is_not_resized_to_and_fro_at_one_instant(parameters: dict[str, object], scenario: Scenario) -> None:
    engine = Engine(scenario.nodes, policies.get("best-use", **parameters), scenario.settings)
    for record in engine.run(scenario.jobs).records.values():
        assert not to_and_fro(record), record.sizes
