"""Synthetic work: the kernel against plain Python, the jump against the steps, the table against the distribution."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from support import ROOT

from benchmarks.harness.errors import BadUsage
from benchmarks.harness.jit import has_numba
from benchmarks.synthetic import plain
from benchmarks.synthetic.bag import StaticBag, Tally, TreeBag
from benchmarks.synthetic.command import command
from benchmarks.synthetic.plain import CLASSES, DISTRIBUTIONS, relative, variance
from benchmarks.synthetic.work import Work, calibrate, load_kernel
from glb.testing import check_bag

Lengths: TypeAlias = NDArray[np.uint64]

needs_numba = pytest.mark.skipif(not has_numba(), reason="no numba")


def example(tasks: int = 300, branching: int = 0, seed: int = 7, mean_units: float = 50) -> Work:
    return Work.drawn(mean_units * tasks, tasks, distribution="lognormal", variance=2.0, seed=seed, branching=branching)


# The oracle, in Python's numbers --------------------------------------------------------------------------------------


def spin(value: int, units: int) -> int:
    for _ in range(units):
        value = (value * plain.FACTOR + plain.ADDEND) & plain.MASK
    return value


def spin_range(first: int, last: int, seed: int, lengths: Lengths) -> tuple[int, int]:
    units, total = 0, 0
    for task in range(first, last):
        value = plain.start(task, seed)
        length = int(lengths[value >> plain.CLASS_SHIFT])
        units += length
        total = (total + spin(value, length)) & plain.MASK
    return units, total


def spin_tree(
    stack: NDArray[np.int64], top: int, most: int, seed: int, lengths: Lengths, branching: int
) -> tuple[int, int, int, int]:
    done, units, total = 0, 0, 0
    while done < most and 0 < top <= len(stack) - branching:
        top -= 1
        task, last = int(stack[top, 0]), int(stack[top, 1])
        span_units, value = spin_range(task, task + 1, seed, lengths)
        units += span_units
        total = (total + value) & plain.MASK
        done += 1
        draw, first = plain.start(task, seed), task + 1
        for child in range(branching):
            draw = plain.mixed((draw + plain.GOLDEN) & plain.MASK)
            rest = last - first
            size = rest if child == branching - 1 else (rest * (draw >> 32) + (1 << 31)) >> 32
            if size:
                stack[top] = first, first + size
                top += 1
            first += size
    return top, done, units, total


def test_a_jump_is_as_many_steps() -> None:
    for units in [*range(20), 1000, 4097]:
        factor, addend = plain.jump(units)
        assert (12345 * factor + addend) & plain.MASK == spin(12345, units)


def test_the_hash_is_the_published_one() -> None:
    # the first outputs of SplitMix64 with seed 1234567
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [plain.start(task, 1234567) for task in range(4)] == published


@pytest.mark.parametrize("branching", [0, 2, 5])
def test_the_expected_sum_is_that_of_spinning(branching: int) -> None:
    work = example(branching=branching)
    units, total = spin_range(0, work.tasks, work.seed, work.lengths)
    assert work.expected() == (units, total)


@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_kernel_and_python_agree(seed: int) -> None:
    kernel = load_kernel()
    work = example(seed=seed, branching=3)
    assert kernel.spin_range(5, 205, seed, work.lengths) == spin_range(5, 205, seed, work.lengths)
    stacks = [np.zeros((40, 2), np.int64) for _ in range(2)]
    for stack in stacks:
        stack[0] = 0, work.tasks
    top = 1
    rng = Random(1)
    while top:
        most = rng.randint(1, 20)
        found = [
            do(stack, top, most, seed, work.lengths, 3)
            for do, stack in zip((kernel.spin_tree, spin_tree), stacks, strict=True)
        ]
        top = found[0][0]
        assert found[0] == found[1]
        assert stacks[0][:top].tolist() == stacks[1][:top].tolist()


SCRIPT = """
import numpy as np
from benchmarks.synthetic import kernel
lengths = np.arange(1024, dtype=np.uint64) % np.uint64(9)
stack = np.zeros((40, 2), np.int64)
stack[0] = 0, 200
print(*map(int, kernel.spin_range(0, 200, np.uint64(3), lengths)))
print(*map(int, kernel.spin_tree(stack, 1, 500, np.uint64(3), lengths, 4)))
"""


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}, marks=needs_numba),
        {"NUMBA_DISABLE_JIT": "1"},
    ],
    ids=["generic processor", "not compiled"],
)
def test_the_kernel_gives_the_same_anywhere(settings: dict[str, str], tmp_path: Path) -> None:
    environment = os.environ | settings | {"NUMBA_CACHE_DIR": str(tmp_path)}
    words = [sys.executable, "-W", "error", "-c", SCRIPT]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    lengths = np.arange(1024, dtype=np.uint64) % np.uint64(9)
    units, total = spin_range(0, 200, 3, lengths)
    assert done.stdout.splitlines() == [f"{units} {total}", f"0 200 {units} {total}"]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_tables_have_mean_one_and_the_variance_of_the_distribution(distribution: str) -> None:
    _, default, least, most = DISTRIBUTIONS[distribution]
    for asked in {default, least, most, (least + most) / 3 if least < most else least}:
        table = relative(distribution, asked)
        assert len(table) == CLASSES
        assert min(table) >= 0
        assert min(np.diff(table)) > -1e-9
        assert statistics.fmean(table) == pytest.approx(1.0, abs=1e-9)
        assert variance(table) == pytest.approx(asked, rel=2e-3, abs=1e-9)


def test_the_work_is_as_long_as_asked() -> None:
    work = Work.drawn(1e7, 1000, distribution="exponential", variance=1.0, seed=3)
    assert work.expected()[0] == pytest.approx(1e7, rel=1e-3)
    assert work.variance == pytest.approx(1.0, rel=0.02)


def test_a_calibrated_core_does_some_units() -> None:
    assert 1e4 < calibrate() < 1e11


@pytest.mark.parametrize("branching", [0, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_the_bags_keep_the_protocol(branching: int, seed: int) -> None:
    work = example(2000, branching, mean_units=3)
    units, total = work.expected()
    make = TreeBag.whole if branching else partial(StaticBag.whole, work.tasks)
    check_bag(lambda: make(work), Tally, lambda tally: tally, Tally(work.tasks, units, total), seed=seed)


def test_a_tree_begins_with_one_task_and_is_uneven() -> None:
    work = example(20_000, 4, mean_units=1)
    bag = TreeBag.whole(work)
    assert len(bag) == 1
    assert not bag.is_splittable()
    bag.process(1)
    assert 2 <= len(bag) <= 4
    bag.process(200)
    part = bag.split(all=False)
    assert part is not None
    assert abs(len(part) - len(bag)) <= 1
    result = Tally()
    for each in (bag, part):
        while each.process(1000):
            pass
        each.submit(result)
    assert (result.units, result.total) == work.expected()
    assert result.tasks == work.tasks == bag.work + part.work


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"distribution": "normal"}, "--distribution normal"),
        ({"work": 0.0}, "--work 0"),
        ({"work": float("nan")}, "--work nan"),
        ({"units_per_second": -1.0}, "--units-per-second -1"),
        ({"tasks": "1e10"}, "--tasks 10000000000"),
        ({"tasks": "0.5"}, "--tasks 0.5"),
        ({"branching": 1}, "--branching 1"),
        ({"seed": -1}, "--seed -1"),
        ({"distribution": "uniform", "variance": 0.5}, "--distribution uniform --variance 0.5"),
        ({"distribution": "exponential", "variance": 2.0}, "--distribution exponential --variance 2"),
        ({"work": 1e-6, "tasks": "1e6", "units_per_second": 1e9}, "--work 1e-06 --tasks 1e6"),
    ],
)
def test_impossible_work_is_refused(options: dict[str, object], culprit: str) -> None:
    with pytest.raises(BadUsage) as caught:
        command(**options)  # type: ignore[arg-type]  # by name
    assert caught.value.culprit == culprit
    assert caught.value.why
    assert caught.value.remedy


def test_the_same_speed_gives_the_same_work() -> None:
    first, second = (
        command(work=0.01, tasks="100", units_per_second=1e8, dynamic=dynamic) for dynamic in (True, False)
    )
    assert first.known() == second.known() == first.expected()
