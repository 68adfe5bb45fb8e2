"""What is loaded before somebody who waits gets what he waits for: ``main`` to begin, a newcomer to join.

Loading is most of what a start costs. These sets may become smaller; whatever is added makes every start longer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support import PATIENCE_S, Leftovers, mpirun

from apgas.runtime.validation import ENV_VALIDATE

PROGRAMS = Path(__file__).parent / "programs"
DEPENDENCIES = "import mpi4py; mpi4py.rc.initialize = False; import mpi4py.MPI, msgspec"


def names(text: str) -> set[str]:
    return set(text.split())


def within(package: str, text: str) -> set[str]:
    return {package, *(f"{package}.{name}" for name in names(text))}


# hmac and hashlib come with the first connection, which may be there already
HEAVY = (
    names("argparse asyncio cloudpickle concurrent.futures.thread dataclasses dis email inspect ipaddress")
    | names("importlib.metadata json multiprocessing numba numpy pathlib random runpy secrets shlex shutil ssl")
    | names("statistics subprocess tempfile unittest urllib.parse uuid")
)
BEFORE_JOINING = (
    within("apgas", "errors")
    | within("apgas.runtime", "environment joining")
    | within("apgas.transport", "base unix_socket")
)
AFTER_MAIN_BEGINS = (
    within("apgas.core", "order resilient resize")
    | within("apgas.malleability", "communicator handler orders")
    | within("apgas.runtime", "by_value calibration collectives malleable refs resizing spawning")
    | within("apgas.transport", "communicators engine local mpi")
    | within("apgas.testing", "handlers")
    | {"apgas.doctor"}
) - {"apgas.core", "apgas.malleability", "apgas.runtime", "apgas.transport"}
MOST_BEFORE_MAIN = 70
"""Modules of ours; each takes about 0.2 ms."""


def loaded_by(code: str) -> set[str]:
    """The modules that a process has loaded after ``code``."""
    code = f"{code}\nimport sys; names = sorted(sys.modules)\nimport json; print(json.dumps(names))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return set(json.loads(done.stdout))


def of_ours(loaded: set[str]) -> set[str]:
    return {name for name in loaded if name.partition(".")[0] in ("apgas", "glb")}


def test_a_newcomer_joins_with_little() -> None:
    loaded = loaded_by("import apgas.runtime.joining")
    assert of_ours(loaded) <= BEFORE_JOINING
    assert not loaded & (HEAVY | {"logging", "msgspec", "threading"})


def test_main_begins_without_what_it_may_not_need(leftovers: Leftovers) -> None:
    job = mpirun(2, [PROGRAMS / "loaded.py"], env={ENV_VALIDATE: ""})  # the validator loads all that it checks
    assert job.rc == 0, job.err
    loaded, in_the_end = (set(json.loads(line)) for line in job.out.splitlines())
    assert not loaded & AFTER_MAIN_BEGINS
    assert not in_the_end & AFTER_MAIN_BEGINS, "to end a program that was never resized takes nothing of that either"
    assert len(of_ours(loaded)) <= MOST_BEFORE_MAIN
    # our dependencies load some by themselves, and more of them where typing_extensions is installed
    assert not (loaded - loaded_by(DEPENDENCIES)) & HEAVY
    leftovers.check(job.mark)
