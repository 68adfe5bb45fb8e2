"""Compiled kernels always find a folder, and never one that belongs to someone else."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support import PATIENCE_S

from benchmarks.harness import jit

SOURCE = Path(jit.__file__).parents[2]


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine on which only the temporary folder can be written."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")  # so that it is restored; setup_cache sets it by itself
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setattr(jit, "is_writable", lambda folder: False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_private_temporary_folder_is_the_last_resort(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jit.setup_cache()
    folder = Path(os.environ["NUMBA_CACHE_DIR"])
    assert folder.parent == nowhere
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_of_someone_else_is_not_used(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    mine = os.getuid()
    answers = iter((mine, mine + 1))  # its name, then its owner
    monkeypatch.setattr(os, "getuid", lambda: next(answers))
    jit.setup_cache()
    assert os.environ["NUMBA_CACHE_DIR"] == ""


def test_a_choice_of_the_user_stands(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/chosen")
    jit.setup_cache()
    assert os.environ["NUMBA_CACHE_DIR"] == "/chosen"


def test_a_writable_source_folder_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(jit, "is_writable", lambda folder: True)
    jit.setup_cache()
    assert "NUMBA_CACHE_DIR" not in os.environ


def test_the_installed_name_keeps_a_cache_of_its_own_in_a_checkout(tmp_path: Path) -> None:
    # compiled code names its modules: what `benchmarks` has compiled would load a user's own package of that name
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").write_text("raise SystemExit('a package of the user')")
    words = "-c", "import os, apgas.benchmarks.uts.kernel as it; print(it.__name__, os.environ['NUMBA_CACHE_DIR'])"
    environment = {name: text for name, text in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=environment | {"PYTHONPATH": str(SOURCE)}, capture_output=True,
        text=True, check=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.stdout.split() == ["apgas.benchmarks.uts.kernel", str(SOURCE / "apgas" / "benchmarks" / "__pycache__")]


def test_what_is_not_there_yetis_writable_where_its_parent_is(tmp_path: Path) -> None:
    assert jit.is_writable(tmp_path / "a" / "b")
    (tmp_path / "file").write_text("")
    assert not jit.is_writable(tmp_path / "file" / "below")


def test_nothing_heavy_is_imported_before_place_0_parses() -> None:
    script = (
        "import sys, benchmarks.harness.app, benchmarks.pi.__main__, benchmarks.bc.__main__\n"
        "sys.exit(','.join(m for m in ('numpy', 'numba', 'rich', 'typer', 'mpi4py') if m in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=SOURCE, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not jit.has_numba(), reason="no numba")
def test_a_second_place_loads_what_the_first_compiled(tmp_path: Path) -> None:
    script = (
        "from benchmarks.bc.vector import accumulate\nfrom benchmarks.pi.kernel import count_hits\n"
        "for function in (accumulate, count_hits):\n"
        "    print(sum(function.stats.cache_hits.values()), sum(function.stats.cache_misses.values()))"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run(
            [sys.executable, "-c", script], cwd=SOURCE, env=environment, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert runs == [["0", "1"] * 2, ["1", "0"] * 2]


@pytest.mark.skipif(not jit.has_numba(), reason="without numba nothing is compiled")
def test_a_full_cache_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    """It was a traceback of numba."""
    program = (
        "import errno; from numba.core import caching\n"
        "def full(self, name, data): raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "caching.IndexDataCacheFile._save_data = full\n"
        "from benchmarks.harness.app import main; main('benchmarks.nqueens.command')\n"
    )
    variables = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", program, "-n", "6"],
        env=variables, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert f"numba keeps compiled code in {tmp_path / 'cache'}: make room there" in done.stderr
