"""What can be counted of the way the project is built: `python tests/house/measure.py` prints a table.

Each count has a bound, which `test_house.py` enforces and which is lowered when the count has fallen, and a goal.
Times are printed for information and bound nothing. The script reads the checkout that it lies in, and runs programs in
the project's environment for two of the counts.
"""

from __future__ import annotations

import ast
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("apgas", "glb", "benchmarks", "scheduler_bridge")
DEADLINE_S = 120.0
STARTS = 5
VERSION = "from scheduler_bridge.cli import main; main(['--version'])"
BARE = "import typer, rich.console, rich.table, msgspec"
LOADED = f"""
import sys
try:
    {VERSION}
except SystemExit:
    pass
print(*(name for name in sys.modules if name.split(".")[0] in {PACKAGES!r}))
"""

JOB_WORD = re.compile(r"Job([A-Z]|$)")
NOT_A_DESCRIPTION = {
    "OfJob": "what events and effects of the core have in common",
    "JobSubmitted": "an event of the core",
    "JobStarted": "an event of the core",
    "JobEnded": "an event of the core",
    "JobInterrupted": "an event of the core",
    "JobWithdrawn": "an event of the core",
    "JobMoved": "an event of the core",
    "CancelJob": "an event of the core",
    "StartJob": "an effect of the core",
    "KillJob": "an effect of the core",
    "JobState": "the names of a job's states",
    "JobFile": "a TOML document that becomes a request",
    "JobInfo": "an allocation of Slurm, which the scheduler runs in",
    "JobServer": "a server",
    "JobLink": "a connection",
    "JobOrders": "the exchange of orders with jobs",
    "JobRun": "a process that runs one",
    "FakeJob": "a process that behaves like one",
}
"""Classes of the scheduler with the word in their name that do not say what a job is, each with what it is instead."""
DESCRIPTIONS_BY_OTHER_NAMES = ("SimRecord",)

ADDED = {
    "apgas.futures, an executor that grows and shrinks": (8, 2_100),
    "apgas.futures.progress, how far a map of it is": (1, 155),
    "apgas.launch, in place of hydra, with agents on other hosts and places without MPI": (6, 2_062),
    "apgas.runtime.children, places of plain Python without MPI": (1, 250),
    "apgas.runtime.forkserver, places that are forks": (1, 625),
    "apgas.arrays, arrays whose rows follow the places, constant ones while steps go on": (6, 1_813),
    "benchmarks.arrays, programs with arrays beside rigid twins, steps beside copies, moves beside bare ones": (3, 555),
    "operations on arrays by few light messages, and updates that place 0 does not wait for": (2, 866),
    "handlers of libraries that accompany another one": (0, 125),
    "the replay of published runs out of sample and job by job; remarks in results.json": (0, 95),
    "glb.core.backup, computations that survive the loss of places": (1, 725),
    "backups that are due by seconds of work": (0, 20),
    "apgas.run(resilient=True)": (0, 30),
    "apgas.core.relay, reports, results, counts, traces and news that go by a tree, also where places die": (1, 920),
    "benchmarks.scaling.per_place, what a place more costs those above it": (1, 125),
    "glb.books, programs that are started again when place 0 is killed": (1, 420),
    "jobs of a scheduler that are started again when place 0 is killed": (0, 240),
    "glb.search, skeletons of tree search, and their check": (1, 690),
    "scheduler_bridge.simulate and Workload, the simulator as a library": (1, 460),
    "glb.ArrayBag, bags of which a program writes the kernel alone": (1, 205),
    "benchmarks.harness.machine_code, kernels that are loaded without the compiler": (1, 550),
    "benchmarks.executors, an executor beside other pools": (3, 360),
    "benchmarks.survival, computations whose places are killed": (4, 595),
    "malleable compare, policies beside one another": (2, 710),
    "nodes that are kept from jobs while one runs there that the log has lost": (0, 200),
    "nodes of Slurm that are harvested until it takes them back": (1, 450),
    "a scheduler that is lent such nodes, and companions on nodes like the job's": (1, 520),
    "benchmarks.harvest, which takes them back again and again": (1, 440),
    "the gate of v1 for real programs: addresses, names, late answers, variables of scripts": (0, 400),
    "jobs that size themselves, loops with arrays too, and benchmarks.sizing": (4, 1_619),
    "the penalty policy with jobs that age, and its experiment with and without": (0, 65),
    "companion jobs of Slurm that end by themselves, their books and status, limits by name": (1, 570),
    "benchmarks.scaling cores, on the cores of a machine beside copies": (1, 225),
    "an empty finish over 256 places, beside a tree of bare processes": (0, 100),
    "the 2024 paper's own batches as real jobs": (0, 150),
    "benchmarks.bc.rows, sixteen sources at once, and centrality measured on a directed graph": (1, 230),
    "the kernel of centrality, loaded without the compiler": (1, 50),
    "one rule for the claims of all papers, orders of all policies, resizes and early gains": (0, 260),
    "Cori's logs in the studies, jobs that end in the window, claims from both baselines": (0, 75),
    "where the results of an experiment come from, and reports of what is kept": (0, 140),
}
"""Features that are younger than the goals for files and lines, with the files and lines that each may take."""


@dataclass(frozen=True)
class Count:
    """A number, the bound that it was given when it last fell, its goal, and the names of what it counts."""

    title: str
    value: int
    bound: int
    goal: int
    what: tuple[str, ...] = ()


def counts() -> list[Count]:
    """All that is bounded."""
    modules = product_modules()
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in modules.values())
    at_import = circles(import_graph(modules, for_types=False))
    for_types = circles(import_graph(modules, for_types=True))
    loaded = modules_of_version()
    files = files_of_a_call()
    jobs = descriptions_of_a_job(modules)
    more_files, more_lines = (sum(column) for column in zip(*ADDED.values(), strict=True))
    # The bounds of files and lines leave some room for additions; those of the others leave next to none.
    return [
        Count("files of product code", len(modules), 380 + more_files, 380 + more_files),
        Count("lines of product code", lines, 74_390 + more_lines, 70_000 + more_lines),
        Count("circles among imports", len(at_import), 0, 0, at_import),
        Count("circles, with TYPE_CHECKING", len(for_types), 1, 2, for_types),
        Count("files of an async_at with finish", len(files), 13, 16, files),
        Count("modules of malleable --version", len(loaded), 6, 25, loaded),
        Count("types that describe a job", len(jobs), 9, 6, jobs),
    ]


def product_modules() -> dict[str, Path]:
    """The files of the packages, by module name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def import_graph(modules: Mapping[str, Path], *, for_types: bool) -> dict[str, set[str]]:
    """Which module imports which while it is loaded; with `for_types`, what only type checkers follow, too."""
    graph = {}
    for name, path in modules.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        body = ast.parse(path.read_text(encoding="utf-8")).body
        graph[name] = set(imported(body, package, modules, for_types)) - {name}
    return graph


def imported(body: list[ast.stmt], package: str, modules: Mapping[str, Path], for_types: bool) -> Iterator[str]:
    """The project's modules that the statements import. Functions are not looked into: they run later."""
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names if alias.name in modules)
        elif isinstance(statement, ast.ImportFrom):
            base = statement.module or ""
            if statement.level:
                above = package.split(".")[: len(package.split(".")) - statement.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            names = (f"{base}.{alias.name}" for alias in statement.names)
            yield from (name if name in modules else base for name in names if name in modules or base in modules)
        elif isinstance(statement, ast.If):
            if for_types or "TYPE_CHECKING" not in ast.unparse(statement.test):
                yield from imported(statement.body, package, modules, for_types)
            yield from imported(statement.orelse, package, modules, for_types)
        elif isinstance(statement, ast.Try):
            for part in (statement.body, statement.orelse, statement.finalbody):
                yield from imported(part, package, modules, for_types)
            for handler in statement.handlers:
                yield from imported(handler.body, package, modules, for_types)
        elif isinstance(statement, ast.With):
            yield from imported(statement.body, package, modules, for_types)


def circles(graph: Mapping[str, set[str]]) -> tuple[str, ...]:
    """The largest sets of modules of which each can be reached from each other one, a text each."""
    reach = {name: reached(graph, name) for name in graph}
    found = {frozenset(other for other in reach[name] if name in reach[other]) for name in graph}
    return tuple(sorted(" ".join(sorted(group)) for group in found if group))


def reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """What can be reached over one arrow or more."""
    seen: set[str] = set()
    ahead = [start]
    while ahead:
        new = graph[ahead.pop()] - seen
        seen |= new
        ahead += new
    return seen


def descriptions_of_a_job(modules: Mapping[str, Path]) -> tuple[str, ...]:
    """Classes of the scheduler that say what a job is: see NOT_A_DESCRIPTION for what is left out."""
    found = []
    for name, path in modules.items():
        if name.startswith("scheduler_bridge."):
            body = ast.parse(path.read_text(encoding="utf-8")).body
            classes = (statement for statement in body if isinstance(statement, ast.ClassDef))
            found += [f"{name}.{defined.name}" for defined in classes if is_description(defined)]
    return tuple(sorted(found))


def is_description(defined: ast.ClassDef) -> bool:
    """Whether a class holds data about one job, by its name, its base and that it is no error."""
    return defined.name in DESCRIPTIONS_BY_OTHER_NAMES or (
        JOB_WORD.search(defined.name) is not None
        and not defined.name.startswith("_")
        and not any(ast.unparse(base).endswith(("Error", "Exception", "Protocol")) for base in defined.bases)
        and defined.name not in NOT_A_DESCRIPTION
    )


def modules_of_version() -> tuple[str, ...]:
    """The project's modules that the shortest command loads."""
    return tuple(sorted(run([sys.executable, "-c", LOADED]).splitlines()[-1].split()))


def files_of_a_call() -> tuple[str, ...]:
    """The files that one `async_at` within a `finish` runs through, on two real places."""
    mpiexec = Path(sysconfig.get_path("scripts")) / "mpiexec"
    out = run([str(mpiexec), "-n", "2", sys.executable, str(Path(__file__).with_name("journey.py"))])
    return tuple(json.loads(out.splitlines()[-1])["files"])


def start_times() -> tuple[float, float]:
    """The medians of the seconds of CPU of `malleable --version` and of importing the libraries it is made with."""
    version, bare = zip(*((cpu_of(VERSION), cpu_of(BARE)) for _ in range(STARTS)), strict=True)
    return statistics.median(version), statistics.median(bare)


def cpu_of(program: str) -> float:
    """The seconds of CPU, in user and in system mode, of a Python process that runs the program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run([sys.executable, "-c", program])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def run(command: list[str]) -> str:
    """What a command prints.

    Raises:
        SystemExit: It fails or does not end.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE_S, env=environment, cwd=ROOT, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def main() -> None:
    """Prints the table; with `-v`, what is counted, too."""
    all_counts = counts()
    print(f"{'measure':34}{'now':>8}{'bound':>8}{'goal':>8}")
    for count in all_counts:
        print(f"{count.title:34}{count.value:8,}{count.bound:8,}{count.goal:8,}")
    version, bare = start_times()
    print(f"CPU of malleable --version: {version:.3f} s, {version / bare:.2f} times a bare start (goal 1.5; no bound)")
    if "-v" in sys.argv[1:]:
        for count in all_counts:
            if count.what:
                print(f"\n{count.title}:", *count.what, sep="\n  ")


if __name__ == "__main__":
    main()
