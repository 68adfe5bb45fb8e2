"""What all tests share: long mode, data, reproducible randomness, and the check that nothing is left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from support import ROOT, Leftovers
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# A shell that runs the tests in the background has SIGINT ignored; the jobs would inherit that, and none could be
# interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# An installation older than the entry point of the plugin knows its fixture, too.
pytest_plugins = ["apgas.testing.pytest_plugin", "pytester"]

# The default suite must not depend on luck: the same examples every time. `--hypothesis-profile explore` looks further
# and prints how to repeat what it finds.
settings.register_profile("default", derandomize=True, deadline=None, print_blob=True)
settings.register_profile(
    "explore", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
# Says that a test fails, and not how it fails most simply: for mutants (tests/stress/mutants.py).
settings.register_profile(
    "fail-fast", derandomize=True, deadline=None, report_multiple_bugs=False, phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("default")

QUICK_FOLDERS = ("unit", "property", "conformance", "house")
"""Tests in these folders are the quick tier, except those marked full; of other folders, those marked essential are."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the long mode and the quick one."""
    parser.addoption("--runslow", action="store_true", help="also run the tests marked slow")
    parser.addoption("--quick", action="store_true", help="run the quick tier only: see CONTRIBUTING.md")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the long tests out of the default run, and all but the quick tier out of the quick one."""
    left_out = [item for item in items if is_left_out(item, config)]
    config.hook.pytest_deselected(items=left_out)
    kept = set(items) - set(left_out)
    items[:] = [item for item in items if item in kept]


def is_left_out(item: pytest.Item, config: pytest.Config) -> bool:
    """Whether a test is not part of this run."""
    if "slow" in item.keywords and not config.getoption("--runslow"):
        return True
    if not config.getoption("--quick"):
        return False
    in_quick_folder = any(ROOT / "tests" / folder in item.path.parents for folder in QUICK_FOLDERS)
    return "full" in item.keywords or not (in_quick_folder or "essential" in item.keywords)


EMULATED = tuple(f"tests/mpiexec/test_{what}" for what in ("harvest", "hosts", "slurm"))
SIMULATING = tuple(f"tests/mpiexec/test_{what}" for what in ("compiled_core", "experiments_small"))
_OF_THE_RUNTIME = (
    "arrays", "chaos", "documented", "environment", "futures", "glb", "hostile", "launch", "openmpi", "plain", "plane",
    "runtime",
)  # fmt: skip
OF_THE_RUNTIME = tuple(f"tests/mpiexec/test_{what}" for what in _OF_THE_RUNTIME)
"""The real jobs of the runtime, which take about as long as those of the benchmarks and of the scheduler together."""


class RealJobsTogether(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Two processes run the real jobs of this host, each one after the other; other processes run the other tests.

    Those are spread file by file, but that one process runs all that emulates several hosts, or Slurm: such tests wait
    more than they compute, and each takes several network namespaces. Long simulations that are started as commands are
    spread, too: they are no real jobs, and one process would be left with them when the others have ended.

    Real jobs wait for half of their time, for starts and for what they are to notice: so there is one process more than
    there are cores. With one line of real jobs that did not help, for the line took longer then than all other tests.

    The files come in the order in which they are collected, in which many short ones are the last: so all
    processes end at about the same time. By their numbers of tests, as by default, some of the longest would be last.

    Marks of groups (`--dist loadgroup`) have no effect with pytest 9.2 and xdist 3.8.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file.startswith(EMULATED):
            return "emulated hosts"
        if file.startswith("tests/mpiexec/") and not file.startswith(SIMULATING):
            return "runtime" if file.startswith(OF_THE_RUNTIME) else "benchmarks and scheduler"
        return file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """What `-n auto` means where real jobs are spread."""
    return len(os.sched_getaffinity(0)) + 1 if config.getoption("dist") == "loadscope" else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> RealJobsTogether | None:
    """What `--dist loadscope` means here."""
    if config.getoption("dist") != "loadscope":
        return None
    config.option.loadscopereorder = False
    return RealJobsTogether(config, log)


_SUMMARY = pytest.StashKey[list[str]]()
_OF_A_WORKER = "summary"


@pytest.fixture
def summary(request: pytest.FixtureRequest) -> list[str]:
    """Lines that are shown at the end of the run, whether the test passes or not: what simulations have reached."""
    return request.config.stash.setdefault(_SUMMARY, [])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In one of several processes: hands what the simulations have reached over to the one that shows it."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output[_OF_A_WORKER] = session.config.stash.get(_SUMMARY, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    """Takes over what simulations in another process have reached; one that broke down hands nothing over."""
    reached = getattr(node, "workeroutput", {}).get(_OF_A_WORKER, [])
    node.config.stash.setdefault(_SUMMARY, []).extend(reached)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Shows what the simulations have reached."""
    if lines := config.stash.get(_SUMMARY, []):
        terminalreporter.section("what the simulations have reached")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def environment_unchanged() -> Iterator[None]:
    """Fails a test that leaves the environment changed: the jobs that later tests start would inherit that."""
    before = dict(os.environ)
    yield
    after = dict(os.environ)
    os.environ.clear()
    os.environ.update(before)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert not changed - {"PYTEST_CURRENT_TEST"}, f"the test left these variables changed: {sorted(changed)}"


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the papers' reference data and workload traces.

    Tests that need it are skipped without it, unless MALLEABLE_REQUIRE_DATA is set.
    """
    folder = Path(os.environ.get("MALLEABLE_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        why = f"no reference data at {folder}; set MALLEABLE_DATA to its folder"
        if os.environ.get("MALLEABLE_REQUIRE_DATA"):
            pytest.fail(why)
        pytest.skip(why)
    return folder


@pytest.fixture
def leftovers() -> Iterator[Leftovers]:
    """Fails the test if a job left a process (give its mark to `check`), a segment or a temporary file."""
    watch = Leftovers()
    yield watch
    watch.check()
