"""``malleable simulate``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from scheduler_bridge import policies
from scheduler_bridge.cli import clock, explain, simulated
from scheduler_bridge.cli.conversion import EvolvingOption, RuleOption, converted
from scheduler_bridge.cli.errors import CliError
from scheduler_bridge.cli.trace_file import (
    CutOffOption,
    DaysOption,
    Form,
    FromOption,
    PartitionOption,
    ProcessorsOption,
    StatusOption,
    findings,
    read,
    window,
)
from scheduler_bridge.policies.base import jobs_per_node

if TYPE_CHECKING:
    from scheduler_bridge.core.events import Event
    from scheduler_bridge.policies import Policy
    from scheduler_bridge.record import Recorder
    from scheduler_bridge.sim import Replay, ReplayOptions
    from scheduler_bridge.workloads import Workload

_HOUR_S: Final = 3600.0
_GANTT_NODES: Final = 256
_GANTT_JOBS: Final = 1000


@dataclass(frozen=True)
class Asked:
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
    mtbf_h: float | None
    repair_h: float
    explain: frozenset[int]
    cores: int
    sharing: str
    start_delay_s: float
    idle_watts: float
    busy_watts: float
    reservations: list[str] = field(default_factory=list)
    user_nodes: int | None = None


def _hours(text: str) -> Any:
    """An option in hours, which typer has no type for."""
    return typer.Option(min=0, metavar="HOURS", help=text, show_default=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(simulate)


def simulate(
    workload: Annotated[
        Path,
        typer.Option("--workload", metavar="FILE", help="Jobs: SWF, CSV, ElastiSim's or our JSON, TOML, .gz."),
    ],
    policy: Annotated[str, typer.Option("--policy", metavar="NAME", help="One of `malleable policies`.")],
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, help="Nodes; those of the workload by default.", show_default=False)
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="K=V", help="A parameter of the policy; may be repeated.")
    ] = None,
    malleable: Annotated[float, typer.Option(min=0, max=1, help="Make this share of the rigid jobs malleable.")] = 0.0,
    rule: RuleOption = "amdahl",
    evolving: EvolvingOption = 0.0,
    seed: Annotated[int, typer.Option(help="Determines which jobs become malleable, and failures.")] = 1,
    warmup: Annotated[
        float | None, _hours("Leave the first hours, and what follows the last submission, out of the figures.")
    ] = None,
    start: FromOption = None,
    days: DaysOption = None,
    processors_per_node: ProcessorsOption = None,
    partition: PartitionOption = None,
    status: StatusOption = None,
    keep_cut_off: CutOffOption = False,
    cost: Annotated[
        str,
        typer.Option(
            metavar="MODEL", help="Of resizes: none, constant:SECONDS, mebf[:SCALE[:ALPHA:BETA]], measured[:FACTOR]."
        ),
    ] = "none",
    start_delay: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="From the decision to the start of a job.")
    ] = 0.0,
    points: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="Resizes wait for the end of so many seconds of progress."),
    ] = 0.0,
    walltime: Annotated[
        str, typer.Option(metavar="RULE", help="At other sizes than asked for: scaled as believed, or fixed.")
    ] = "scaled",
    grace: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Jobs are killed so long after their walltime.")
    ] = 0.0,
    tick: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="The scheduler decides at multiples of this time only.")
    ] = 0.0,
    moldable: Annotated[bool, typer.Option(help="Malleable jobs choose their size at the start and keep it.")] = False,
    mtbf: Annotated[float | None, _hours("Mean time between failures of a node, until the last submission.")] = None,
    repair: Annotated[float, typer.Option(min=0, metavar="HOURS", help="How long a failed node is away.")] = 4.0,
    cores: Annotated[
        int,
        typer.Option("--cores", min=1, metavar="N", help="Cores of a node, for policies that let jobs share nodes."),
    ] = 1,
    sharing: Annotated[
        str, typer.Option("--sharing", metavar="MODEL", help="How fast jobs are that share nodes: ideal or worst.")
    ] = "ideal",
    idle_watts: Annotated[float, typer.Option(min=0, metavar="W", help="What an idle node draws.")] = 120.0,
    busy_watts: Annotated[float, typer.Option(min=0, metavar="W", help="What a node draws that a job holds.")] = 350.0,
    reservation: Annotated[
        list[str] | None,
        typer.Option(
            "--reservation",
            metavar="N@START+TIME",
            help="Keep N nodes free so long after the beginning, for so long, such as 64@24h+8h; may be repeated.",
        ),
    ] = None,
    user_nodes: Annotated[
        int | None,
        typer.Option("--user-nodes", min=1, metavar="N", help="Nodes of one user's jobs together, at most."),
    ] = None,
    explain_jobs: Annotated[
        list[int] | None,
        typer.Option("--explain", min=0, metavar="JOB", help="Say what was decided about this job, and why."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the figures.", show_default=False)
    ] = None,
    gantt: Annotated[
        Path | None, typer.Option("--gantt", metavar="FILE", help="Write a PNG of nodes over time.", show_default=False)
    ] = None,
) -> None:
    """Replay a workload under a policy, on a simulated cluster.

    Example: malleable simulate --workload theta.swf.gz --nodes 4360 --policy avg --malleable 0.6
    """
    asked = Asked(
        workload, Form(nodes, processors_per_node, frozenset(partition or ()), frozenset(status or ()), keep_cut_off),
        policy, nodes, settings or [], malleable, rule, evolving, seed, warmup, start, days, cost, points,
        walltime, grace, tick, moldable, mtbf, repair, frozenset(explain_jobs or ()), cores, sharing,
        start_delay, idle_watts, busy_watts, reservation or [], user_nodes,
    )  # fmt: skip
    chosen = policies.get(policy, **policies.parse(policy, asked.settings))
    if walltime not in ("fixed", "scaled"):
        raise CliError(f"--walltime {walltime}: no such rule", "there are fixed and scaled")
    jobs = prepare(asked)
    if unknown := asked.explain - {job.job_id for job in jobs.jobs}:
        raise CliError(f"--explain {min(unknown)}: {jobs.name} has no such job", hint="it may be cut off, or refused")
    if sharing not in ("ideal", "worst"):
        raise CliError(f"--sharing {sharing}: no such model", "there are ideal and worst")
    if cores == 1 and jobs_per_node(chosen) > 1:
        typer.echo(f"{policy} shares no node without --cores: nodes have one core, which cannot be divided", err=True)
    recorder = _recorder(gantt, jobs, asked)
    with simulated.progress(len(jobs)) as told:
        done = run(asked, jobs, chosen, recorder, told)
    if json_file is not None:
        simulated.write_json(json_file, document(asked, jobs, done))
    if gantt is not None and recorder is not None:
        from scheduler_bridge.report.gantt import write_png

        write_png([recorder.record()], gantt)
    simulated.show(jobs, done, policy, asked.nodes or jobs.nodes)
    for job_id in sorted(asked.explain):
        typer.echo()
        explain.show(done.result.core.explanation(job_id))
    for path in (json_file, gantt):
        if path is not None:
            typer.echo(f"written: {path}")


def prepare(asked: Asked) -> Workload:
    """Read the workload, cut it, and make jobs malleable or evolving.

    Raises:
        CliError: That cannot be done.
    """
    jobs = window(read(asked.workload, asked.form), asked.start, asked.days)
    return converted(jobs, asked.malleable, asked.rule, asked.evolving, asked.seed)


def run(asked: Asked, jobs: Workload, policy: Policy, recorder: Recorder | None, progress: simulated.Told) -> Replay:
    """Simulate.

    Raises:
        CliError: The jobs' speedup or the cost of resizes is no known model.
    """
    from scheduler_bridge import sim

    nodes = asked.nodes or jobs.nodes
    failures: list[tuple[float, Event]] = []
    if asked.mtbf_h is not None:
        mtbf_s, repair_s = asked.mtbf_h * _HOUR_S, asked.repair_h * _HOUR_S
        if not (mtbf_s > 0 and repair_s > 0):
            raise CliError("--mtbf and --repair must be positive")
        failures += sim.random_failures(
            sim.node_names(nodes), mtbf_s=mtbf_s, repair_s=repair_s, until_s=jobs.jobs[-1].submit_s, seed=asked.seed
        )
    try:
        return sim.replay(
            jobs,
            policy,
            nodes,
            _options(asked),
            disturbances=failures + _reservations(asked, nodes, policy),
            observer=None if recorder is None else recorder.observe_batch,
            progress=progress,
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
    from scheduler_bridge.core.effects import RefuseReservation
    from scheduler_bridge.core.events import ReservationMade
    from scheduler_bridge.model import AdvanceReservation

    core = SchedulerCore(sim.node_names(nodes), policy)
    made: list[tuple[float, Event]] = []
    for number, text in enumerate(asked.reservations, start=1):
        parts = re.fullmatch(r"(\d+)@([^+]+)\+(.+)", text)
        if parts is None or int(parts[1]) < 1:
            raise CliError(f"--reservation {text}", "it is given as nodes@start+time", "--reservation 64@24h+8h")
        start_s, for_s = (clock.seconds("--reservation", part) for part in parts.group(2, 3))
        if for_s <= 0:
            raise CliError(f"--reservation {text}", "a reservation lasts for some time", "--reservation 64@24h+8h")
        event = ReservationMade(AdvanceReservation(f"r{number}", start_s, start_s + for_s, int(parts[1])))
        for effect in core.handle(event, 0.0):
            if isinstance(effect, RefuseReservation):
                raise CliError(f"--reservation {text}: {effect.reason}", hint="reserve fewer nodes, or another time")
        made.append((0.0, event))
    return made


def _options(asked: Asked) -> ReplayOptions:
    from scheduler_bridge import sim
    from scheduler_bridge.core import settings_for

    settings = replace(
        settings_for(asked.policy),
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
        ),
        settings=settings,
        sharing="worst" if asked.sharing == "worst" else "ideal",
        remember=asked.explain,
        tick_s=asked.tick_s,
        power=sim.Power(idle_w=asked.idle_watts, busy_w=asked.busy_watts),
        warmup_s=None if asked.warmup_h is None else asked.warmup_h * _HOUR_S,
    )


def _recorder(gantt: Path | None, jobs: Workload, asked: Asked) -> Recorder | None:
    """What draws nodes over time, where a picture can show them."""
    if gantt is None:
        return None
    from scheduler_bridge.record import Recorder
    from scheduler_bridge.sim import node_names

    nodes = asked.nodes or jobs.nodes
    if nodes > _GANTT_NODES or len(jobs) > _GANTT_JOBS:
        raise CliError(
            f"--gantt: {len(jobs)} jobs on {nodes} nodes",
            f"a picture shows up to {_GANTT_JOBS} jobs on {_GANTT_NODES} nodes",
            "take fewer with --days and --nodes",
        )
    recorder = Recorder(node_names(nodes), asked.policy, cores_per_node=asked.cores)
    recorder.note(f"simulated: {jobs.label}")
    return recorder


def document(asked: Asked, jobs: Workload, done: Replay) -> dict[str, object]:
    """The result as JSON shows it."""
    measures = done.measures
    return {
        "policy": asked.policy,
        "parameters": policies.describe(asked.policy).parameters | policies.parse(asked.policy, asked.settings),
        "nodes": asked.nodes or jobs.nodes,
        "jobs": len(jobs),
        "metrics": simulated.metrics(measures),
        "window": measures.window,
        "seconds": done.seconds,
        "workload": {"name": jobs.name, "source": jobs.source or str(asked.workload), "synthetic": jobs.synthetic},
        "findings": findings(jobs),
        "options": {
            "malleable": asked.malleable,
            "rule": asked.rule,
            "evolving": asked.evolving,
            "seed": asked.seed,
            "processors_per_node": asked.form.processors_per_node,
            "partitions": sorted(asked.form.partitions),
            "statuses": sorted(asked.form.statuses),
            "keep_cut_off": asked.form.keep_cut_off,
            "cost": asked.cost,
            "start_delay_s": asked.start_delay_s,
            "idle_watts": asked.idle_watts,
            "busy_watts": asked.busy_watts,
            "points_s": asked.point_s,
            "walltime": asked.walltime,
            "grace_s": asked.grace_s,
            "user_nodes": asked.user_nodes,
            "tick_s": asked.tick_s,
            "moldable": asked.moldable,
            "mtbf_h": asked.mtbf_h,
            "cores": asked.cores,
            "sharing": asked.sharing,
            "reservations": asked.reservations,
        },
        "details": measures,
        "batches": done.result.batches,
    }
