"""What the wheel installs, under which names, and what an installation without extras says."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support import PATIENCE_S

ROOT = Path(__file__).parents[2]
OWN = "raise SystemExit('a package of the user')"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, unpacked; hatchling needs no network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=PATIENCE_S)
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        names = archive.namelist()
        archive.extractall(folder / "installed")
    assert len(names) == len(set(names))
    return folder / "installed"


def python(words: list[str], wheel: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a Python that knows the wheel, and not this checkout, in a folder with packages of the user's."""
    for name in ("benchmarks", "launch"):
        (cwd / name).mkdir()
        (cwd / name / "__init__.py").write_text(OWN)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (cwd, wheel)))}
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def test_the_wheel_brings_no_name_that_a_user_is_likely_to_have(wheel: Path) -> None:
    found = {path.name for path in wheel.iterdir() if not path.name.endswith(".dist-info")}
    assert found == {"apgas", "glb", "scheduler_bridge"}


def test_the_wheel_has_all_of_the_benchmarks(wheel: Path) -> None:
    here, there = ROOT / "benchmarks", wheel / "apgas" / "benchmarks"
    ours = {path.relative_to(here) for end in ("*.py", "*.c") for path in here.rglob(end)}
    assert ours == {path.relative_to(there) for end in ("*.py", "*.c") for path in there.rglob(end)}
    assert not list(there.rglob("*.nb?")), "nor what numba has compiled here"


def test_benchmarks_import_one_another_by_whatever_name_they_have() -> None:
    said = [f"{path}:{number}" for path in (ROOT / "benchmarks").rglob("*.py")
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            if line.lstrip().startswith(("from benchmarks", "import benchmarks"))]  # fmt: skip
    assert not said


def test_installed_benchmarks_do_not_care_about_a_folder_of_the_users(wheel: Path, tmp_path: Path) -> None:
    line = (
        "import apgas.benchmarks.harness.jit as jit; jit.has_numba = lambda: False\n"
        "import apgas.benchmarks.uts.command as uts; tree = uts.tree_of(5, None, None, None)\n"
        "print(uts.__file__, uts.benchmark_of(tree).expected() == tree.known_nodes())"
    )
    done = python(["-c", line], wheel, tmp_path)
    assert done.stdout.split() == [str(wheel / "apgas" / "benchmarks" / "uts" / "command.py"), "True"], done.stderr


def test_help_names_the_benchmark_as_it_was_called(wheel: Path, tmp_path: Path) -> None:
    done = python(["-m", "apgas.benchmarks.uts", "--help"], wheel, tmp_path)
    assert "Usage: python -m apgas.benchmarks.uts" in done.stdout, done.stderr
    assert "mpiexec -n 4 python -m apgas.benchmarks.uts" in done.stdout


def hiding(*names: str) -> str:
    """A program's first lines: these packages are not installed."""
    return f"""
import sys
class Rest:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.partition('.')[0] in {names!r} else self.finder.find_spec(name, path, target)
sys.meta_path[:] = map(Rest, sys.meta_path)
"""


def said_without(names: tuple[str, ...], program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", hiding(*names) + program],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 1
    return done.stderr.splitlines()


@pytest.mark.parametrize("missing", ["typer", "rich", "platformdirs", "mypy_extensions"])
def test_malleable_without_its_extra_says_what_to_install(missing: str) -> None:
    said = said_without((missing,), "import scheduler_bridge.cli; scheduler_bridge.cli.main(['doctor'])")
    assert said == [
        f"malleable: {missing} is missing: this is an installation without the extra 'bridge'",
        f'install it: {sys.executable} -m pip install "malleable-apgas[all]"',
    ]


@pytest.mark.parametrize(
    "module",
    [
        *(f"benchmarks.{name}" for name in ("uts", "kernels", "balance", "overheads", "scaling", "simulator")),
        "scheduler_bridge.demo",
    ],
)
def test_programs_without_the_extras_say_what_to_install(module: str) -> None:
    program = f"import runpy; sys.argv[1:] = ['--help']; runpy.run_module('{module}', run_name='__main__')"
    said = said_without(("typer", "rich"), program)
    assert said[0].startswith(("the package typer is missing", "the package rich is missing"))
    assert said[1:] == [f'install them: {sys.executable} -m pip install "malleable-apgas[all]"']


def test_without_mpi_a_program_says_what_to_install() -> None:
    program = """
import mpi4py, apgas
class NoMpi:
    def find_spec(self, name, path=None, target=None):
        if name == 'mpi4py.MPI':
            raise RuntimeError('cannot load MPI library\\nlibmpi.so: cannot open shared object file')
sys.meta_path.insert(0, NoMpi())
apgas.run(print, 'never')
"""
    said = said_without((), program)
    assert said[-3:] == [
        "apgas.errors.UsageError: mpi4py finds no MPI library that it can use: cannot load MPI library",
        f'install one beside it: {sys.executable} -m pip install "malleable-apgas[mpi]"',
        "or name that of this machine: MPI4PY_LIBMPI=/path/to/libmpi.so",
    ]
