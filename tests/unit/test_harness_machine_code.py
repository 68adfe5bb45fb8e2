"""Kernels that are kept as machine code do what numba's do, and nothing is loaded that could be another's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support import PATIENCE_S

from benchmarks.harness import machine_code
from benchmarks.pi import reference

pytest.importorskip("numba", reason="numba is not installed")
pytestmark = pytest.mark.skipif(machine_code._key("benchmarks.pi.kernel") is None, reason="not for this machine")

SOURCE = Path(machine_code.__file__).parents[2]
ALL = """
import sys
from benchmarks.bc import check
from benchmarks.bc.command import Generated, sequential
from benchmarks.nqueens import kernel as queens
from benchmarks.pi.bag import count_span
from benchmarks.synthetic.work import load_kernel
from benchmarks.uts import kernel, problems
from benchmarks.uts.tree import Tree
import numpy as np
work = load_kernel()
print(problems.run_kernel(Tree(9)), problems.run_kernel(problems.SAMPLES["T3"]), kernel.NAME)
print(queens.run_kernel(9), queens.NAME, count_span(0, 50000, 7), work.spin(3, 1000))
lengths = np.arange(1 << 10, dtype=np.uint64)
print(*(int(number) for number in work.spin_range(0, 500, 3, lengths)))
print(sequential(Generated(7, 2)).totals.tolist(), check.inner_vertices(Generated(7, 2).graph()))
print("numba" in sys.modules)
"""


def run(code: str, folder: Path) -> list[str]:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=SOURCE, env=environment, capture_output=True, text=True, check=False,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_kernels_without_the_compiler_find_the_same(tmp_path: Path) -> None:
    *compiled, with_numba = run(ALL, tmp_path)
    *loaded, without = run(ALL, tmp_path)
    assert loaded == compiled
    assert compiled[0].startswith("1031269 4112897 numba")
    assert (with_numba, without) == ("True", "False")


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(cache))
        machine_code.load_kernels("benchmarks.pi.kernel")
    folder = cache / "malleable-apgas-kernels"
    assert folder.stat().st_mode & 0o777 == 0o700
    return folder


@pytest.fixture
def kept(compiled_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which the kernel of Pi is kept."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    folder = shutil.copytree(compiled_once, tmp_path / "malleable-apgas-kernels")
    yield folder
    folder.chmod(0o700)


def loaded_without_numba() -> bool:
    kernels = machine_code.load_kernels("benchmarks.pi.kernel")
    assert kernels.count_hits(0, 50, 7) == reference.count_hits(0, 50, 7)
    return isinstance(kernels, SimpleNamespace)


def image(folder: Path) -> Path:
    (found,) = folder.glob("benchmarks.pi.kernel-*")
    return found


def test_what_is_kept_is_loaded(kept: Path) -> None:
    assert loaded_without_numba()
    assert image(kept).stat().st_mode & 0o777 == 0o600


def test_what_others_can_write_is_not_loaded(kept: Path) -> None:
    image(kept).chmod(0o620)
    assert not loaded_without_numba()
    assert loaded_without_numba(), "it was replaced"
    kept.chmod(0o770)
    assert not loaded_without_numba()


def test_what_belongs_to_someone_else_is_not_loaded(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert not loaded_without_numba()


def test_a_link_is_not_followed(kept: Path) -> None:
    there = image(kept)
    there.rename(kept / "elsewhere")
    there.symlink_to(kept / "elsewhere")
    assert not loaded_without_numba()


@pytest.mark.parametrize("damage", ["cut off", "changed", "empty"])
def test_what_is_damaged_is_made_anew(kept: Path, damage: str) -> None:
    content = image(kept).read_bytes()
    damaged = {"cut off": content[:-1], "changed": content[:-1] + bytes([content[-1] ^ 1]), "empty": b""}[damage]
    image(kept).write_bytes(damaged)
    assert not loaded_without_numba()
    assert image(kept).read_bytes() != damaged
    assert loaded_without_numba()


def test_other_settings_of_numba_have_images_of_their_own(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = machine_code._key("benchmarks.pi.kernel")
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert machine_code._key("benchmarks.pi.kernel") not in (before, None)


def test_old_images_make_room(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = image(kept)
    older = [made.with_name(f"{made.name}{number}") for number in range(20)]
    for age, path in enumerate(older, start=1):
        shutil.copy(made, path)
        os.utime(path, (made.stat().st_mtime - age,) * 2)
    monkeypatch.setattr(machine_code, "_key", lambda _: "0" * 32)
    assert not loaded_without_numba()
    assert {*kept.iterdir()} > {made, *older[:14]}
    assert len(list(kept.iterdir())) == 16


def test_without_a_folder_numba_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "malleable-apgas-kernels").write_text("in the way")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert not loaded_without_numba()
    assert not loaded_without_numba()


def test_beside_the_source_is_tried_before_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, cache = tmp_path / "source" / "__pycache__", tmp_path / "cache"
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(machine_code, "setup_cache", lambda: None)
    # the sources are sought first, then the folders
    name = machine_code._key("benchmarks.pi.kernel")
    monkeypatch.setattr(machine_code, "_key", lambda _: name)
    monkeypatch.setattr(machine_code, "__file__", str(source.parent / "harness" / "machine_code.py"))
    source.mkdir(parents=True)
    (source / "malleable-apgas-kernels").mkdir(mode=0o755)  # others may look into it, so that it is passed over
    assert not loaded_without_numba()
    assert loaded_without_numba()
    assert image(cache / "malleable-apgas-kernels").exists()
    (source / "malleable-apgas-kernels").chmod(0o700)
    assert loaded_without_numba()


# one function ---------------------------------------------------------------------------------------------------------


def compiled(function: Any, signature: str) -> Any:
    from numba import njit

    return njit(signature, nogil=True)(function)


def linked(function: Any, signature: str) -> Any:
    """The function as an image that was loaded."""
    module = SimpleNamespace(function=compiled(function, signature))
    return machine_code._loaded(*machine_code._linked(module)).function


def test_arrays_numbers_and_tuples_come_and_go() -> None:
    def mixed(table: Any, factor: Any, number: Any) -> Any:
        total = 0.0
        for i in range(table.shape[0]):
            for k in range(table.shape[1]):
                table[i, k] += number
                total += table[i, k] * factor
        return total, number - 1, table.shape[1], total > 0

    function = linked(mixed, "Tuple((float64, int32, int64, boolean))(uint8[:, ::1], float64, int32)")
    table = np.arange(6, dtype=np.uint8).reshape(2, 3)
    assert function(table, 0.5, np.int64(2)) == (13.5, 1, 3, True)
    assert table.tolist() == [[2, 3, 4], [5, 6, 7]]


def test_what_the_code_was_not_compiled_for_is_refused() -> None:
    def first(table: Any) -> Any:
        return table[0]

    function = linked(first, "int64(int64[::1])")
    assert function(np.array([5])) == 5
    read_only = np.array([5])
    read_only.flags.writeable = False
    for wrong in (np.array([5.0]), np.array([[5]]), np.arange(9)[::2], read_only):
        with pytest.raises(TypeError, match="compiled for an array of int64 with 1 dimensions in C order"):
            function(wrong)
    with pytest.raises(TypeError, match="takes 1 arguments, not 2"):
        function(np.array([5]), 1)


@pytest.mark.parametrize("wrong", [2.0, 1 << 31, "2", None])
def test_other_numbers_than_the_code_was_compiled_for_are_refused(wrong: Any) -> None:
    function = linked(lambda number: number, "int32(int32)")
    assert function(-2) == -2
    with pytest.raises(TypeError, match="compiled for other numbers"):
        function(wrong)


def test_threads_call_at_the_same_time() -> None:
    def added(table: Any, rounds: Any, number: Any) -> Any:
        for i in range(rounds):
            table[i % 7] += number ^ i
        return number, table.sum()

    def expected(table: Any, number: Any) -> tuple[int, int]:
        return number, int(table.sum()) + sum(number ^ i for i in range(10_000))

    function = linked(added, "UniTuple(int64, 2)(int64[::1], int64, int64)")

    def call(number: int) -> None:
        for _ in range(20):
            table = np.arange(7)
            assert function(table, 10_000, number) == expected(np.arange(7), number)

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(call, 1 << number) for number in range(4)]:
            done.result(PATIENCE_S)


def test_an_error_in_the_code_is_one_here() -> None:
    def divided(number: Any) -> Any:
        return 7 // number

    function = linked(divided, "int64(int64)")
    assert function(2) == 3
    with pytest.raises(RuntimeError, match="function failed in compiled code"):
        function(0)


def test_code_that_needs_numba_is_not_kept() -> None:
    def allocates(number: Any) -> Any:
        return np.zeros(number).sum()

    def listed(table: Any) -> Any:
        return len(table)

    with pytest.raises(machine_code._Unusable, match="it calls NRT_"):
        linked(allocates, "float64(int64)")
    with pytest.raises(machine_code._Unusable, match="an argument is"):
        linked(listed, "int64(int64[:])")


def test_other_arrays_than_in_the_call_before_are_noticed() -> None:
    def weighed(left: Any, weight: Any, right: Any) -> Any:
        return left[0] + weight * right[len(right) - 1]

    function = linked(weighed, "int64(int64[::1], int64, int64[::1])")
    left, right = np.array([1]), np.array([10, 20])
    for other in (right, right, np.array([30]), left):
        assert function(left, 2, other) == 1 + 2 * other[-1]
    with pytest.raises(TypeError, match="compiled for an array of int64"):
        function(left, 2, np.array([0.5]))
    assert function(left, 3, right) == 61
