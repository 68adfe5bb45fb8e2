"""``malleable simulate``."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler_bridge import policies
from scheduler_bridge.cli import pictures, simulated
from scheduler_bridge.cli.common import CliError, CooldownOption, PassIntervalOption
from scheduler_bridge.cli.conversion import EvolvingOption, RuleOption
from scheduler_bridge.cli.failing import (
    AttemptsOption,
    CheckpointCostOption,
    Failing,
    IntervalOption,
    MtbfOption,
    OnFailureOption,
    RepairOption,
    ResilientOption,
    RestartCostOption,
)
from scheduler_bridge.cli.pictures import Drawn, WindowOption
from scheduler_bridge.cli.policies import LoadOption, load_policies
from scheduler_bridge.cli.replaying import Asked, check_finite, options, prepare, run
from scheduler_bridge.cli.simulated_files import Files
from scheduler_bridge.cli.trace_file import (
    CutOffOption,
    DaysOption,
    Form,
    FromOption,
    PartitionOption,
    ProcessorsOption,
    StatusOption,
    findings,
)
from scheduler_bridge.policies.base import jobs_per_node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler_bridge.core.events import Effect, Event
    from scheduler_bridge.policies import Policy
    from scheduler_bridge.record import Recorder, RunRecord
    from scheduler_bridge.report.course import Course, Window
    from scheduler_bridge.sim import Replay
    from scheduler_bridge.workloads import Workload


def _hours(text: str) -> Any:
    """An option in hours, which typer has no type for."""
    return typer.Option(min=0, metavar="HOURS", help=text, show_default=False)


def simulate(
    workload: Annotated[
        Path,
        typer.Option(
            "--workload", metavar="FILE", help="Jobs: SWF, CSV, JSON, TOML, packed or not; -: standard input."
        ),
    ],
    policy: Annotated[str, typer.Option("--policy", metavar="NAME", help="One of `malleable policies`.")],
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, help="Nodes; those of the workload by default.", show_default=False)
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="K=V", help="A parameter of the policy; may be repeated.")
    ] = None,
    load: LoadOption = None,
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
            metavar="MODEL",
            help="Of resizes: none, constant:SECONDS, mebf[:SCALE[:ALPHA:BETA]], measured[:FACTOR], or "
            "fitted:GROW:GROW_NODE:SHRINK:SHRINK_NODE.",
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
    pass_interval: PassIntervalOption = None,
    cooldown: CooldownOption = None,
    moldable: Annotated[bool, typer.Option(help="Malleable jobs choose their size at the start and keep it.")] = False,
    mtbf: MtbfOption = None,
    repair: RepairOption = 4.0,
    on_failure: OnFailureOption = "requeue",
    attempts: AttemptsOption = None,
    resilient: ResilientOption = False,
    checkpoint_interval: IntervalOption = None,
    checkpoint_cost: CheckpointCostOption = 0.0,
    restart_cost: RestartCostOption = 0.0,
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
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the figures; - prints them and nothing else.", show_default=False
        ),
    ] = None,
    gantt: Annotated[
        Path | None, typer.Option("--gantt", metavar="FILE", help="Write a PNG of nodes over time.", show_default=False)
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page with jobs and nodes over time.", show_default=False),
    ] = None,
    window: WindowOption = None,
    table: Annotated[
        Path | None,
        typer.Option("--jobs", metavar="FILE", help="Write a row for each job: .csv or .parquet.", show_default=False),
    ] = None,
    swf: Annotated[
        Path | None,
        typer.Option("--swf", metavar="FILE", help="Write the jobs as they ran, with their sizes.", show_default=False),
    ] = None,
) -> None:
    """Replay a workload under a policy, on a simulated cluster.

    Example: malleable simulate --workload theta.swf.gz --nodes 4360 --policy avg --malleable 0.6
    """
    asked = Asked(
        workload, Form(nodes, processors_per_node, frozenset(partition or ()), frozenset(status or ()), keep_cut_off),
        policy, nodes, settings or [], malleable, rule, evolving, seed, warmup, start, days, cost, points,
        walltime, grace, tick, moldable,
        Failing(mtbf, repair, on_failure, attempts, resilient, checkpoint_interval, checkpoint_cost, restart_cost),
        frozenset(explain_jobs or ()), cores, sharing,
        start_delay, idle_watts, busy_watts, reservation or [], user_nodes, pass_interval, cooldown,
    )  # fmt: skip
    check_finite(asked)
    files = Files(json_file, gantt, html, table, swf)
    files.check()
    times = pictures.times(window)
    if times is not None and not files.picture:
        raise CliError(f"--window {window}: nothing is drawn", hint="say where to: --gantt FILE.png or --html FILE")
    load_policies(load)
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
    if files.picture or files.swf is not None or asked.failing.mtbf_h is not None:
        done, drawn = _run(asked, jobs, chosen, times, files)
    else:  # nothing looks at the jobs again
        jobs, parted = jobs.parted()
        with simulated.progress(len(parted)) as show:
            done, drawn = run(asked, jobs, chosen, None, show, parted), None
    if files.written or files.prints:
        files.write(document(asked, jobs, done), jobs, done, drawn)
    if not files.prints:
        _show(asked, jobs, done)
    for path in files.written:
        typer.echo(f"written: {path}", err=files.prints)


def _show(asked: Asked, jobs: Workload, done: Replay) -> None:
    simulated.show(jobs, done, asked.policy, asked.nodes or jobs.nodes)
    for job_id in sorted(asked.explain):
        typer.echo()
        simulated.show_explanation(done.result.explanations[job_id])


def _run(
    asked: Asked, jobs: Workload, policy: Policy, times: tuple[float, float] | None, files: Files
) -> tuple[Replay, Drawn | None]:
    """Simulate, and see to what is to be drawn.

    Of a run that is too large to be drawn whole the busiest part is only known when it is over; so this part, which the
    simulation repeats bit by bit, is simulated again, with a look at which nodes jobs have.
    """
    if not files.picture:
        with simulated.progress(len(jobs)) as show:
            return run(asked, jobs, policy, None, show), None
    from scheduler_bridge.report.course import Course, Life, is_large

    nodes = asked.nodes or jobs.nodes
    if times is None and not is_large(len(jobs), nodes):
        recorder = _recorder(asked, jobs)
        with simulated.progress(len(jobs)) as show:
            done = run(asked, jobs, policy, recorder.observe_batch, show)
        for line in simulated.fault_lines(done.measures):
            recorder.note(line)
        return done, Drawn(recorder.record())
    with simulated.progress(len(jobs)) as show:
        done = run(asked, jobs, policy, None, show)
    records = [record for record in done.result.records.values() if not record.refused]
    lives = (
        Life(
            record.spec.submit_s, record.start_s, record.end_s, (*record.spans(), *record.reserved), record.grows,
            record.shrinks,
        )
        for record in records
    )  # fmt: skip
    course = Course.of(
        asked.policy,
        nodes,
        lives,
        until_s=done.result.end_s,
        notes=[*_notes(jobs), *simulated.fault_lines(done.measures)],
    )
    window = pictures.part(course, times)
    return done, Drawn(_part(asked, jobs, course, window), (course, window))


class _SeenError(Exception):
    """The part of the run that is looked at is over."""


def _part(asked: Asked, jobs: Workload, course: Course, window: Window) -> RunRecord:
    from scheduler_bridge.core.events import WakeUp
    from scheduler_bridge.report.course import cut

    from_s, to_s = course.origin_s + window.from_s, course.origin_s + window.to_s
    recorder = _recorder(asked, jobs, since_s=from_s)

    def observe(now: float, events: Sequence[Event], effects: Sequence[Effect]) -> None:
        if now > to_s:
            raise _SeenError
        recorder.observe_batch(now, events, effects)

    policy = policies.get(asked.policy, **policies.parse(asked.policy, asked.settings))
    with contextlib.suppress(_SeenError), simulated.progress(len(jobs), "drawing") as show:
        run(asked, jobs, policy, observe, show)
    recorder.observe(to_s, WakeUp())
    return cut(recorder.record(), window, course.origin_s)


def _recorder(asked: Asked, jobs: Workload, since_s: float = -math.inf) -> Recorder:
    from scheduler_bridge.record import Recorder
    from scheduler_bridge.sim import node_names

    names = node_names(asked.nodes or jobs.nodes)
    recorder = Recorder(names, asked.policy, cores_per_node=asked.cores, since_s=since_s)
    for note in _notes(jobs):
        recorder.note(note)
    return recorder


def _notes(jobs: Workload) -> list[str]:
    return [f"simulated: {jobs.label}"]


def document(asked: Asked, jobs: Workload, done: Replay) -> dict[str, object]:
    """The result as JSON shows it."""
    from scheduler_bridge.sim import spreads

    measures = done.measures
    settings = options(asked).settings
    return {
        "policy": asked.policy,
        "parameters": policies.describe(asked.policy).parameters | policies.parse(asked.policy, asked.settings),
        "nodes": asked.nodes or jobs.nodes,
        "jobs": len(done.result.records),
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
            "from": asked.start,
            "days": asked.days,
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
            "pass_interval_s": settings.pass_interval_s,
            "cooldown_s": settings.cooldown_s,
            "moldable": asked.moldable,
            **asked.failing.document(),
            "cores": asked.cores,
            "sharing": asked.sharing,
            "reservations": asked.reservations,
        },
        "details": measures,
        "quartiles": spreads(done.result.records.values(), measures.window),
        "batches": done.result.batches,
        "dependencies": {"honoured": done.links.honoured, "left_out": dict(done.links.dropped)},
    }
