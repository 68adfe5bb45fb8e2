"""What is run and where: batches, policies, the scale of time, problems as slow as the paper's, nodes."""

from __future__ import annotations

import fcntl
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import structs

from scheduler_bridge.backends.hosts import HostsConfig, on_hosts, read_hosts
from scheduler_bridge.backends.hosts.hosts import fewest_cores
from scheduler_bridge.daemon import DaemonConfig, DaemonError, DaemonThread
from scheduler_bridge.daemon.config import numbered_nodes
from scheduler_bridge.daemon.trial import CalibrationError, import_path, result_of, run_benchmark
from scheduler_bridge.experiments.published_runs.cells import AS_MEASURED, Reference, program
from scheduler_bridge.sim import SimRecord
from scheduler_bridge.workloads.generate import papers
from scheduler_bridge.workloads.workload import TraceJob

Scale: TypeAlias = Literal["tiny", "small", "full"]
Kind: TypeAlias = Literal["batch", "injected", "scaling"]
"""``batch``: as it is; ``injected``: every grow and shrink takes the paper's seconds longer, in scaled time;
``scaling``: rigid jobs of all problems and sizes."""

PAPER: Final = ("fcfs", "backfilling", "easy", "malleable")
"""The policies of the 2024 paper."""
STRATEGIES: Final = ("min", "pref", "avg", "keep-pref")
"""Those of the 2025 paper."""
TIME: Final = 0.08
"""Seconds here for a second there: a batch of 20 minutes takes some 90 s."""
START_UP_S: Final = 15.0
"""Added to every walltime: starting processes is not scaled."""
COMPAT_POLICIES: Final = ("easy-compat", "malleable-compat")
"""Those of the paper as its programs were."""
INJECTED_POLICY: Final = "malleable"


class RunKey(NamedTuple):
    """One run: a policy, the share of malleable jobs in percent, the seed of the batch, and what kind of run it is."""

    policy: str
    share: int
    seed: int
    kind: Kind = "batch"

    @property
    def file(self) -> str:
        """The name of its result."""
        if self.kind == "scaling":
            return "scaling.json"
        suffix = "-injected" if self.kind == "injected" else ""
        return f"{self.policy}-{self.share:03d}-{self.seed}{suffix}.json"

    @property
    def spoken(self) -> str:
        """For people."""
        if self.kind == "scaling":
            return "strong scaling"
        slow = ", resizes as slow as the paper's" if self.kind == "injected" else ""
        return f"{self.policy}, {self.share} % malleable, seed {self.seed}{slow}"


SCALING: Final = RunKey("backfilling", 0, 0, "scaling")
"""The run in which the programs are measured on several sizes."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """What is run.

    Attributes:
        policies: Names of the policies.
        shares: Malleable jobs in percent.
        seeds: Of the batches.
        jobs: How many of the first jobs of each batch.
        nodes: Nodes of the cluster; jobs that ask for more get as many.
        time: Seconds here for a second of the paper.
        cores: Of a node; jobs that share nodes divide them.
        injected: Shares at which the batches are run again with slower resizes.
        sizes: On how many nodes the programs' strong scaling is measured; none: it is not.
        longest_node_s: It is measured for programs that take no longer on one node of the paper.
        paced: Whether nodes are held to a rate of work, so that they take the paper's time, scaled.
        published: The paper's own batches by share and seed, in place of such that are drawn like them; none: these.
    """

    policies: tuple[str, ...]
    shares: tuple[int, ...]
    seeds: tuple[int, ...]
    jobs: int = papers.BATCH_JOBS
    nodes: int = papers.BATCH_NODES
    time: float = TIME
    cores: int = 1
    injected: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    longest_node_s: float = math.inf
    paced: bool = True
    published: Mapping[tuple[int, int], tuple[TraceJob, ...]] = field(default_factory=dict)

    def as_published(self, reference: Reference) -> Campaign:
        """Return the same with the batches that the paper has published.

        Under all of its policies a batch of a share and a seed has the same jobs, submitted within a tenth of a second
        of the same times. Where one policy has no run of them, another one has. The paper's programs of EASY and the
        malleable algorithm had faults: the policies that repeat these are run, too.
        """
        found = {(key.share, key.seed): runs.jobs for key, runs in sorted(reference.runs.items(), reverse=True)}
        published = {key: tuple(map(_asked_for, jobs)) for key, jobs in found.items()}
        return replace(self, policies=(*self.policies, *COMPAT_POLICIES), published=published)

    def at(self, site: Site) -> Campaign:
        """Return the same on the nodes of ``site``; if they are not paced, at the paper's size and in its time.

        Raises:
            DaemonError: The site's file of hosts is wrong.
        """
        nodes = self.nodes if site.hosts is None else len(site.hosts.names())
        fitted = replace(self, nodes=nodes, sizes=tuple(size for size in self.sizes if size <= nodes))
        if site.paced:
            return fitted
        cores = None if site.hosts is None else fewest_cores(read_hosts(site.hosts.file))
        return replace(fitted, cores=cores or 1, time=1.0, paced=False)

    def runs(self) -> list[RunKey]:
        """All runs; one batch under all policies after another, so that an interrupted campaign can be compared.

        The strong scaling comes after the first of them, what is injected at the end.
        """
        runs = [RunKey(policy, share, seed) for seed, share, policy in product(self.seeds, self.shares, self.policies)]
        if self.sizes:
            runs.insert(len(self.shares) * len(self.policies), SCALING)
        slow = product(self.injected, self.seeds)
        return [*runs, *(RunKey(INJECTED_POLICY, share, seed, "injected") for share, seed in slow)]

    def slow_resizes(self, key: RunKey) -> tuple[float, float] | None:
        """Seconds that are added to each grow and each shrink; None: nothing."""
        slow = AS_MEASURED.grow_s * self.time, AS_MEASURED.shrink_s * self.time
        return slow if key.kind == "injected" else None

    def batch(self, key: RunKey) -> list[TraceJob]:
        """The jobs of a run in the paper's seconds, no larger than the cluster."""
        if key.kind == "scaling":
            return self._rigid_jobs()
        jobs = (
            self.published[key.share, key.seed]
            if self.published
            else papers.batch(seed=key.seed, malleable=key.share / 100).jobs
        )
        return [self._fitted(job) for job in jobs[: self.jobs]]

    def problems(self) -> list[str]:
        """The configurations that occur."""
        # of those drawn, batches of a seed have the same problems at every share; of those published, not
        shares = self.shares if self.published else self.shares[:1]
        keys = (RunKey(self.policies[0], share, seed) for share, seed in product(shares, self.seeds))
        names = {job.name for key in keys for job in self.batch(key)}
        return [item.name for item in papers.CONFIGURATIONS if item.name in names]

    def _rigid_jobs(self) -> list[TraceJob]:
        """Each problem on each size; those that take longest come first, so that the nodes are well used."""
        names = set(self.problems())
        chosen = [item for item in papers.CONFIGURATIONS if item.name in names and item.node_s <= self.longest_node_s]
        pairs = sorted(product(chosen, self.sizes), key=lambda pair: -pair[0].node_s / pair[1])
        return [
            TraceJob(
                number,
                0.0,
                item.node_s / nodes,
                papers.BATCH_WALLTIME_S + 2 * item.node_s / nodes,
                nodes,
                name=item.name,
            )
            for number, (item, nodes) in enumerate(pairs, start=1)
        ]

    def _fitted(self, job: TraceJob) -> TraceJob:
        nodes, least, most = (min(count, self.nodes) for count in (job.nodes, job.min_nodes, job.max_nodes))
        return structs.replace(job, nodes=nodes, min_nodes=least, max_nodes=most)

    def node_s(self, job: TraceJob) -> float:
        """Node-seconds that a job takes here: those of its configuration, scaled."""
        return NODE_S[job.name] * self.time

    def walltime_s(self, job: TraceJob) -> float:
        """What is asked for here."""
        return round(job.walltime_s * self.time + START_UP_S, 1)


def _asked_for(job: SimRecord) -> TraceJob:
    """What was submitted, of a published job; a malleable one asked for the most it could use."""
    configuration = configuration_of(*program(job))
    spec = structs.replace(job.spec, name=configuration, submit_s=max(0.0, job.spec.submit_s))
    return TraceJob.of(spec, NODE_S[configuration] / spec.nodes)


def configuration_of(name: str, size: str) -> str:
    """The configuration of a published program and its input: ``Pi`` and ``80000000000`` are ``Pi_8e10``."""
    return f"{name}_{float(size):.2g}".replace("e+", "e") if name == "Pi" else f"{name}_{size}"


CAMPAIGNS: Final[Mapping[Scale, Campaign]] = {
    "tiny": Campaign(
        ("easy", "malleable"),
        (60,),
        (42,),
        jobs=8,
        nodes=8,
        time=0.02,
        injected=(60,),
        sizes=(1, 2, 4, 8),
        longest_node_s=400,
    ),
    "small": Campaign(PAPER, (0, 20, 40, 60, 80, 100), (42, 43, 44), injected=(60, 100), sizes=(1, 2, 4, 8, 16, 32)),
    "full": Campaign(
        (*PAPER, *STRATEGIES),
        (0, 20, 40, 60, 80, 100),
        papers.BATCH_SEEDS,
        injected=(20, 40, 60, 80, 100),
        sizes=(1, 2, 4, 8, 16, 32),
    ),
}


# Problems: the paper's eleven configurations, on nodes that are held to a small share of a core ----------------------
#
# Each configuration keeps its node-seconds, times the scale of time, and so do the ratios between configurations; the
# speed of a node differs between them: tasks of the problem over scaled node-seconds. The kernels are the plain ones
# (no Numba): importing compiled kernels on 300 places a batch would cost more than the batch itself.

PLAIN: Final[Mapping[str, str]] = {"NUMBA_DISABLE_JIT": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Environment of every program: plain kernels, and no threads beside the worker's."""


def emulated(benchmark: str) -> dict[str, str]:
    """The environment of a batch's job: its places, whose nodes are all of this host, load what they need once."""
    return {**PLAIN, "APGAS_PRELOAD": f"glb.runner,benchmarks.harness.run,benchmarks.{benchmark}.bag"}


ARGUMENTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "BC_17": ("bc", "--scale", "8"),
    "BC_18": ("bc", "--scale", "9"),
    "BC_19": ("bc", "--scale", "10"),
    "NQueens_17": ("nqueens", "-n", "11"),
    "NQueens_18": ("nqueens", "-n", "12"),
    "UTS_18": ("uts", "--depth", "8"),
    "UTS_19": ("uts", "--depth", "9"),
    "UTS_20": ("uts", "--depth", "10"),
    "Pi_8e10": ("pi", "--samples", "1.2e6"),
    "Pi_6e11": ("pi", "--samples", "9e6"),
    "Pi_1.2e12": ("pi", "--samples", "1.8e7"),
}
"""By configuration: the benchmark and its problem, where nodes are held to a small rate."""
NODE_S: Final[Mapping[str, float]] = {item.name: item.node_s for item in papers.CONFIGURATIONS}
"""The paper's node-seconds."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A configuration as it was computed here, at full speed, to hold nodes to a rate of it.

    Attributes:
        name: The configuration.
        tasks: Tasks in all.
        core_rate: Tasks per CPU-second of one core at full speed, measured.
        result: What it computes, verified by a sequential run.
        parameters: The problem, as its result file has it.
    """

    name: str
    tasks: int
    core_rate: float
    result: object
    parameters: object

    def share(self, scale: float) -> float:
        """Share of a core that a node uses, if the paper's seconds last ``scale`` seconds here."""
        return self.tasks / (NODE_S[self.name] * scale) / self.core_rate

    def agrees(self, document: Mapping[str, Any]) -> bool:
        """Whether a job's result is that of the sequential run, for the same problem."""
        return bool(document.get("parameters") == self.parameters and document.get("result") == self.result)


def arguments(name: str, *, paced: bool = True) -> tuple[str, ...]:
    """The benchmark and the problem of a configuration: a small one for nodes that are ``paced``, else the paper's."""
    benchmark, option, small = ARGUMENTS[name]
    return benchmark, option, small if paced else name.partition("_")[2]


def calibrate(
    names: Iterable[str], folder: Path, announce: Callable[[str], None] | None = lambda _: None
) -> dict[str, Problem]:
    """Run problems once at full speed, verified, unless that was done before.

    Args:
        names: The configurations; where nodes are not held to a rate, none.
        folder: Where the results are written, and kept.
        announce: Called with a line about what is run; None: nothing is.

    Raises:
        CalibrationError: One of them failed, its result is wrong, or it was not done before and is not to be run.
    """
    problems = {}
    for name in names:
        benchmark, *arguments = ARGUMENTS[name]
        path = folder / f"calibration-{name}.json"
        document = result_of(path)
        if document.get("verified") is not True:
            if announce is None:
                raise CalibrationError(f"{folder} holds no measurement of {name}")
            announce(f"measuring {name} at full speed")
            document = run_benchmark(benchmark, arguments, path, {**PLAIN, "PYTHONPATH": import_path()})
        tasks, result, parameters = (document[key] for key in ("tasks", "result", "parameters"))
        problems[name] = Problem(name, tasks, tasks / document["seconds"], result, parameters)
    return problems


# Sites: nodes emulated on this machine, or hosts ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Site:
    """Where a scheduler's nodes are.

    Attributes:
        hosts: How they are reached; None: they are emulated here.
        paced: Whether a node computes at a rate that is a small part of a core's, so that one machine can emulate many
            and problems are small; else it computes as fast as it can, with all cores, problems of the paper's size.
    """

    hosts: HostsConfig | None = None
    paced: bool = True

    @contextmanager
    def serving(self, config: DaemonConfig) -> Iterator[DaemonThread]:
        """Run a scheduler there; hosts have their own names.

        Raises:
            DaemonError: It cannot start.
        """
        if self.hosts is None:
            with DaemonThread(config) as daemon:
                yield daemon
            return
        with (
            on_hosts(structs.replace(config, nodes=self.hosts.names()), self.hosts) as (there, backend),
            DaemonThread(there, executor=backend.executor, beside=backend.watch) as daemon,
        ):
            yield daemon

    def spoken(self, nodes: int, here_cores: int | None) -> str:
        """For people, after "on"."""
        if self.hosts is None:
            return f"{nodes} nodes emulated on one machine of {here_cores} cores"
        return f"{nodes} hosts{', held to small rates of work' if self.paced else ''}"


HERE = Site()
"""Nodes emulated on this machine."""


# The folder of an experiment: one at a time, and nothing left of a killed one ----------------------------------------

_LOCK: Final = "lock"
_RUNNING: Final = "running.json"
"""Where a run that is going on has its scratch folder, so that what is left of it is found if it is killed."""


@contextmanager
def alone_in(folder: Path, site: Site = HERE) -> Iterator[None]:
    """Keep other experiments out of ``folder``; end first what a killed one has left running, and remove its files.

    Raises:
        DaemonError: Another one runs there.
        OSError: The folder cannot be written.
    """
    with (folder / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "wait for its end, or give another --out"
            raise DaemonError(f"another experiment runs in {folder}", hint) from None
        _end_remains(folder, site)
        yield


@contextmanager
def scratch_in(folder: Path, nodes: int, site: Site = HERE) -> Iterator[Path]:
    """Make a folder for the run of a batch on ``nodes`` nodes; it is removed afterwards."""
    note = folder / _RUNNING
    where = None if site.hosts is None else folder  # hosts see the files of a run there
    with tempfile.TemporaryDirectory(prefix="malleable-runs-", dir=where) as name:
        note.write_text(json.dumps({"scratch": name, "nodes": nodes}), encoding="utf-8")
        try:
            yield Path(name)
        finally:
            note.unlink(missing_ok=True)


def state_of(scratch: Path) -> Path:
    """The state folder of a run's scheduler."""
    return scratch / "state"


def _end_remains(folder: Path, site: Site) -> None:
    note = folder / _RUNNING
    try:
        left: dict[str, Any] = json.loads(note.read_bytes())
        scratch, nodes = Path(left["scratch"]), int(left["nodes"])
    except (OSError, ValueError, KeyError, TypeError):
        note.unlink(missing_ok=True)
        return
    if state_of(scratch).is_dir():
        # A scheduler that takes the killed one's state up finds its jobs, and ends them when it is stopped.
        with (
            suppress(DaemonError),  # as far as one can start there
            site.serving(DaemonConfig(numbered_nodes(nodes), state_dir=state_of(scratch))),
        ):
            pass
    shutil.rmtree(scratch, ignore_errors=True)
    note.unlink(missing_ok=True)
