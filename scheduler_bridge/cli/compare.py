"""``malleable compare``: a workload under several policies, for shares of malleable jobs and seeds, in one sweep."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from scheduler_bridge import policies
from scheduler_bridge.cli import options
from scheduler_bridge.cli.common import CliError, JsonOption
from scheduler_bridge.cli.experiment import on_places, show_report
from scheduler_bridge.cli.options import described, option
from scheduler_bridge.cli.policies import LoadOption, load_policies
from scheduler_bridge.cli.simulate import Failing, SimulatedConversion, SimulationOptions, System
from scheduler_bridge.cli.workload import EvolvingOption, RuleOption, TraceOptions, WarmupOption, WorkloadOption

if TYPE_CHECKING:
    from scheduler_bridge.experiments.study_report import StudyReport
    from scheduler_bridge.experiments.sweep import Cell, Figures, Reporter
    from scheduler_bridge.workloads import Workload

_EXAMPLE = "for example: --malleable 0,0.5,1"


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """What is compared, and how it is simulated."""

    workload: WorkloadOption
    policies: Annotated[
        str,
        described(
            "--policies",
            "Of `malleable policies`, each with its parameters behind it: 'easy,best-use patience=0'. The others "
            "are compared with the first one.",
            "NAME,...",
        ),
    ]
    malleable: str = option("0", "--malleable", "Shares of the rigid jobs that become malleable.", "SHARE,...")
    seeds: int = options.count(10, "--seeds", "How often each is simulated, if seeds draw anything.")
    shake_s: float = options.seconds(
        0.0, "--shake", "Seeds move each submission by up to so much, so that there are intervals at any share."
    )
    rule: RuleOption = "amdahl"
    evolving: EvolvingOption = 0.0
    load: LoadOption = None
    warmup_h: WarmupOption = None
    out: Path = options.folder(
        Path("comparison"), "--out", "Folder of table, figure, page and rows; what was interrupted goes on there."
    )
    jobs: int | None = options.count(
        None, "--jobs", "Processes that simulate; under mpiexec, its.", show_default="the cores"
    )
    trace: TraceOptions
    system: System
    failing: Failing

    def conversion(self, share: int, seed: int) -> SimulatedConversion:
        """What becomes of the jobs, for a share in percent."""
        evolving = self.evolving if share else 0.0
        return SimulatedConversion(malleable=share / 100, rule=self.rule, evolving=evolving, seed=seed)

    def one(self, policy: str, share: int, seed: int) -> SimulationOptions:
        """One of the simulations."""
        name, *settings = policy.split()
        return SimulationOptions(
            workload=self.workload,
            policy=name,
            settings=settings,
            warmup_h=self.warmup_h,
            trace=self.trace,
            conversion=self.conversion(share, seed),
            system=self.system,
            failing=self.failing,
        )

    def names(self) -> tuple[str, ...]:
        """The policies, each with its parameters behind its name."""
        names = tuple(" ".join(part.split()) for part in self.policies.split(","))
        if len(names) < 2 or "" in names:
            raise CliError(
                f"--policies {self.policies}: a comparison takes at least two",
                "they are given with commas between them",
                "for example: --policies easy,best-use",
            )
        if twice := {name for name in names if names.count(name) > 1}:
            raise CliError(f"--policies {self.policies}: {min(twice)} is there twice", hint="name it once")
        return names

    def shares(self) -> tuple[int, ...]:
        """The shares of malleable jobs, in percent."""
        shares = []
        for text in self.malleable.split(","):
            try:
                share = round(100 * float(text), 6)
            except ValueError:
                raise CliError(f"--malleable {self.malleable}: {text!r} is no number", hint=_EXAMPLE) from None
            if not 0 <= share <= 100 or share != int(share):
                why = "shares are from 0 to 1, in whole percent"
                raise CliError(f"--malleable {self.malleable}: {text}", why, _EXAMPLE)
            if share in shares:
                raise CliError(f"--malleable {self.malleable}: {text} is there twice", hint=_EXAMPLE)
            shares.append(int(share))
        return tuple(shares)


@dataclass(frozen=True)
class Planned:
    """Simulates a cell of the comparison; travels to other places."""

    asked: ComparisonOptions
    workload: Workload

    def __call__(self, cell: Cell) -> Figures:
        """Simulate it."""
        from scheduler_bridge.experiments.comparison import figures_of

        asked = self.asked.one(cell.policy, cell.share, cell.seed)
        if asked.policy not in policies.names():
            load_policies(self.asked.load)  # on this place
        setup = asked.setup(asked.replay_options(frozenset()), self.jobs(cell.share, cell.seed))
        return figures_of(setup.replay(), setup.nodes)

    def jobs(self, share: int, seed: int) -> Workload:
        """The jobs that a seed draws."""
        from scheduler_bridge.workloads import shake

        by_s = self.asked.shake_s
        return self.asked.conversion(share, seed).converted(shake(self.workload, by_s, seed) if by_s else self.workload)

    def seeds(self, share: int) -> tuple[int, ...]:
        """The seeds of which something depends; the first one where nothing does."""
        first, *others = seeds = tuple(range(1, self.asked.seeds + 1))
        if self.asked.failing.mtbf_h is not None:
            return seeds
        jobs = self.jobs(share, first)
        return seeds if any(self.jobs(share, seed) != jobs for seed in others) else (first,)

    def digest(self) -> str:
        """A short name of the jobs and of all options that results depend on."""
        asked = self.asked
        chosen = (asked.rule, asked.evolving, asked.shake_s, asked.warmup_h, asked.system, asked.failing)
        found = hashlib.sha256(msgspec.json.encode((asked.trace.nodes, self.workload.nodes, self.workload.jobs)))
        found.update(repr(chosen).encode())
        for file in asked.load or ():
            found.update(file.read_bytes())
        return found.hexdigest()[:8]


def compare(asked: ComparisonOptions, as_json: JsonOption = False) -> None:
    """Simulate a workload under several policies, and say by how much they differ, seed by seed.

    Example: malleable compare --workload theta.swf.gz --policies easy,malleable,best-use --malleable 0,0.5,1 --seeds 10
    """
    names, shares = asked.names(), asked.shares()
    if not find_spec("matplotlib"):
        raise CliError("matplotlib is not installed", "the figure needs it", 'pip install "malleable-apgas[report]"', 1)
    if asked.out.exists() and not asked.out.is_dir():
        raise CliError(f"--out {asked.out}: this is a file", "a folder is to be written", "name another one")

    def simulate(reporter: Reporter) -> StudyReport:
        """On the first place: the others do not read the workload, and have no standard input."""
        load_policies(asked.load)
        workload = asked.trace.read(asked.workload)
        for name in names:
            asked.one(name, 0, 1).check(workload)
        planned = Planned(asked, workload)
        from scheduler_bridge.experiments.comparison import Comparison
        from scheduler_bridge.experiments.sweep import default_form

        found = workload.findings
        comparison = Comparison(
            f"{workload.label}, {len(workload):,} jobs, {asked.trace.nodes or workload.nodes:,} nodes",
            f"{workload.name} {planned.digest()}",
            names,
            {share: planned.seeds(share) for share in shares},
            (f"Of the workload, {found.summary()}.",) if found.skipped or found.noted else (),
        )
        file = asked.out / f"simulations.{default_form()}"
        return comparison.report(comparison.rows(planned, file, reporter))

    report = on_places(simulate, "--jobs", asked.jobs, asked.out)
    show_report(report, 1, asked.out, ["malleable", *sys.argv[1:]], as_json=as_json)
