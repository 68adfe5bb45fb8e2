"""The tests that CPython and mpi4py have of their executors, run on ours.

They are not copied. CPython's come with the interpreter; where that has none, Debian's package of them is downloaded,
and so is the sdist of mpi4py. `programs/futures_peers.py` lists those that do not apply, with the reasons.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import NoReturn

import pytest
from support import PATIENCE_S, ROOT, Leftovers, python_run
from support.mpi import IN_PLACES

PEERS = Path(__file__).parent / "programs" / "futures_peers.py"


def missing(what: str) -> NoReturn:
    """Skip the test, unless MALLEABLE_REQUIRE_PEERS is set."""
    if os.environ.get("MALLEABLE_REQUIRE_PEERS"):
        pytest.fail(what)
    pytest.skip(what)


def run(whose: str, module: str, folder: Path, leftovers: Leftovers) -> int:
    """Run them; return how many there were."""
    job = python_run([PEERS, whose, module], env={"PYTHONPATH": f"{ROOT}:{IN_PLACES}:{folder}"})
    assert job.rc == 0, f"{job.out}\n{job.err}"
    leftovers.check(job.mark)
    ran = re.search(r"^(\d+) of theirs ran", job.out, flags=re.MULTILINE)
    assert ran is not None, job.out
    return int(ran[1])


def download(command: list[str | Path], folder: Path) -> None:
    """Run a command that downloads something into a folder."""
    if which(command[0]) is None:
        missing(f"there is no {command[0]}")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    if done.returncode:
        missing(f"{command} says {done.stderr}")


def test_those_of_cpython(tmp_path: Path, leftovers: Leftovers) -> None:
    module = "test.test_concurrent_futures"
    if find_spec(module) is None:
        series = "python{}.{}".format(*sys.version_info)
        download(["apt-get", "download", f"lib{series}-testsuite"], tmp_path)
        download(["dpkg", "-x", *tmp_path.glob("*.deb"), "."], tmp_path)
        module = "cpython_executors"
        (tmp_path / f"{module}.py").symlink_to(tmp_path / "usr/lib" / series / "test/test_concurrent_futures.py")
    assert run("cpython", module, tmp_path, leftovers) >= 20


def test_those_of_mpi4py(tmp_path: Path, leftovers: Leftovers) -> None:
    name = f"mpi4py-{version('mpi4py')}"
    sources = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "mpi4py"]
    download([*sources, name.replace("-", "==")], tmp_path)
    with tarfile.open(tmp_path / f"{name}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "mpi4py_executors.py").symlink_to(tmp_path / name / "demo" / "futures" / "test_futures.py")
    assert run("mpi4py", "mpi4py_executors", tmp_path, leftovers) >= 25
