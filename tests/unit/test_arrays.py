"""Arrays on simulated places: what they compute, how their rows follow the places, and what is refused."""

from __future__ import annotations

import contextlib
import doctest
import itertools
import operator
import pickle
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, cast

import numpy as np
import pytest
from numbered import Numbers, Total
from numpy.typing import NDArray

import apgas
import glb
from apgas import arrays
from apgas.arrays.block import Held
from apgas.arrays.operations import _Worker
from apgas.arrays.spread import Pace, spread_of_program
from apgas.errors import ApgasError, UsageError
from apgas.futures import MalleableExecutor
from apgas.testing.handlers import ReleaseNewest
from apgas.testing.pytest_plugin import MakeJob

jacobi: Any = import_module("jacobi")  # an example of the documentation


def heated(steps: int) -> NDArray[np.float64]:
    """The plate as computed by one."""
    plate = np.zeros((jacobi.HEIGHT, jacobi.WIDTH))
    for _ in range(steps):
        rows = np.vstack([np.ones((1, jacobi.WIDTH)), plate, np.zeros((1, jacobi.WIDTH))])
        plate[:, 1:-1] = (rows[:-2, 1:-1] + rows[2:, 1:-1] + rows[1:-1, :-2] + rows[1:-1, 2:]) / 4
    return plate


@pytest.mark.parametrize("block", [0, 2])
def test_rows_beyond_the_ends_may_all_be_given(apgas_job: MakeJob, block: int) -> None:
    def main() -> None:
        for rows, width in itertools.product((1, 2, 5, 9), (1, 2, 4)):
            beyond = np.arange(-6.0 * width, 0).reshape(2, width, 3)
            array = arrays.from_function(lambda i, j: 3 * i + j, (rows, 3), block=block)
            whole = np.concatenate([beyond[0], array.gather(), beyond[1]])
            shown = array.halo(width, above=beyond[0], below=beyond[1])
            for held, padded in arrays.map_blocks(lambda part: (part.rows, part.padded), shown):
                assert np.array_equal(padded, whole[held.start : held.stop + 2 * width])
        pairs = arrays.zeros(4, np.dtype([("a", int), ("b", float)]))
        padded = arrays.map_blocks(lambda part: part.padded, pairs.halo(2, above=(1, 2.5), below=[(3, 4), (5, 6)]))
        assert padded[0].tolist()[:2] == [(1, 2.5)] * 2
        assert padded[-1].tolist()[-2:] == [(3, 4.0), (5, 6.0)]

    apgas_job(main, places=3).run()


@pytest.fixture
def small_plate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jacobi, "HEIGHT", 23)
    monkeypatch.setattr(jacobi, "WIDTH", 9)


@pytest.mark.parametrize("seed", range(25))
def test_heat_is_the_same_under_any_schedule_of_resizes(apgas_job: MakeJob, small_plate: None, seed: int) -> None:
    rng = random.Random(seed)
    orders = rng.randint(1, 5)

    def main() -> tuple[int, NDArray[Any]]:
        old, new = (arrays.zeros((jacobi.HEIGHT, jacobi.WIDTH)) for _ in range(2))
        for step in arrays.steps():
            if step >= 12 and len(apgas.resizes()) == orders:
                return step, old.gather()
            arrays.map_blocks(jacobi.relax, new, old.halo(1, above=1.0))
            old, new = new, old
        raise AssertionError

    size = rng.randint(1, 4)
    job = apgas_job(main, places=size)
    for _ in range(orders):
        at_progress = rng.choice([None, rng.randint(1, 12)])
        if rng.random() < 0.5:
            job.grow(rng.randint(1, 3), at_progress=at_progress)
        else:
            job.shrink(rng.randint(1, 2), at_progress=at_progress)  # refused where too few would be left
    steps, found = job.run()
    assert set(job.outcomes) <= {"done", "refused"}
    assert np.array_equal(found, heated(steps))


def test_the_program_itself_gives_the_same(
    apgas_job: MakeJob, small_plate: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jacobi, "STEPS", 30)
    prints = set()
    for places in (1, 3):
        apgas_job(jacobi.main, places=places).run()
        prints.add(capsys.readouterr().out)
    assert len(prints) == 1


EXAMPLES: dict[str, dict[str, int]] = {
    "jacobi": {"HEIGHT": 23, "WIDTH": 9, "STEPS": 50},
    "conjugate_gradient": {"SIDE": 4, "ROWS": 64, "REACH": 21, "STEPS": 50},
    "k_means": {"POINTS": 101, "STEPS": 50},
    "n_body": {"BODIES": 31, "STEPS": 50},
}
"""Small problems. The halo of the second one is wider than most blocks."""


@pytest.fixture
def small_example(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    program: Any = import_module(name)
    for constant, value in EXAMPLES[name].items():
        monkeypatch.setattr(program, constant, value)
    return program


@pytest.mark.full
@pytest.mark.parametrize("name", EXAMPLES)
def test_programs_print_the_same_under_a_hundred_random_resizes(
    apgas_job: MakeJob, small_example: Any, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    apgas_job(small_example.main, "", places=1).run()
    alone = capsys.readouterr().out
    done = 0
    seed = 0
    while done < 100:
        rng = random.Random(seed)
        size = rng.randint(1, 4)
        job = apgas_job(small_example.main, "", places=size)
        for at_progress in sorted(rng.choices(range(1, 45), k=12)):
            wanted = rng.choice([other for other in range(1, 7) if other != size])
            resize = job.grow if wanted > size else job.shrink
            resize(abs(wanted - size), at_progress=at_progress)
            size = wanted
        job.run()
        assert capsys.readouterr().out == alone
        # those that come after the last step are aborted, and then another one may be refused
        assert set(job.outcomes) <= {"done", "aborted", "refused", "not_due"}
        done += job.outcomes.count("done")
        seed += 1
        assert seed < 100, f"only {done} resizes"


def on_places(apgas_job: MakeJob, main: Callable[[], Any], places: int = 3) -> Any:
    return apgas_job(main, places=places).run()


def test_reductions_and_products_are_those_of_numpy(apgas_job: MakeJob) -> None:
    def main() -> None:
        values = np.random.default_rng(1).normal(size=(7, 5))
        array = arrays.from_array(values)
        assert array.shape == (7, 5)
        assert len(array) == 7
        assert np.array_equal(array.gather(), values)
        assert np.array_equal(array.local, values[: len(array.local)])
        assert np.isclose(array.sum(), values.sum())
        assert (array.max(), array.min()) == (values.max(), values.min())
        assert np.isclose(array.norm(), np.linalg.norm(values))
        vector = np.arange(5.0)
        assert np.allclose((array @ vector).gather(), values @ vector)
        assert np.allclose((array @ arrays.from_array(vector)).gather(), values @ vector)
        counts = arrays.from_function(lambda i: i, 4, np.int32)
        assert counts.dtype == np.int32
        assert (counts.gather().tolist(), int(counts.sum())) == ([0, 1, 2, 3], 6)

    on_places(apgas_job, main)


@pytest.mark.parametrize(("rows", "columns"), [(30_000, 3), (5, 20_000), (50_000, 1)])
def test_elements_are_computed_for_some_rows_at_a_time(apgas_job: MakeJob, rows: int, columns: int) -> None:
    def main() -> None:
        most = np.zeros(1, np.int64)

        def element(i: Any, j: Any) -> Any:
            np.maximum(most, i.size * j.size, out=most)
            assert (i.shape, j.shape) == ((len(i), 1), (1, columns))
            return np.where(j == 0, most[0], 10 * i + j)

        values = arrays.from_function(element, (rows, columns)).gather()
        assert values[:, 0].max() <= max(1 << 13, columns)
        assert np.array_equal(values[:, 1:], (10.0 * np.arange(rows)[:, None] + np.arange(columns))[:, 1:])

    on_places(apgas_job, main)


@pytest.mark.parametrize("rows", [1, 2, 3, 10])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_a_halo_is_the_rows_beside_a_block_however_thin_that_is(apgas_job: MakeJob, rows: int, width: int) -> None:
    def main() -> list[tuple[range, list[int]]]:
        numbers = arrays.from_function(lambda i: i, rows, np.int64)
        arrays.map_blocks(len_of, numbers.halo(1))  # there is less room at first
        return arrays.map_blocks(padded, numbers.halo(width, above=-1, below=-2))

    found = on_places(apgas_job, main, places=4)
    whole = [-1] * width + list(range(rows)) + [-2] * width
    assert [row for block, _ in found for row in block] == list(range(rows))
    for block, row in found:
        assert row == whole[block.start : block.stop + 2 * width]


def len_of(block: arrays.Block) -> int:
    return len(block.local)


def padded(block: arrays.Block) -> tuple[range, list[int]]:
    return block.rows, block.padded.tolist()


@pytest.mark.parametrize("places", [1, 3])
@pytest.mark.parametrize("width", [1, 2])
def test_what_is_written_stays_although_the_halo_needs_more_room(apgas_job: MakeJob, places: int, width: int) -> None:
    """There is room for a row from the start, and not for two."""

    def main() -> None:
        array = arrays.from_function(lambda i: i, 9)
        arrays.map_blocks(shift, array, array.halo(width, above=-1))
        assert array.gather().tolist() == [value - 1 for value in range(9)]

    on_places(apgas_job, main, places)


def shift(own: arrays.Block, near: arrays.Block) -> None:
    width = (len(near.padded) - len(own.local)) // 2
    own.local = near.padded[width - 1 : -width - 1].copy()


class Awkward:
    """It can be sent, but not received."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return int, ("awkward",)


def test_a_call_that_arrives_nowhere_else_fails_and_does_not_wait_for_rows(apgas_job: MakeJob) -> None:
    def main() -> None:
        array = arrays.from_function(lambda i: i, 9)
        with pytest.raises(ExceptionGroup) as found:
            arrays.map_blocks(lambda block, _: None, array.halo(1), Awkward())
        assert found.group_contains(ValueError, match="awkward")
        assert arrays.map_blocks(padded, array.halo(1, above=-1))[0][1][:3] == [-1, 0, 1]

    on_places(apgas_job, main)


def test_a_lost_place_is_not_waited_for(apgas_job: MakeJob) -> None:
    def main() -> None:
        array = arrays.from_function(lambda i: i, 9)
        job.kill(1)
        with pytest.raises(ExceptionGroup):
            arrays.map_blocks(padded, array.halo(1))

    job = apgas_job(main, resilient=True)
    job.run()


# dealt blocks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_dealt_blocks_are_computed_with_as_others_and_follow_the_places(apgas_job: MakeJob, seed: int) -> None:
    rng = random.Random(seed)
    rows, size, width = rng.randint(1, 30), rng.randint(1, 6), rng.randint(1, 9)

    def main() -> None:
        numbers = arrays.from_function(lambda i: i, rows, np.int64, block=size)
        plate = arrays.from_array(np.arange(3.0 * rows).reshape(rows, 3), block=size)
        whole = [-1] * width + list(range(rows)) + [-2] * width
        for step in arrays.steps():
            found = arrays.map_blocks(padded, numbers.halo(width, above=-1, below=-2))
            assert [row for block, _ in found for row in block] == list(range(rows))
            for block, row in found:
                assert len(block) == size or block.stop == rows
                assert row == whole[block.start : block.stop + 2 * width]
            assert numbers.gather().tolist() == list(range(rows))
            assert np.array_equal(plate.gather(), np.arange(3.0 * rows).reshape(rows, 3))
            assert arrays.map_blocks(whole_sum, plate, numbers.whole()) == [rows * (rows - 1) // 2] * len(found)
            product = plate @ np.ones(3)
            assert product.block == size
            assert np.array_equal(product.gather(), 9.0 * np.arange(rows) + 3)
            mine = [row for place, first, end in numbers.layout.blocks() if place == 0 for row in range(first, end)]
            assert numbers.local.tolist() == mine
            if step >= 8 and len(apgas.resizes()) == 4:
                return

    job = apgas_job(main, places=rng.randint(1, 4))
    for at_progress in range(1, 8, 2):
        resize = job.grow if rng.random() < 0.5 else job.shrink
        resize(rng.randint(1, 2), at_progress=at_progress)
    job.run()
    assert set(job.outcomes) <= {"done", "refused"}


def whole_sum(_: arrays.Block, every: NDArray[Any]) -> int:
    assert not every.flags.writeable
    return int(every.sum())


def test_a_block_is_gone_through_row_by_row_with_indices_of_the_whole(apgas_job: MakeJob) -> None:
    def visit(vector: arrays.Block, plate: arrays.Block) -> None:
        assert [(row, float(value)) for row, value in vector] == [(row, 2.0 * row) for row in vector.rows]
        i, j = plate.indices
        assert (i.shape, j.shape) == ((len(plate.rows), 1), (1, 3))
        assert np.array_equal(plate.local, 10 * i + j)
        assert np.array_equal(vector.indices[0], vector.rows)

    def main() -> None:
        vector = arrays.from_function(lambda i: 2 * i, 10, block=3)
        plate = arrays.from_function(lambda i, j: 10 * i + j, (10, 3), block=3)
        assert len(arrays.map_blocks(visit, vector, plate)) == 4

    on_places(apgas_job, main)


# copies at a neighbour ------------------------------------------------------------------------------------------------


def note(block: arrays.Block, by: float) -> float:
    """Change rows, so that it matters how often, in what order and with which argument that was done."""
    block.local = block.local * 2 + by
    return float(block.local.sum())


@pytest.mark.parametrize("block", [0, 2])
@pytest.mark.parametrize("seed", range(20))
def test_rows_of_lost_places_come_back_and_main_does_not_notice(apgas_job: MakeJob, seed: int, block: int) -> None:
    rng = random.Random(seed)
    deaths = sorted(rng.sample(range(40), k=3))

    def main() -> None:
        moments = itertools.count()

        def die() -> None:
            if next(moments) in deaths:
                job.kill(rng.choice(apgas.places()[1:]).id)

        expected = np.arange(11.0)
        array, spare = arrays.from_function(lambda i: i, 11, block=block), arrays.zeros(11, block=block)
        table = arrays.from_function(lambda i, j: 3 * i + j, (11, 3), block=block).freeze()
        by = np.zeros(1)
        for step in arrays.steps(8, redundancy=1):
            by[0] = step  # an argument that changes after the call
            die()
            total = arrays.reduce_blocks(note, array, by)
            expected = expected * 2 + step
            assert np.isclose(total, expected.sum())
            by[0] = 1000 + step
            die()
            arrays.map_blocks(shifted, spare, array.halo(2, above=-1, below=-2))
            expected = np.concatenate([[-1, -1], expected[:-2]]) + np.concatenate([expected[2:], [-2, -2]])
            array, spare = spare, array
            die()
            fresh = arrays.from_array(expected, block=block)
            die()
            arrays.map_blocks(lambda own, other: setattr(own, "local", own.local + other.local), array, fresh)
            expected = expected + expected
            die()
            assert np.array_equal(array.gather(), expected)
            assert np.array_equal(table.gather(), np.arange(33.0).reshape(11, 3))
        assert np.array_equal(array.gather(), expected)
        assert {owner for owner, _, _ in array.layout.blocks()} <= {place.id for place in apgas.places()}

    job = apgas_job(main, places=5, resilient=True)
    job.run()
    assert len(job.lost_nodes) == 3


def shifted(own: arrays.Block, near: arrays.Block) -> None:
    own.local = near.padded[:-4] + near.padded[4:]


@pytest.mark.parametrize("seed", range(12))
def test_places_may_die_within_a_function_and_while_rows_move(apgas_job: MakeJob, seed: int) -> None:
    rng = random.Random(seed)

    def main() -> tuple[int, NDArray[Any]]:
        array = arrays.from_function(lambda i: i, 12)
        killed = 0
        for step in arrays.steps(redundancy=1):
            if step >= 10 and len(apgas.resizes()) == 2:
                return step, array.gather()
            victim = rng.choice(apgas.places()[1:]).id if killed < 2 and rng.random() < 0.4 else None
            killed += victim is not None
            arrays.map_blocks(partial(note_and_kill, victim), array, 1.0)
        raise AssertionError

    job = apgas_job(main, places=4, resilient=True)
    kills.append(job.kill)
    job.grow(2, at_progress=2)
    job.shrink(1, at_progress=5)
    try:
        steps, found = job.run()
    finally:
        kills.clear()
    assert np.array_equal(found, np.arange(12.0) * 2**steps + 2**steps - 1)


@pytest.mark.parametrize("seed", range(12))
def test_places_may_die_while_the_rows_beside_blocks_are_on_their_way(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    notify, steps = _Worker.notify, 12
    moments = sorted(rng.sample(range(5, 150), 2))

    def notify_or_kill(*args: Any, **kwargs: Any) -> None:
        """An order or rows have come; a place dies then."""
        taken.append(None)
        if moments and len(taken) >= moments[0]:
            moments.pop(0)
            with contextlib.suppress(UsageError, IndexError):  # only place 0 is left
                job.kill(rng.choice(list(placed)))
        notify(*args, **kwargs)

    def main() -> NDArray[Any]:
        array = arrays.from_function(lambda i: i % 5, 30)
        for _ in arrays.steps(steps, redundancy=1):
            placed[:] = [place.id for place in apgas.places()[1:]]
            arrays.map_blocks(add_neighbours, array, array.halo(2, above=1, below=2))
        return array.gather()

    taken: list[None] = []
    placed: list[int] = []
    monkeypatch.setattr(_Worker, "notify", notify_or_kill)
    job = apgas_job(main, places=5, resilient=True)
    found = job.run()
    expected = np.arange(30) % 5
    for _ in range(steps):
        padded = np.concatenate([[1, 1], expected, [2, 2]])
        expected = (padded[:-4] + expected + padded[4:]) % 97
    assert found.tolist() == expected.tolist()
    assert not moments


def add_neighbours(own: arrays.Block, near: arrays.Block) -> None:
    own.local = (near.padded[:-4] + own.local + near.padded[4:]) % 97


kills: list[Callable[[int], None]] = []


def note_and_kill(victim: int | None, block: arrays.Block, by: float) -> None:
    """Change the rows; a place dies meanwhile, when some have changed and others not."""
    if victim is not None and apgas.here().id == 0:
        with contextlib.suppress(UsageError):  # it died the first time
            kills[0](victim)
    note(block, by)


def test_no_copy_depends_on_a_place_that_has_left(apgas_job: MakeJob) -> None:
    def main() -> None:
        array = arrays.from_function(lambda i: i, 8)
        for _ in arrays.steps(redundancy=1):  # no operation between two steps, so the boundary asks for no new copies
            if apgas.resizes():
                break
        assert [place.id for place in apgas.places()] == [0, 1, 2]
        job.kill(2)  # it kept the copy of the one that has left
        assert array.gather().tolist() == list(range(8))

    job = apgas_job(main, places=4, resilient=True)
    job.shrink(1, at_progress=3)
    job.run()
    assert job.outcomes == ["done"]


def test_rows_are_lost_for_good_with_both_who_have_them(apgas_job: MakeJob) -> None:
    def main() -> None:
        array = arrays.from_function(lambda i: i, 9)
        for _ in arrays.steps(1, redundancy=1):
            job.kill(1)
            job.kill(2)
            with pytest.raises(ApgasError, match="place 1 has died, and place 2, which kept its copy"):
                array.gather()

    job = apgas_job(main, places=4, resilient=True)
    job.run()


def test_without_copies_the_loss_is_reported(apgas_job: MakeJob) -> None:
    def main() -> None:
        array = arrays.from_function(lambda i: i, 9)
        for _ in arrays.steps(1):
            job.kill(1)
            with pytest.raises(ExceptionGroup):
                arrays.map_blocks(padded, array.halo(1))

    job = apgas_job(main, resilient=True)
    job.run()


def test_an_operation_that_failed_fails_again_and_the_others_count(apgas_job: MakeJob) -> None:
    def main() -> None:
        array = arrays.from_function(lambda i: i, 9)
        for _ in arrays.steps(1, redundancy=1):
            with pytest.raises(ExceptionGroup):
                arrays.map_blocks(fail, array)
            arrays.map_blocks(note, array, 1.0)
            with pytest.raises(ValueError, match="read-only"):
                array.local[:] = 0.0
            job.kill(2)
            assert array.gather().tolist() == [2.0 * value + 1 for value in range(9)]
            job.kill(1)  # there are copies of what has come back
            assert array.gather().tolist() == [2.0 * value + 1 for value in range(9)]

    job = apgas_job(main, places=4, resilient=True)
    job.run()


def test_an_array_that_a_function_is_bound_to_has_copies_as_others(apgas_job: MakeJob) -> None:
    first: Callable[..., float] = note
    then: Callable[..., None] = add_halo

    def main() -> None:
        array, other = arrays.from_function(lambda i: i, 9), arrays.zeros(9)
        for _ in arrays.steps(1, redundancy=1):
            arrays.map_blocks(partial(first, array), 1.0)
            arrays.update_blocks(partial(then, other, array.halo(1, above=-1, below=-2)))
            job.kill(1)
            assert array.gather().tolist() == [2.0 * value + 1 for value in range(9)]
            assert other.gather().tolist() == [2, *(4.0 * value + 2 for value in range(1, 8)), 13]

    job = apgas_job(main, resilient=True)
    job.run()


def add_halo(own: arrays.Block, other: arrays.Block) -> None:
    own.local += other.padded[:-2] + other.padded[2:]


def test_a_long_log_is_cut_by_copies_in_between(apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apgas.arrays.spread._LONGEST_LOG", 3)
    calls = apgas_list()

    def main() -> None:
        array = arrays.zeros(9)
        for _ in arrays.steps(1, redundancy=1):
            for _ in range(7):
                arrays.map_blocks(count_call, array)
            before = len(calls)
            job.kill(1)
            array.sum()
            assert len({*calls[before:]}) == 2  # applied again: by two survivors
            assert len(calls) - before <= 2 * 3
            assert array.gather().tolist() == [7.0] * 9

    job = apgas_job(main, resilient=True)
    job.run()


def apgas_list() -> list[int]:
    called.clear()
    return called


called: list[int] = []


def count_call(block: arrays.Block) -> None:
    called.append(apgas.here().id)
    block.local += 1


def test_constant_rows_are_copied_once_for_each_layout(apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = {1: 0, 2: 0}
    save = Held.save

    def counted(held: Held, *args: Any, **options: Any) -> list[tuple[int, NDArray[Any]]]:
        made = save(held, *args, **options)
        for _, rows in made:
            copied[rows.ndim] += len(rows)
        return made

    def main() -> None:
        monkeypatch.setattr(Held, "save", counted)
        numbers = arrays.from_function(lambda i: i, 24)
        matrix = arrays.from_function(lambda i, j: 10 * i + j, (24, 2)).freeze()
        expected = np.arange(24.0)
        settled = 0
        for step in arrays.steps(redundancy=1):
            arrays.map_blocks(note, numbers, 1.0)
            expected = 2 * expected + 1
            if step == 3:
                assert copied == {1: 4 * 24, 2: 24}
                job.grow(1)
            settled += len(owners_of(matrix)) > 2
            if settled == 3:
                assert copied[2] == 2 * 24  # again for the newcomer
                job.kill(max(owners_of(matrix)))
            assert np.array_equal(matrix.gather(), [[10 * i, 10 * i + 1] for i in range(24)])
            assert np.array_equal(numbers.gather(), expected)
            if settled == 3:
                break
        assert copied[2] == 3 * 24
        for _ in arrays.steps(3, redundancy=1):
            arrays.map_blocks(note, numbers, 1.0)
        assert copied[2] == 3 * 24
        job.kill(max(owners_of(matrix)))
        assert np.array_equal(matrix.gather(), [[10 * i, 10 * i + 1] for i in range(24)])

    job = apgas_job(main, places=2, resilient=True)
    job.run()


# constant arrays ------------------------------------------------------------------------------------------------------


class Gate:
    """Keeps copies of constant rows from being taken, until it is opened, or for so long at most."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.reached = threading.Event()
        self.taken = {1: 0, 2: 0}
        take = Held.take

        def gated(held: Held, move: int, first: int, rows: NDArray[Any]) -> None:
            self.reached.set()
            assert self.open.wait(60)
            self.taken[rows.ndim] += len(rows)
            take(held, move, first, rows)

        monkeypatch.setattr(Held, "take", gated)


def owners_of(array: arrays.BlockArray) -> list[int]:
    return [place for place, _, _ in array.layout.blocks()]


@pytest.fixture
def tiny_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apgas.arrays.spread._IN_BACKGROUND", Pace(24, 1, 0.0))
    monkeypatch.setattr("apgas.arrays.spread.AT_ONCE", Pace(40, 2, 0.0))


def test_constant_rows_are_copied_while_steps_go_on(apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    def main() -> None:
        matrix = arrays.from_function(lambda i, j: 10 * i + j, (24, 2)).freeze()
        numbers = arrays.from_function(lambda i: i, 24)
        gate = Gate(monkeypatch)
        meanwhile = 0
        for step in arrays.steps():
            if step == 0:
                job.grow(1)
            arrays.map_blocks(note, numbers, 1.0)
            if owners_of(matrix) == [0, 1]:
                meanwhile += gate.reached.is_set()
                if meanwhile == 5:
                    gate.open.set()
            elif apgas.resizes():
                break
        assert meanwhile >= 5
        assert sorted(owners_of(matrix)) == [0, 1, 2]
        assert gate.taken == {1: 24, 2: 24}  # no row was sent again when the others moved
        assert np.array_equal(matrix.gather(), [[10 * i, 10 * i + 1] for i in range(24)])
        assert np.array_equal(numbers.gather(), (np.arange(24.0) + 1) * 2 ** (step + 1) - 1)

    job = apgas_job(main, places=2)
    job.run()
    assert job.outcomes == ["done"]


@pytest.mark.parametrize("block", [0, 2])
@pytest.mark.parametrize("seed", range(15))
def test_all_rows_are_right_in_each_step_of_any_schedule(
    apgas_job: MakeJob, tiny_portions: None, seed: int, block: int
) -> None:
    rng = random.Random(seed)
    rows, orders = rng.randint(1, 40), rng.randint(2, 6)

    def main() -> None:
        table = arrays.from_function(lambda i, j: 3 * i + j, (rows, 3), block=block).freeze()
        expected, whole = np.arange(float(rows)), np.arange(3.0 * rows).reshape(rows, 3)
        numbers = arrays.from_function(lambda i: i, rows, block=block)
        late = [arrays.from_function(lambda i: 7 * i, rows, block=block) for _ in range(2)]
        for step in arrays.steps():
            width = 1 + step % 7  # wider and wider at first, also while copies are made
            near = arrays.map_blocks(padded, table.halo(width, above=-1))
            assert [row for block, _ in near for row in block] == list(range(rows))
            for block_rows, found in near:
                inside = found[width : width + len(block_rows)]
                assert inside == whole[block_rows.start : block_rows.stop].tolist()
                before = min(width, block_rows.start)
                assert found[width - before : width] == whole[block_rows.start - before : block_rows.start].tolist()
            arrays.map_blocks(add_first, numbers, table)
            expected += whole[:, 0]
            assert np.array_equal(numbers.gather(), expected)
            assert np.array_equal(table.gather(), whole)
            if step == 4:
                late[0].freeze()
            if step == 6:
                late.append(arrays.from_array(whole, block=block).freeze())
            assert np.array_equal(late[0].gather() + late[1].gather(), 14 * np.arange(rows))
            if step > 7:
                assert np.array_equal(late[2].gather(), whole)
                if len(apgas.resizes()) == orders:
                    break

    size = rng.randint(1, 4)
    job = apgas_job(main, places=size)
    for _ in range(orders):
        resize = job.grow if rng.random() < 0.5 else job.shrink
        resize(rng.randint(1, 3), at_progress=rng.randint(1, 8))
    job.run()
    assert set(job.outcomes) <= {"done", "refused"}


def add_first(own: arrays.Block, table: arrays.Block) -> None:
    own.local += table.local[:, 0]


def test_nothing_is_left_of_copies_for_an_order_that_is_taken_back(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main() -> None:
        table = arrays.from_function(lambda i: i, 12).freeze()
        numbers = arrays.from_function(lambda i: i, 12)
        gate = Gate(monkeypatch)
        order = None
        for _ in arrays.steps():
            if order is None:
                order = job.shrink(1)
            elif gate.reached.is_set() and not gate.open.is_set():
                order.withdraw()
                assert order.wait().outcome == "aborted"
                assert sum(apgas.gather(lambda held: len(held.get()._coming), table.held).values()) > 0
                gate.open.set()
                until_s = time.monotonic() + 20
                while any(apgas.gather(lambda held: len(held.get()._coming), table.held).values()):
                    assert time.monotonic() < until_s
                    time.sleep(0.01)
                assert owners_of(table) == [0, 1, 2]
                job.shrink(2)
            elif len(apgas.resizes()) == 2:
                break
            arrays.map_blocks(note, numbers, 1.0)
        assert owners_of(table) == [0]
        assert table.gather().tolist() == list(range(12))

    job = apgas_job(main, places=3)
    job.run()
    assert job.outcomes == ["aborted", "done"]


@pytest.mark.parametrize("redundancy", [0, 1])
def test_a_newcomer_may_die_while_it_is_sent_copies(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch, redundancy: int
) -> None:
    def main() -> None:
        table = arrays.from_function(lambda i: i, 12).freeze()
        numbers = arrays.from_function(lambda i: i, 12)
        gate = Gate(monkeypatch)
        done = 0
        for step in arrays.steps(redundancy=redundancy):
            if step == 0:
                job.grow(2)
            if not gate.open.is_set() and gate.reached.is_set():
                job.kill(3)
                gate.open.set()
            if apgas.resizes():
                break
            arrays.map_blocks(note, numbers, 1.0)
            done += 1
        assert sorted(owners_of(table)) == [0, 1, 2]
        assert table.gather().tolist() == list(range(12))
        assert np.array_equal(numbers.gather(), (np.arange(12.0) + 1) * 2**done - 1)

    job = apgas_job(main, places=2, resilient=True)
    job.run()
    assert job.outcomes == ["done"]


@pytest.mark.parametrize("block", [0, 1])
@pytest.mark.parametrize("seed", range(12))
def test_places_may_die_at_any_moment_of_a_copy(
    apgas_job: MakeJob, tiny_portions: None, monkeypatch: pytest.MonkeyPatch, seed: int, block: int
) -> None:
    rng = random.Random(seed)
    dies_at = rng.randint(1, 14)
    take, taken = Held.take, itertools.count(1)

    def taking(held: Held, move: int, first: int, rows: NDArray[Any]) -> None:
        if next(taken) == dies_at:
            job.kill(rng.randint(1, 5 if len(job.lost_nodes) < 9 else 1))
        take(held, move, first, rows)

    def main() -> None:
        monkeypatch.setattr(Held, "take", taking)
        table = arrays.from_function(lambda i: i, 12, block=block)
        numbers = arrays.from_function(lambda i: i, 12, block=block)
        for step in arrays.steps(redundancy=1):
            if step == 1:
                table.freeze()
                job.grow(2)
                job.shrink(1)
            if step > 6 and len(apgas.resizes()) == 2:
                break
            arrays.map_blocks(note, numbers, 1.0)
            assert table.gather().tolist() == list(range(12))
            assert np.array_equal(numbers.gather(), (np.arange(12.0) + 1) * 2 ** (step + 1) - 1)
        assert {*owners_of(table)} <= {place.id for place in apgas.places()}

    job = apgas_job(main, places=4, resilient=True)
    job.run()


def test_a_loop_ends_when_copies_are_where_they_are_to_be(apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads that made them waited for ever if the program ended meanwhile."""

    def main() -> float:
        table = arrays.from_function(lambda i: 1, 12).freeze()
        gate = Gate(monkeypatch)
        for step in arrays.steps():
            if step == 0:
                job.shrink(1)
            if gate.reached.is_set():
                threading.Timer(0.1, gate.open.set).start()
                break
        return float(table.sum())

    job = apgas_job(main, places=3)
    assert job.run() == 12
    assert job.outcomes == ["done"]


def test_what_is_constant_cannot_be_written_to(apgas_job: MakeJob) -> None:
    def main() -> None:
        for block in (0, 2):
            table = arrays.from_function(lambda i: i, 9, block=block)
            arrays.map_blocks(note, table, 1.0)
            assert table.freeze() is table
            for fn, arg in ((note, table), (write_padded, table.halo(1))):
                with pytest.raises(ExceptionGroup) as found:
                    arrays.map_blocks(fn, arg, 1.0)
                assert found.group_contains(ValueError, match="read-only")
            with pytest.raises(ValueError, match="read-only"):
                table.local[:] = 0
            assert table.gather().tolist() == [2.0 * value + 1 for value in range(9)]

    on_places(apgas_job, main)


def write_padded(block: arrays.Block, value: float) -> None:
    block.padded[:] = value


def test_what_was_written_before_an_array_became_constant_comes_back(apgas_job: MakeJob) -> None:
    def main() -> None:
        for _ in arrays.steps(1, redundancy=1):
            table = arrays.from_function(lambda i: i, 9)
            arrays.map_blocks(note, table, 1.0)
            table.freeze()
            job.kill(1)
            assert table.gather().tolist() == [2.0 * value + 1 for value in range(9)]

    job = apgas_job(main, places=4, resilient=True)
    job.run()


# resizes --------------------------------------------------------------------------------------------------------------


def test_arrays_made_before_and_after_a_resize_fit_together(apgas_job: MakeJob) -> None:
    def main() -> float:
        before = arrays.from_function(lambda i: i, 10)
        for _ in arrays.steps():
            if apgas.resizes():
                break
        after = arrays.from_function(lambda i: 2 * i, 10)

        def check(left: arrays.Block, right: arrays.Block) -> float:
            assert left.rows == right.rows
            return float(np.sum(right.local - left.local))

        return sum(arrays.map_blocks(check, before, after))

    job = apgas_job(main, places=3)
    job.grow(1)
    assert job.run() == 45.0
    assert job.outcomes == ["done"]


def test_the_scheduler_gets_the_nodes_it_wishes(apgas_job: MakeJob) -> None:
    def main() -> tuple[list[int], float]:
        ones = arrays.from_function(lambda i: 1, 20)
        for _ in arrays.steps():
            if apgas.resizes():
                break
        return [place.id for place in apgas.places()], float(ones.sum())

    job = apgas_job(main, places=6, places_per_node=2)
    job.shrink(1, wish=["node1"])
    assert job.run() == ([0, 1, 4, 5], 20.0)


def test_a_node_that_has_lost_a_place_leaves_as_one_node(apgas_job: MakeJob) -> None:
    def main() -> list[int]:
        for step in arrays.steps():
            if step == 0:
                job.kill(5)
                job.shrink(1)
            if apgas.resizes():
                return [place.id for place in apgas.places()]
        raise AssertionError

    job = apgas_job(main, places=6, places_per_node=2, resilient=True)
    assert job.run() == [0, 1, 2, 3]
    assert job.outcomes == ["done"]


def test_rows_come_back_when_a_shrink_is_aborted(apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    def main() -> None:
        array = arrays.from_function(lambda i: i, 12)
        courses: list[list[int]] = []
        with apgas.finish():
            may_leave = apgas.PlaceLocal(threading.Event)
            apgas.async_at(apgas.places()[-1], linger, may_leave)  # so it cannot leave in time
            for _ in arrays.steps():
                held = [place for place, _, _ in array.layout.blocks()]
                if held not in courses[-1:]:
                    courses.append(held)
                if len(courses) == 3:
                    break
            apgas.at(apgas.places()[-1], lambda: may_leave.get().set())
        assert courses == [[0, 1], [0], [0, 1]]
        assert array.gather().tolist() == list(range(12))

    monkeypatch.setattr("apgas.arrays.stepping.Deadlines", partial(apgas.Deadlines, drain_s=0.1))
    job = apgas_job(main, places=2)
    job.shrink(1)
    job.run()
    assert job.outcomes == ["aborted"]
    assert "did not drain" in job.resizes[0].reason


def linger(until: apgas.PlaceLocal[threading.Event]) -> None:
    assert until.get().wait(60)


# beside tasks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_glb_and_an_executor_work_in_the_same_job(apgas_job: MakeJob, seed: int) -> None:
    rng = random.Random(seed)
    orders = 5

    def main() -> None:
        table = arrays.from_function(lambda i: i, 20).freeze()
        numbers = arrays.from_function(lambda i: i, 20)
        steps = arrays.steps()
        with MalleableExecutor() as pool:
            for step in steps:
                tasks = [pool.submit(pow, task, 2) for task in range(30)]
                outcome = glb.compute(Numbers([1], 400), Total, glb.Config(workers=1, granularity=10, seed=step))
                assert outcome.result.done == Counter(range(1, 400))
                assert {*outcome.places} >= {0}
                arrays.map_blocks(note, numbers, 1.0)
                assert [task.result(20) for task in tasks] == [task**2 for task in range(30)]
                assert table.gather().tolist() == list(range(20))
                assert np.array_equal(numbers.gather(), (np.arange(20.0) + 1) * 2 ** (step + 1) - 1)
                if step > 6 and len(apgas.resizes()) == orders:
                    break
            refused(lambda: pool.resize(2), "resized between its steps")
            tasks = [pool.submit(where, 0.01) for _ in range(60)]
            assert {task.result(20) for task in tasks} == {place.id for place in apgas.places()}
        last = glb.compute(Numbers([1], 400), Total, glb.Config(workers=1, granularity=10))
        assert {*last.places} == {place.id for place in apgas.places()}

    job = apgas_job(main, places=rng.randint(2, 3))
    for _ in range(orders):
        resize = job.grow if rng.random() < 0.5 else job.shrink
        resize(rng.randint(1, 2), at_progress=rng.randint(1, 6))
    job.run()
    assert set(job.outcomes) <= {"done", "refused"}
    assert "done" in job.outcomes


def where(seconds: float) -> int:
    time.sleep(seconds)
    return apgas.here().id


def test_tasks_go_on_where_rows_were_to_leave(apgas_job: MakeJob) -> None:
    """An order that is taken back while it waits for a step: the executor and the balancer have all places again."""

    def main() -> None:
        array = arrays.from_function(lambda i: i, 12)
        steps = arrays.steps(2)
        next(steps)
        with MalleableExecutor() as pool:
            assert pool.submit(where, 0.0).result(20) in range(3)
            order = job.shrink(1)
            until_s = time.monotonic() + 20
            while not order.deferred:
                assert time.monotonic() < until_s
                time.sleep(0.01)
            order.withdraw()
            assert order.wait().outcome == "aborted"
            found: set[int] = set()
            while len(found) < 3:
                assert time.monotonic() < until_s
                found |= {task.result(20) for task in [pool.submit(where, 0.01) for _ in range(12)]}
        next(steps)
        outcome = glb.compute(Numbers([1], 400), Total, glb.Config(workers=1, granularity=10))
        assert {*outcome.places} == {0, 1, 2}
        assert owners_of(array) == [0, 1, 2]

    job = apgas_job(main, places=3)
    job.run()
    assert job.outcomes == ["aborted"]


def test_copies_count_as_long_as_no_rows_move(apgas_job: MakeJob) -> None:
    def main() -> None:
        table = arrays.from_function(lambda i: i, 12).freeze()
        spread = spread_of_program()
        ahead = spread.begin(apgas.places()[:2])
        assert ahead is not None
        spread.copy(ahead)
        spread.over(apgas.places())  # lets go of what has come
        spread.over(apgas.places()[:2], ahead)
        assert owners_of(table) == [0, 1]
        assert table.gather().tolist() == list(range(12))

    on_places(apgas_job, main)


def test_a_halo_of_one_row_needs_no_other_memory() -> None:
    held = Held((3,), float)
    held.expect(1, [(0, 100)])
    held.settle(1)
    first = held.local
    for width, same in ((1, True), (2, False)):
        held.reserve(width)
        assert np.may_share_memory(held.local, first) == same


def test_kept_rows_stay_in_memory_that_they_fill_half_of() -> None:
    held = Held((), float)
    held.expect(1, [(0, 100)])
    held.take(1, 0, np.arange(100.0))
    held.settle(1)
    first = held.local
    for move, ranges, same in ((2, (10, 70), True), (3, (10, 60), True), (4, (20, 60), False)):
        held.expect(move, [ranges])
        for start, rows in held.parts([ranges]):
            held.take(move, start, rows)
        held.settle(move)
        assert held.local.tolist() == list(range(*ranges))
        assert np.may_share_memory(held.local, first) == same


@pytest.mark.parametrize(
    "name",
    [
        *sorted({*arrays.__all__} - {"Block", "Halo", "Whole"}),
        *("BlockArray.freeze", "BlockArray.gather", "BlockArray.halo", "BlockArray.whole"),
    ],
)
def test_the_examples_work(apgas_job: MakeJob, name: str) -> None:
    def main() -> doctest.TestResults:
        value = operator.attrgetter(name)(arrays)
        test = doctest.DocTestParser().get_doctest(value.__doc__, {"apgas": apgas}, name, name, 0)
        return doctest.DocTestRunner(verbose=False).run(test)

    done = apgas_job(main, places=2).run()
    assert done.failed == 0
    assert done.attempted > 0


def refused(fn: Callable[[], object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        fn()


def test_what_makes_no_sense_is_refused_with_a_reason(apgas_job: MakeJob) -> None:
    def elsewhere() -> None:
        refused(lambda: arrays.zeros(3), "made and used on place 0, not on place")

    def main() -> None:
        array, other = arrays.zeros((4, 2)), arrays.zeros(5)
        refused(lambda: arrays.zeros((2, 2, 2)), r"cannot be \(2, 2, 2\)")
        refused(lambda: arrays.zeros(0), "a row at least")
        refused(lambda: arrays.from_array(3.0), r"cannot be \(\)")
        not_whole: Any = 2.5
        refused(lambda: arrays.zeros((not_whole, 3)), r"a tuple of those of rows and columns, not \(2.5, 3\)")
        refused(lambda: arrays.zeros(not_whole), "a shape is a whole number of rows.*, not 2.5")
        refused(lambda: arrays.from_function(np.copy, cast("Any", "ab")), "a shape is .*, not 'ab'")
        refused(lambda: arrays.zeros(3, block=not_whole), "block is a whole number of rows.*, not 2.5")
        refused(lambda: array.halo(not_whole), "width of a halo is a whole number of rows, not 2.5")
        refused(lambda: arrays.steps(not_whole), "a whole number of steps, or None, not 2.5")
        refused(lambda: array.halo(0), "at least 1 row, not 0")
        refused(lambda: arrays.map_blocks(len_of, array, other), "there are 4, 5")
        refused(lambda: arrays.map_blocks(len_of, 3), "there are none")
        refused(lambda: arrays.map_blocks(len_of, array.halo(1), array.halo(2)), "one halo")
        refused(lambda: array @ np.zeros(3), r"\(4, 2\) cannot be multiplied with one of shape \(3,\)")
        refused(lambda: arrays.steps(-1), "not -1")
        refused(lambda: arrays.steps(redundancy=2), "or 0, not 2")
        refused(lambda: arrays.zeros(3, block=-1), "not -1")
        refused(lambda: arrays.map_blocks(len_of, array, arrays.zeros(4, block=1)), "those of block=0, 1")
        with pytest.raises(TypeError, match="stays on place 0"):
            pickle.dumps(array)
        apgas.at(apgas.places()[-1], elsewhere)
        with pytest.raises(ExceptionGroup) as found:
            arrays.map_blocks(fail, array)
        assert len(found.value.exceptions) == 3
        assert float(array.sum()) == 0.0

    on_places(apgas_job, main)


def test_numpy_gathers_an_array_that_it_is_given_but_computes_nothing_with_it(apgas_job: MakeJob) -> None:
    def main() -> None:
        array, expected = arrays.from_function(lambda i, j: i + j, (4, 2)), np.add.outer(range(4), range(2))
        found = np.asarray(array)
        assert found.dtype == array.dtype
        assert np.array_equal(found, expected)
        assert np.asarray(array, dtype=np.int8).tolist() == expected.tolist()
        assert np.array([array, array]).shape == (2, 4, 2)
        assert arrays.from_array(array).gather().tolist() == expected.tolist()
        with pytest.raises(ValueError, match="a NumPy array of them is a copy"):
            array.__array__(copy=False)
        calls: list[Callable[[Any], object]] = [
            np.sin,
            lambda array: expected + array,
            lambda array: np.float64(2) * array,
            lambda array: np.add(expected, 1, out=array),
        ]
        for call in calls:
            with pytest.raises(TypeError, match=r"does not work on BlockArray\(\(4, 2\).*map_blocks"):
                call(array)
        with pytest.raises(TypeError, match="unsupported operand"):
            array + 1  # type: ignore[operator]  # that is what this is about

    on_places(apgas_job, main)


def test_numpys_own_reductions_reduce_where_the_blocks_are(apgas_job: MakeJob) -> None:
    def main() -> None:
        array, expected = arrays.from_function(lambda i, j: i + j, (4, 2)), np.add.outer(range(4), range(2))
        for name in ("sum", "max", "min"):
            assert getattr(np, name)(array) == getattr(np, name)(expected) == getattr(array, name)()
        with pytest.raises(apgas.UsageError, match=r"sum of BlockArray.* without axis: gather\(\) it"):
            np.sum(array, axis=0)
        assert (array @ [1, 2]).gather().tolist() == (expected @ [1, 2]).tolist()
        refused(lambda: array @ 3, "cannot be multiplied with one of shape")

    on_places(apgas_job, main)


def test_numbers_may_be_those_of_numpy(apgas_job: MakeJob) -> None:
    def main() -> None:
        of_one, of_two = arrays.zeros(np.int64(5), block=np.int8(2)), arrays.zeros((np.int32(5), np.int64(2)))
        assert (of_one.shape, of_one.block, of_two.shape) == ((5,), 2, (5, 2))
        assert {type(number) for number in (*of_one.shape, of_one.block, *of_two.shape)} == {int}
        assert arrays.map_blocks(lambda block: len(block.padded), of_one.halo(np.int64(1))) == [4, 4, 3]
        assert list(arrays.steps(np.int64(2))) == [0, 1]

    on_places(apgas_job, main)


def fail(block: arrays.Block) -> None:
    raise ValueError(block.rows)


def test_a_program_with_a_handler_of_its_own_hears_that_there_is_one(apgas_job: MakeJob) -> None:
    def main() -> None:
        apgas.define_malleable_handler(ReleaseNewest())
        refused(lambda: arrays.steps(3), "arrays.steps registers a handler of the arrays")

    on_places(apgas_job, main)
