"""What ``malleable simulate`` is asked for, and how it is carried out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler_bridge.cli import clock, simulated
from scheduler_bridge.cli.common import CliError, expect_finite
from scheduler_bridge.cli.conversion import converted
from scheduler_bridge.cli.failing import Failing
from scheduler_bridge.cli.trace_file import Form, read, window

if TYPE_CHECKING:
    from collections import deque

    from scheduler_bridge.core.events import Event
    from scheduler_bridge.policies import Policy
    from scheduler_bridge.sim import Replay, ReplayOptions
    from scheduler_bridge.sim.jobs import Observer
    from scheduler_bridge.workloads import TraceJob, Workload

_HOUR_S: Final = 3600.0
_EXAMPLE: Final = "for example: --reservation 64@24h+8h"


class Asked(msgspec.Struct, frozen=True):
    """What the command line asks for; see the options of ``simulate``."""

    workload: Path
    form: Form
    policy: str
    nodes: int | None
    settings: list[str]
    malleable: float
    rule: str
    evolving: float
    seed: int
    warmup_h: float | None
    start: str | None
    days: float | None
    cost: str
    point_s: float
    walltime: str
    grace_s: float
    tick_s: float
    moldable: bool
    failing: Failing
    explain: frozenset[int]
    cores: int
    sharing: str
    start_delay_s: float
    idle_watts: float
    busy_watts: float
    reservations: list[str] = msgspec.field(default_factory=list)
    user_nodes: int | None = None
    pass_interval_s: float | None = None
    cooldown_s: float | None = None


def check_finite(asked: Asked) -> None:
    """See that nothing is to take for ever, but for what may be put off as long: a kill.

    Raises:
        CliError: Something is.
    """
    expect_finite(
        ("--warmup", asked.warmup_h), ("--start-delay", asked.start_delay_s), ("--points", asked.point_s),
        ("--tick", asked.tick_s), ("--pass-interval", asked.pass_interval_s), ("--cooldown", asked.cooldown_s),
        ("--idle-watts", asked.idle_watts), ("--busy-watts", asked.busy_watts),
    )  # fmt: skip
    asked.failing.check()


def _check_warmup(asked: Asked, jobs: Workload) -> None:
    """See that the warm-up leaves something to look at.

    Raises:
        CliError: It does not.
    """
    length_s = jobs.jobs[-1].submit_s - jobs.jobs[0].submit_s
    if asked.warmup_h is not None and asked.warmup_h * _HOUR_S > length_s:
        raise CliError(
            f"--warmup {asked.warmup_h:g}: nothing is left to look at",
            f"the last submission is {length_s / _HOUR_S:.2f} h after the first",
            "give fewer hours",
        )


def prepare(asked: Asked) -> Workload:
    """Read the workload, cut it, and make jobs malleable or evolving.

    Raises:
        CliError: That cannot be done.
    """
    jobs = window(read(asked.workload, asked.form), asked.start, asked.days)
    _check_warmup(asked, jobs)
    return converted(jobs, asked.malleable, asked.rule, asked.evolving, asked.seed)


def run(
    asked: Asked,
    jobs: Workload,
    policy: Policy,
    observer: Observer | None,
    progress: simulated.Told,
    taken: deque[TraceJob] | None = None,
) -> Replay:
    """Simulate ``jobs``, or those that they were parted from, which are taken out as they are submitted.

    Raises:
        CliError: The jobs' speedup or the cost of resizes is no known model.
    """
    from scheduler_bridge import sim

    nodes = asked.nodes or jobs.nodes
    failures = asked.failing.failures(jobs, nodes, asked.seed)
    try:
        return sim.replay(
            jobs,
            policy,
            nodes,
            options(asked),
            disturbances=failures + _reservations(asked, nodes, policy),
            observer=observer,
            progress=progress,
            jobs=taken,
        )
    except sim.UnknownModelError as error:
        raise CliError(str(error)) from None


def _reservations(asked: Asked, nodes: int, policy: Policy) -> list[tuple[float, Event]]:
    """The reservations, all made at the beginning.

    Raises:
        CliError: One of them is none, or there are not as many nodes.
    """
    from scheduler_bridge import sim
    from scheduler_bridge.core import SchedulerCore
    from scheduler_bridge.core.events import RefuseReservation, ReservationMade
    from scheduler_bridge.model import AdvanceReservation

    if not asked.reservations:
        return []
    core = SchedulerCore(sim.node_names(nodes), policy)
    made: list[tuple[float, Event]] = []
    for number, text in enumerate(asked.reservations, start=1):
        parts = re.fullmatch(r"(\d+)@([^+]+)\+(.+)", text)
        if parts is None or int(parts[1]) < 1:
            raise CliError(f"--reservation {text}", "it is given as nodes@start+time", _EXAMPLE)
        start_s, for_s = (clock.seconds("--reservation", part) for part in parts.group(2, 3))
        if for_s <= 0:
            raise CliError(f"--reservation {text}", "a reservation lasts for some time", _EXAMPLE)
        event = ReservationMade(AdvanceReservation(f"r{number}", start_s, start_s + for_s, int(parts[1])))
        for effect in core.handle(event, 0.0):
            if isinstance(effect, RefuseReservation):
                raise CliError(f"--reservation {text}: {effect.reason}", hint="reserve fewer nodes, or another time")
        made.append((0.0, event))
    return made


def options(asked: Asked) -> ReplayOptions:
    """How the workload is replayed."""
    from scheduler_bridge import sim
    from scheduler_bridge.core import settings_for

    meant = settings_for(asked.policy)
    settings = replace(
        meant,
        pass_interval_s=meant.pass_interval_s if asked.pass_interval_s is None else asked.pass_interval_s or None,
        cooldown_s=meant.cooldown_s if asked.cooldown_s is None else asked.cooldown_s,
        walltime="scaled" if asked.walltime == "scaled" else "fixed",
        walltime_grace_s=asked.grace_s,
        cores_per_node=asked.cores,
        user_nodes=asked.user_nodes,
    )
    return sim.ReplayOptions(
        behaviour=sim.Behaviour(
            cost=sim.parse_cost(asked.cost),
            start_delay_s=asked.start_delay_s,
            moldable=asked.moldable,
            point_s=asked.point_s,
            tolerance=asked.failing.tolerance(),
        ),
        settings=settings,
        sharing="worst" if asked.sharing == "worst" else "ideal",
        remember=asked.explain,
        tick_s=asked.tick_s,
        power=sim.Power(idle_w=asked.idle_watts, busy_w=asked.busy_watts),
        warmup_s=None if asked.warmup_h is None else asked.warmup_h * _HOUR_S,
    )
