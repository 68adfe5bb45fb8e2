"""``malleable simulate``: its options, how they become a replay, and how the run is looked at."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

from scheduler_bridge import policies
from scheduler_bridge.cli import options, results
from scheduler_bridge.cli.common import CliError, expect_finite, print_pieces, say
from scheduler_bridge.cli.inputs import CooldownOption, PassIntervalOption, one_of, read_duration
from scheduler_bridge.cli.options import described, option
from scheduler_bridge.cli.policies import LoadOption, load_policies
from scheduler_bridge.cli.results import Output, read_window, window_of
from scheduler_bridge.cli.workload import (
    Conversion,
    MalleableOption,
    TraceOptions,
    WarmupOption,
    WorkloadOption,
    findings,
)
from scheduler_bridge.policies.base import jobs_per_node

if TYPE_CHECKING:
    from scheduler_bridge.core.events import Event
    from scheduler_bridge.policies import Policy
    from scheduler_bridge.sim import CheckpointPlan, FaultTolerance, Replay, ReplayOptions
    from scheduler_bridge.simulation import Setup
    from scheduler_bridge.workloads import Workload

_HOUR_S: Final = 3600.0


def simulate(asked: SimulationOptions, output: Output) -> None:
    """Replay a workload under a policy, on a simulated cluster.

    Example: malleable simulate --workload theta.swf.gz --nodes 4360 --policy avg --malleable 0.6
    """
    output.check((asked.workload, *(asked.load or ())))
    load_policies(asked.load)
    asked.check_policy()
    explained = frozenset(output.explain)
    how = asked.replay_options(explained)
    jobs = asked.jobs()
    if unknown := explained - {job.job_id for job in jobs.jobs}:
        raise CliError(f"--explain {min(unknown)}: {jobs.name} has no such job", hint="it may be cut off, or refused")
    count, parted = len(jobs), None
    if not (output.draws or output.swf is not None or asked.failing.mtbf_h is not None):
        jobs, parted = jobs.parted()  # nothing looks at the jobs again
    setup, drawn = asked.setup(how, jobs), None
    with results.progress(count) as show:
        done = setup.replay(progress=show, jobs=parted)
    if output.draws:
        if all(record.refused for record in done.result.records.values()):
            raise CliError(
                "nothing to draw: no job was taken", hint="without --gantt and --html, --explain JOB says why"
            )
        times = read_window(output.window)
        choose = None if times is None else partial(window_of, asked=times)
        with results.progress(count, "drawing") as show:
            drawn = setup.drawn(done, choose, show)
    if output.written or output.prints:
        output.write(_document(asked, how, jobs, done), jobs, done, drawn)
    if not output.prints:
        results.show_figures(jobs, done, asked.policy, asked.nodes_for(jobs))
        for job_id in sorted(explained):
            print_pieces(("", *results.explained(done.result.explanations[job_id])))
    for path in output.written:
        say(f"written: {path}", err=output.prints)


# What is simulated, and how ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SimulatedConversion(Conversion):
    """What becomes of the jobs: nothing, unless it is asked for."""

    malleable: MalleableOption = 0.0
    seed: int = option(1, "--seed", "Determines which jobs become malleable, and failures.")


@dataclass(frozen=True, kw_only=True)
class System:
    """The cluster, its scheduler, and what jobs do when they are resized."""

    PANEL: ClassVar = "Cluster and scheduler"

    cost: str = option(
        "none",
        "--cost",
        "Of resizes: none, constant:SECONDS, mebf[:SCALE[:ALPHA:BETA]], measured[:FACTOR], or "
        "fitted:GROW:GROW_NODE:SHRINK:SHRINK_NODE.",
        "MODEL",
    )
    start_delay_s: float = options.seconds(0.0, "--start-delay", "From the decision to the start of a job.")
    points_s: float = options.seconds(
        0.0, "--points", "Resizes wait for the end of this number of seconds of progress."
    )
    walltime: str = option(
        "scaled", "--walltime", "At other sizes than asked for: scaled as believed, or fixed.", "RULE"
    )
    grace_s: float = options.seconds(0.0, "--grace", "Jobs are killed so long after their walltime.")
    tick_s: float = options.seconds(0.0, "--tick", "The scheduler decides at multiples of this time only.")
    pass_interval_s: PassIntervalOption = None
    cooldown_s: CooldownOption = None
    moldable: bool = option(
        False, "--moldable/--no-moldable", "Malleable jobs choose their size at the start and keep it."
    )
    cores: int = options.count(1, "--cores", "Cores of a node, for policies that let jobs share nodes.")
    sharing: str = option("ideal", "--sharing", "How fast jobs are that share nodes: ideal or worst.", "MODEL")
    idle_watts: float = option(120.0, "--idle-watts", "What an idle node draws.", "W", min=0)
    busy_watts: float = option(350.0, "--busy-watts", "What a node draws that a job holds.", "W", min=0)
    reservations: list[str] = option(
        [],
        "--reservation",
        "Keep N nodes free so long after the beginning, for so long, such as 64@24h+8h; may be repeated.",
        "N@START+TIME",
    )
    user_nodes: int | None = options.count(None, "--user-nodes", "Nodes of one user's jobs together, at most.")


@dataclass(frozen=True, kw_only=True)
class Failing:
    """Nodes that fail, and what jobs do about it."""

    PANEL: ClassVar = "Failures"
    _EXAMPLE: ClassVar = "for example: --mtbf 5000 --checkpoint-interval daly --checkpoint-cost 60"

    mtbf_h: float | None = options.hours(None, "--mtbf", "Mean time between failures of one node.")
    repair_h: float = options.hours(4.0, "--repair", "How long a failed node is away.")
    on_failure: str = option(
        "requeue", "--on-failure", "A job that loses a node: requeue (run it again) or fail.", "RULE"
    )
    attempts: int | None = options.count(
        None, "--attempts", "A job is run so often at most.", show_default="until it ends otherwise"
    )
    resilient: bool = option(
        False, "--resilient", "Malleable jobs go on without a lost node, unless it is their first one."
    )
    checkpoint_interval: str | None = option(
        None,
        "--checkpoint-interval",
        "Of computing between two checkpoints; or what is best after young or daly.",
        "SECONDS",
        show_default="no checkpoints",
    )
    checkpoint_cost_s: float = options.seconds(0.0, "--checkpoint-cost", "A job stands still for a checkpoint.")
    restart_cost_s: float = options.seconds(0.0, "--restart-cost", "Before a lost job computes again.")

    def tolerance(self) -> FaultTolerance:
        """What becomes of jobs that lose a node."""
        from scheduler_bridge import sim

        if self.mtbf_h is not None and not (self.mtbf_h > 0 and self.repair_h > 0):
            raise CliError("--mtbf and --repair must be positive")
        rule = one_of("--on-failure", self.on_failure, "rule", "requeue", "fail")
        if rule == "fail" and self.attempts is not None:
            raise CliError("--attempts with --on-failure fail", "a job that fails is not run again", "leave one out")
        if self.mtbf_h is None:
            for option, given in (
                ("--on-failure fail", rule == "fail"),
                ("--attempts", self.attempts is not None),
                ("--resilient", self.resilient),
                ("--restart-cost", self.restart_cost_s > 0),
            ):
                if given:
                    raise CliError(f"{option} without --mtbf", "no node fails", "for example: --mtbf 5000")
        return sim.FaultTolerance(
            requeue=rule == "requeue",
            attempts=self.attempts,
            resilient=self.resilient,
            checkpoints=self._checkpoints(),
            restart_s=self.restart_cost_s,
        )

    def _checkpoints(self) -> CheckpointPlan | None:
        if self.checkpoint_interval is None:
            if self.checkpoint_cost_s:
                why = "no checkpoint is written"
                raise CliError("--checkpoint-cost without --checkpoint-interval", why, self._EXAMPLE)
            return None
        from scheduler_bridge import sim

        given = f"--checkpoint-interval {self.checkpoint_interval}"
        if self.checkpoint_interval in ("young", "daly"):
            if self.mtbf_h is None or not self.checkpoint_cost_s:
                why = "the best interval follows from both"
                raise CliError(f"{given} without --mtbf and --checkpoint-cost", why, self._EXAMPLE)
            rule: Literal["young", "daly"] = "young" if self.checkpoint_interval == "young" else "daly"
            return sim.CheckpointPlan(self.checkpoint_cost_s, rule, mtbf_s=self.mtbf_h * _HOUR_S)
        try:
            return sim.CheckpointPlan(self.checkpoint_cost_s, every_s=float(self.checkpoint_interval))
        except ValueError:
            raise CliError(given, "it is a positive number of seconds, young or daly", self._EXAMPLE) from None

    def failures(self, jobs: Workload, nodes: int, seed: int) -> list[tuple[float, Event]]:
        """When which of the nodes fail, and are back."""
        if self.mtbf_h is None:
            return []
        from scheduler_bridge import sim

        sizes = ((job.submit_s, job.runtime_s, job.nodes) for job in jobs.jobs)
        return sim.random_failures(
            sim.node_names(nodes),
            mtbf_s=self.mtbf_h * _HOUR_S,
            repair_s=self.repair_h * _HOUR_S,
            until_s=sim.earliest_end_s(sizes, nodes),
            seed=seed,
        )


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """What is simulated, and how: the options of ``malleable simulate``."""

    workload: WorkloadOption
    policy: Annotated[str, described("--policy", "One of `malleable policies`.", "NAME")]
    settings: list[str] = option([], "--set", "A parameter of the policy; may be repeated.", "K=V")
    load: LoadOption = None
    warmup_h: WarmupOption = None
    trace: TraceOptions
    conversion: SimulatedConversion
    system: System
    failing: Failing

    def make_policy(self) -> Policy:
        """Make the policy; each replay needs one of its own."""
        return policies.get(self.policy, **policies.parse(self.policy, self.settings))

    def jobs(self) -> Workload:
        """Read the workload, cut it, and make jobs malleable or evolving."""
        jobs = self.trace.read(self.workload)
        self._expect_rest(jobs)
        return self.conversion.converted(jobs)

    def check(self, jobs: Workload) -> None:
        """See that ``jobs`` can be simulated in this way, before any is."""
        self.check_policy()
        self._expect_rest(jobs)
        self.replay_options(frozenset())
        self.reservations(self.nodes_for(jobs))

    def check_policy(self) -> None:
        """Make the policy once, and say it if it cannot do what it is made for.

        Raises:
            UnknownPolicyError: There is no such policy, or parameter.
        """
        if self.system.cores == 1 and jobs_per_node(self.make_policy()) > 1:
            name = self.policy
            say(f"{name} shares no node without --cores: nodes have one core, which cannot be divided", err=True)

    def _expect_rest(self, jobs: Workload) -> None:
        length_s = jobs.jobs[-1].submit_s - jobs.jobs[0].submit_s
        if self.warmup_h is not None and self.warmup_h * _HOUR_S > length_s:
            raise CliError(
                f"--warmup {self.warmup_h:g}: nothing is left to look at",
                f"the last submission is {length_s / _HOUR_S:.2f} h after the first",
                "give fewer hours",
            )

    def nodes_for(self, jobs: Workload) -> int:
        """How many nodes the cluster has."""
        return self.trace.nodes or jobs.nodes

    def replay_options(self, remember: frozenset[int]) -> ReplayOptions:
        """How the workload is replayed; what is decided about the jobs to ``remember`` is kept."""
        from scheduler_bridge import sim
        from scheduler_bridge.core import settings_for

        system = self.system
        meant, passes_s = settings_for(self.policy), system.pass_interval_s
        settings = replace(
            meant,
            pass_interval_s=meant.pass_interval_s if passes_s is None else passes_s or None,
            cooldown_s=meant.cooldown_s if system.cooldown_s is None else system.cooldown_s,
            walltime=one_of("--walltime", system.walltime, "rule", "fixed", "scaled"),
            walltime_grace_s=system.grace_s,
            cores_per_node=system.cores,
            user_nodes=system.user_nodes,
        )
        return sim.ReplayOptions(
            behaviour=sim.Behaviour(
                cost=sim.parse_cost(system.cost),
                start_delay_s=system.start_delay_s,
                moldable=system.moldable,
                point_s=system.points_s,
                tolerance=self.failing.tolerance(),
            ),
            settings=settings,
            sharing=one_of("--sharing", system.sharing, "model", "ideal", "worst"),
            remember=remember,
            tick_s=system.tick_s,
            power=sim.Power(idle_w=system.idle_watts, busy_w=system.busy_watts),
            warmup_s=None if self.warmup_h is None else self.warmup_h * _HOUR_S,
        )

    def setup(self, how: ReplayOptions, jobs: Workload) -> Setup:
        """What is simulated: ``jobs`` in this way, with failures and reservations."""
        from scheduler_bridge.simulation import Setup

        nodes = self.nodes_for(jobs)
        happens = self.failing.failures(jobs, nodes, self.conversion.seed) + self.reservations(nodes)
        return Setup(jobs, self.policy, self.make_policy, nodes, how, happens)

    def reservations(self, nodes: int) -> list[tuple[float, Event]]:
        """The reservations, all made at the beginning."""
        from scheduler_bridge import sim
        from scheduler_bridge.core import SchedulerCore
        from scheduler_bridge.core.events import RefuseReservation, ReservationMade
        from scheduler_bridge.model import AdvanceReservation

        example = "for example: --reservation 64@24h+8h"
        if not self.system.reservations:
            return []
        core = SchedulerCore(sim.node_names(nodes), self.make_policy())
        made: list[tuple[float, Event]] = []
        for number, text in enumerate(self.system.reservations, start=1):
            parts = re.fullmatch(r"(\d+)@([^+]+)\+(.+)", text)
            if parts is None or int(parts[1]) < 1:
                raise CliError(f"--reservation {text}", "it is given as nodes@start+time", example)
            times = (read_duration("--reservation", part) for part in parts.group(2, 3))
            start_s, for_s = (expect_finite(f"--reservation {text}:", time_s) for time_s in times)
            if for_s <= 0:
                raise CliError(f"--reservation {text}", "a reservation lasts for some time", example)
            event = ReservationMade(AdvanceReservation(f"r{number}", start_s, start_s + for_s, int(parts[1])))
            for effect in core.handle(event, 0.0):
                if isinstance(effect, RefuseReservation):
                    raise CliError(
                        f"--reservation {text}: {effect.reason}", hint="reserve fewer nodes, or another time"
                    )
            made.append((0.0, event))
        return made


# The result as JSON --------------------------------------------------------------------------------------------------


def _document(asked: SimulationOptions, how: ReplayOptions, jobs: Workload, done: Replay) -> dict[str, object]:
    from scheduler_bridge.sim import spreads
    from scheduler_bridge.sim.measures import headline_figures

    measures = done.measures
    trace = asdict(asked.trace)
    del trace["nodes"]
    return {
        "policy": asked.policy,
        "parameters": policies.describe(asked.policy).parameters | policies.parse(asked.policy, asked.settings),
        "nodes": asked.nodes_for(jobs),
        "jobs": len(done.result.records),
        "metrics": headline_figures(measures),
        "window": measures.window,
        "seconds": done.seconds,
        "workload": {"name": jobs.name, "source": jobs.source or str(asked.workload), "synthetic": jobs.synthetic},
        "findings": findings(jobs),
        "options": {
            "from": trace.pop("begin"),
            **trace,
            **asdict(asked.conversion),
            **asdict(asked.system),
            **asdict(asked.failing),
            "pass_interval_s": how.settings.pass_interval_s,
            "cooldown_s": how.settings.cooldown_s,
        },
        "details": measures,
        "quartiles": spreads(done.result.records.values(), measures.window),
        "batches": done.result.batches,
        "dependencies": {"honoured": done.links.honoured, "left_out": dict(done.links.dropped)},
    }
