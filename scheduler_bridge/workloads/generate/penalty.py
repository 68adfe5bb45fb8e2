"""The workloads of the penalty scheduling paper (PSP, 2016): 1,000 jobs of 20 users on 1,672 cores, a node each.

From the paper (section 5): sizes are powers of two from 1 to 16 cores, runtimes up to 10 days, and a user's requested
time is the runtime by the user's accuracy. Scenarios (Table 2): BE, all users in 0-0.2; GE, in 0.8-1; CF, groups as on
the real cluster; CFG, the same with more good users; DI, users as in CF improve every five jobs; HDI, every other user
does. Ours [D]: sizes are equally frequent; the density of runtimes falls with their power of 0.82; jobs come within a
day, so that they wait as long as printed; the top group of CFG is 0.8-1, since the paper's labels do not agree; DI and
HDI start from CF.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler_bridge.workloads.generate.draw import DAY_S, Floats, power_tail, spread, workload
from scheduler_bridge.workloads.record import Workload

CORES: Final = 1672
JOBS: Final = 1000
USERS: Final = 20
RUNTIME_S: Final = (60.0, 10.0 * DAY_S)
RUNTIME_EXPONENT: Final = 0.82
"""How fast long runtimes become rare: so that the mean wait in BE and GE is of the printed size, 820 and 796 min."""
SPAN_S: Final = float(DAY_S)
GROUPS: Final = ((0.0, 0.05), (0.05, 0.15), (0.15, 0.25), (0.25, 0.35), (0.35, 0.60))
TOP: Final = {"CF": (0.60, 1.0), "CFG": (0.80, 1.0)}
SHARES: Final = {"CF": (21, 21, 18, 17, 19, 4), "CFG": (12, 12, 9, 8, 10, 49)}
"""Percent of the users in each group, the top one last."""
SCENARIOS: Final = ("BE", "GE", "CF", "CFG", "DI", "HDI")
LEARNS_EVERY: Final = 5
_LEAST_ACCURACY: Final = 0.01


def penalty(*, seed: int, scenario: str = "CF", jobs: int = JOBS, span_s: float = SPAN_S) -> Workload:
    """Draw a workload; with one seed, scenarios differ in the requested times only.

    Args:
        seed: Determines everything but the scenario's accuracies.
        scenario: One of BE, GE, CF, CFG, DI, HDI.
        jobs: Number of jobs.
        span_s: They are submitted within this time.

    Raises:
        ValueError: The scenario is unknown.
    """
    if scenario not in SCENARIOS:
        raise ValueError(f"scenario is {scenario!r}, must be one of {', '.join(SCENARIOS)}")
    rng = np.random.default_rng(seed)
    sizes = 2 ** np.floor(spread(rng, jobs) * 5).astype(np.int64)
    runtime_s = np.rint(power_tail(spread(rng, jobs), *RUNTIME_S, RUNTIME_EXPONENT))
    users = rng.permutation(np.arange(jobs) % USERS) + 1
    submit_s = np.sort(rng.random(jobs) * span_s)
    accuracy = _accuracies(rng, scenario)[users - 1]
    if scenario in ("DI", "HDI"):
        accuracy = _learned(accuracy, users, every_user=scenario == "DI")
    return workload(
        f"penalty-{scenario.lower()}",
        CORES,
        submit_s,
        runtime_s,
        runtime_s / accuracy,
        sizes,
        source=f"PSP 2016, scenario={scenario} jobs={jobs} span_s={span_s} seed={seed}; a node is a core",
        users=users,
    )


def _accuracies(rng: np.random.Generator, scenario: str) -> Floats:
    """The accuracy of each user."""
    place = rng.random(USERS)
    if scenario in ("BE", "GE"):
        return np.maximum(_LEAST_ACCURACY, place * 0.2 + (0.8 if scenario == "GE" else 0.0))
    kind = scenario if scenario in SHARES else "CF"
    groups = (*GROUPS, TOP[kind])
    edges = np.cumsum(SHARES[kind]) / sum(SHARES[kind])
    group = np.searchsorted(edges, (np.arange(USERS) + 0.5) / USERS)
    low, high = np.array(groups)[group].T
    result: Floats = np.maximum(_LEAST_ACCURACY, low + place * (high - low))
    return result


def _learned(accuracy: Floats, users: np.ndarray[tuple[int, ...], np.dtype[np.int64]], *, every_user: bool) -> Floats:
    """Accuracy by job: after every five jobs of a user, worse ones gain a tenth of what is missing, others a tenth."""
    result = accuracy.copy()
    for user in range(1, USERS + 1, 1 if every_user else 2):
        rows = np.flatnonzero(users == user)
        value = float(accuracy[rows[0]]) if len(rows) else 0.0
        for begin in range(0, len(rows), LEARNS_EVERY):
            if begin:
                value = value + 0.1 * (1 - value) if value <= 0.5 else min(1.0, 1.1 * value)
            result[rows[begin : begin + LEARNS_EVERY]] = value
    return result
