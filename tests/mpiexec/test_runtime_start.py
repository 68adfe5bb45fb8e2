"""What is loaded before somebody who waits gets what he waits for: ``main`` to begin, a newcomer to join.

Loading is most of what a start costs. These sets may become smaller; whatever is added makes every start longer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support import Leftovers, mpirun

PROGRAMS = Path(__file__).parent / "programs"
DEPENDENCIES = "import mpi4py; mpi4py.rc.initialize = False; import mpi4py.MPI, msgspec"


def names(text: str) -> set[str]:
    return set(text.split())


def within(package: str, text: str) -> set[str]:
    return {package, *(f"{package}.{name}" for name in names(text))}


HEAVY = (
    names("argparse asyncio cloudpickle concurrent.futures.thread dataclasses dis email hashlib hmac inspect ipaddress")
    | names("importlib.metadata json multiprocessing numba numpy pathlib random runpy secrets shlex shutil ssl")
    | names("statistics subprocess tempfile unittest urllib.parse uuid")
)
BEFORE_JOINING = (
    within("apgas", "errors")
    | within("apgas.runtime", "arrival environment library loading mpis newcomer reach segments")
    | within("apgas.transport", "base near")
)
BEFORE_MAIN = (
    BEFORE_JOINING - {"apgas.runtime.newcomer"}
    | within("apgas.core", "cancel effects finish identity membership messages place references")
    | within("apgas.malleability", "")
    | within("apgas.runtime", "calls codec context counting current driver executor functions handles interrupts")
    | within(
        "apgas.runtime",
        "lifetime logs main_module members naming no_more objects orphans outputs process program quick",
    )
    | within("apgas.runtime", "process program quick resilience running trace validation")
    | within(
        "apgas.transport", "auth channel connector delivery door far forks incoming loop onloop peers poller shared tcp"
    )
    | within("apgas.transport", "poller shared tcp timers watch wire")
)


def loaded_by(code: str) -> set[str]:
    """The modules that a process has loaded after ``code``."""
    code = f"{code}\nimport sys; names = sorted(sys.modules)\nimport json; print(json.dumps(names))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(done.stdout))


def of_ours(loaded: set[str]) -> set[str]:
    return {name for name in loaded if name.partition(".")[0] in ("apgas", "glb")}


def test_a_newcomer_joins_with_little() -> None:
    loaded = loaded_by("import apgas.runtime.newcomer")
    assert of_ours(loaded) <= BEFORE_JOINING
    assert not loaded & (HEAVY | {"logging", "msgspec", "threading"})


def test_main_begins_without_what_it_may_not_need(leftovers: Leftovers) -> None:
    job = mpirun(2, [PROGRAMS / "loaded.py"])
    assert job.rc == 0, job.err
    loaded = set(json.loads(job.out))
    assert of_ours(loaded) <= BEFORE_MAIN
    # our dependencies load some by themselves, and more of them where typing_extensions is installed
    assert not (loaded - loaded_by(DEPENDENCIES)) & HEAVY
    leftovers.check(job.mark)
