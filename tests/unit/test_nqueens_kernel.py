"""The kernels of N-Queens against the recorded counts, the oracle, and each other."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from support.oracles import count_solutions

from benchmarks.nqueens import kernel, scalar
from benchmarks.nqueens.bag import QueensBag, known_solutions
from benchmarks.nqueens.scalar import PARTS


@pytest.fixture(params=["loaded", "compiled", "plain"])
def any_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setattr(kernel, "expand", scalar.expand)
        monkeypatch.setattr(kernel, "CAPACITY", scalar.CAPACITY)
    elif request.param == "compiled":
        pytest.importorskip("numba", reason="numba is not installed")
        monkeypatch.setattr(kernel, "expand", kernel.compiled_scalar())
        monkeypatch.setattr(kernel, "CAPACITY", scalar.CAPACITY)
    return str(request.param)


@pytest.mark.parametrize("size", range(1, 11))
def test_recorded_counts_are_found_by_every_kernel(any_kernel: str, size: int) -> None:
    assert kernel.run_kernel(size) == known_solutions(size)


@pytest.mark.parametrize("size", [11, 12, 13, 14])
def test_recorded_counts_of_larger_boards_are_found(size: int) -> None:
    assert kernel.run_kernel(size) == known_solutions(size)


@pytest.mark.slow
@pytest.mark.parametrize("size", [15, 16, 17, 18])
def test_recorded_counts_of_the_largest_boards_are_found(size: int) -> None:
    assert kernel.run_kernel(size) == known_solutions(size)


@pytest.mark.parametrize("size", range(1, 8))
def test_the_oracle_needs_no_symmetry(size: int) -> None:
    assert count_solutions(size) == known_solutions(size)


def test_kernels_agree_on_the_number_of_tasks() -> None:
    tasks = set()
    for budget in (1, 7, 1000, 1 << 40):
        for expand in (kernel.expand, scalar.expand):
            bag = QueensBag.of_board(8)
            total = 0
            while True:
                done, _, more = expand(bag.queue.data, bag.queue.entries, bag._rules, budget)
                total += done
                if not more:
                    break
            tasks.add(total)
    assert tasks == {441}


def test_a_bag_may_travel_between_places_with_different_kernels() -> None:
    bag = QueensBag.of_board(10)
    more = True
    for expand, capacity in [(scalar.expand, scalar.CAPACITY), (kernel.expand, kernel.CAPACITY)] * 20:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernel, "expand", expand)
            patch.setattr(kernel, "CAPACITY", capacity)
            bag = pickle.loads(pickle.dumps(bag))
            more = bag.process(200)
    while more:
        more = bag.process(5000)
    assert bag.count // PARTS == 724


@pytest.mark.parametrize("budget", [1, 5, 1 << 40])
def test_the_largest_board_stays_within_its_words(any_kernel: str, budget: int) -> None:
    bag = QueensBag.of_board(25)
    for _ in range(50):
        assert bag.process(min(budget, 2000))
    for level in bag.queue.occupied():
        words, _, _, free = bag.queue.rows(level).T.tolist()
        columns = [word & ((1 << 25) - 1) for word in words]
        assert {value.bit_count() for value in columns} == {25 - level}
        assert all(0 < value < 1 << 25 and not value & used for value, used in zip(free, columns, strict=True))


@pytest.mark.parametrize(
    ("numba", "compress", "name"),
    [(False, True, "plain Python, no numba 92"), (True, False, "numba, scalar 92")],
)
def test_the_kernel_falls_back(
    numba: bool, compress: bool, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # where no vectors have been compiled yet
    if numba:
        pytest.importorskip("numba", reason="numba is not installed")
    code = (
        f"import benchmarks.harness.jit as jit; jit.has_numba = lambda: {numba}\n"
        + (f"import benchmarks.simd as simd; simd.has_compress = lambda: {compress}\n" if numba else "")
        + "from benchmarks.nqueens import kernel; print(kernel.NAME, kernel.run_kernel(8))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == name


def test_an_unknown_intrinsic_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    from benchmarks import simd

    assert simd.has_compress()
    monkeypatch.setattr(simd, "_COMPRESS", "llvm.experimental.vector.press.v16i32")
    assert not simd.has_compress()
