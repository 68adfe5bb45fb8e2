"""Operations on arrays: the order in which a place carries them out, and what place 0 hears of them."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from operator import methodcaller
from typing import Any, NamedTuple

import numpy as np
import pytest

import apgas
from apgas import arrays
from apgas.arrays.operations import Operation, Part, Start, _Worker, _worker, operations, simple
from apgas.arrays.spread import Spread, spread_of_program
from apgas.arrays.turns import AllGather, Begin, Run, Share, Skip, Turns
from apgas.errors import CancelledError, DeadPlaceError, UsageError
from apgas.testing.pytest_plugin import MakeJob

# the protocol, on places without threads ------------------------------------------------------------------------------


class Order(NamedTuple):
    """An operation as a simulated place knows it.

    It sends rows to its targets, and awaits some; it may return values, which all its places get, and may need those of
    another operation. No operation from now on needs those of one before the oldest.
    """

    targets: tuple[int, ...]
    awaited: int
    places: tuple[int, ...]
    needs: tuple[int, ...]
    oldest: int


class Simulated:
    """Places and place 0; messages are delivered in any order."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.places = list(range(self.rng.randint(1, 4)))
        self.turns: dict[int, Turns[Order, int]] = {place: Turns() for place in self.places}
        self.mail: list[tuple[int, Callable[[], None]]] = []
        self.remaining: dict[int, set[int]] = {}
        self.before: dict[int, dict[int, int]] = {}
        self.ran: defaultdict[int, list[int]] = defaultdict(list)
        self.said: defaultdict[int, list[int]] = defaultdict(list)
        self.failed: set[int] = set()
        self.last: dict[int, int] = {}
        self.needs: dict[int, tuple[int, ...]] = {}
        self.gathers: dict[int, defaultdict[int, AllGather[Any]]] = {
            place: defaultdict(AllGather) for place in self.places
        }

    def send(self, to: int, act: Callable[[], None]) -> None:
        self.mail.append((to, act))

    def start(self, number: int) -> None:
        """(place 0) Some places have part in an operation; the order may be lost on its way to one of them."""
        some = self.rng.sample(self.places, self.rng.randint(1, len(self.places)))
        involved = some if self.rng.random() < 0.4 else self.places
        going_on = [each for each, left in self.remaining.items() if left and each not in self.failed]
        pending = [each for each in going_on if self.before[each].keys() == set(involved)]
        self.needs[number] = tuple(self.rng.sample(pending, self.rng.randint(0, min(2, len(pending)))))
        pairs = [(a, b) for a in involved for b in involved if a != b and self.rng.random() < 0.6]
        self.before[number] = {place: self.last.get(place, -1) for place in involved}
        self.remaining[number] = set(involved)
        for place in involved:
            self.last[place] = number
            targets, awaited = tuple(b for a, b in pairs if a == place), sum(b == place for _, b in pairs)
            oldest = min(each for each, left in self.remaining.items() if left)
            order = Order(targets, awaited, tuple(sorted(involved)), self.needs[number], oldest)
            if self.rng.random() < 0.1:
                self.failed.add(number)
                self.send(-1, partial(self.fail, number, place))
            else:
                turns, before = self.turns[place], self.before[number][place]
                self.send(place, partial(turns.start, number, before, order))

    def fail(self, number: int, place: int) -> None:
        """(place 0) A place does not know of an operation, or has sent no rows."""
        self.skip(number)
        self.remaining[number].discard(place)

    def skip(self, number: int) -> None:
        """(place 0) An operation fails, and what needs its values."""
        self.failed.add(number)
        for other in self.remaining[number]:
            self.send(other, partial(self.turns[other].skip, number, self.before[number][other]))
        for dependent, needs in self.needs.items():
            if number in needs and dependent not in self.failed:
                self.skip(dependent)

    def done(self, number: int, place: int) -> None:
        self.remaining[number].discard(place)

    def end(self, number: int, place: int) -> None:
        """(a place) An operation is over."""
        self.turns[place].end()
        self.said[place].append(number)
        self.send(-1, partial(self.done, number, place))

    def share(self, place: int, number: int, change: Callable[[AllGather[Any]], list[Share[Any]]]) -> None:
        """(a place) Something is known of the values of an operation."""
        for to, round_, values in change(self.gathers[place][number]):
            self.send(to, partial(self.share, to, number, methodcaller("come", round_, values)))
        if self.gathers[place][number].all() is not None:
            self.turns[place].know(number)

    def work(self, place: int) -> None:
        """(a place) Do what is to be done now."""
        turns = self.turns[place]
        match turns.step():
            case Begin(number, order):
                if self.rng.random() < 0.1:
                    self.end(number, place)
                    self.send(-1, partial(self.fail, number, place))
                    return
                for target in order.targets:
                    self.send(target, partial(self.turns[target].come, number, place))
                turns.await_rows(order.awaited, order.needs)
                turns.forget(order.oldest)
                for old in [each for each in self.gathers[place] if each < order.oldest]:
                    del self.gathers[place][old]
            case Run(number, order, rows):
                assert len(rows) == order.awaited
                for needed in order.needs:
                    values = self.gathers[place][needed].all()
                    assert values == {other: (needed, other) for other in order.places}
                self.ran[number].append(place)
                self.share(place, number, methodcaller("begin", order.places, place, (number, place)))
                self.end(number, place)
            case Skip(number):
                assert number in self.failed
                self.end(number, place)
            case None:
                pass


@pytest.mark.parametrize("seed", range(300))
def test_every_place_says_once_of_each_operation_that_it_is_over(seed: int) -> None:
    simulated = Simulated(seed)
    rng, operations_left = simulated.rng, list(range(12))
    idle = 0
    while idle < 200:
        idle += 1
        choice = rng.random()
        if operations_left and choice < 0.2:
            simulated.start(operations_left.pop(0))
        elif simulated.mail and choice < 0.6:
            simulated.mail.pop(rng.randrange(len(simulated.mail)))[1]()
            idle = 0
        else:
            simulated.work(rng.choice(simulated.places))
        idle = 0 if operations_left else idle
    assert not any(simulated.remaining.values()), "some operation has not ended"
    for place in simulated.places:
        assert simulated.said[place] == [number for number, before in simulated.before.items() if place in before]
        assert simulated.turns[place].idle
        assert not simulated.turns[place]._rows or simulated.failed
    for number, before in simulated.before.items():
        if number not in simulated.failed:
            assert sorted(simulated.ran[number]) == sorted(before), "it ran everywhere, once"


@pytest.mark.parametrize("seed", range(60))
def test_all_get_the_values_of_all_with_few_messages(seed: int) -> None:
    rng = random.Random(seed)
    members = rng.sample(range(100), rng.randint(1, 20))
    gathers: dict[int, AllGather[int]] = {member: AllGather() for member in members}
    sent: Counter[int] = Counter()
    beginning, mail = [*members], list[tuple[int, Share[int]]]()
    while beginning or mail:
        if beginning and (not mail or rng.random() < 0.3):
            member = beginning.pop(rng.randrange(len(beginning)))
            shares = gathers[member].begin(members, member, -member)
        else:
            member, share = mail.pop(rng.randrange(len(mail)))
            shares = gathers[member].come(share.round, share.values)
        sent[member] += len(shares)
        mail += [(share.member, share) for share in shares]
        if beginning:
            assert gathers[beginning[0]].all() is None
    assert all(gather.all() == {member: -member for member in members} for gather in gathers.values())
    assert set(sent.values()) <= {(len(members) - 1).bit_length()}


def test_simple_values_are_those_that_any_place_can_read() -> None:
    assert simple([1, 2.5, "a", None, np.float32(1), np.ones(3), (True, b"x")])
    for value in (object(), range(3), np.array([object()]), [[{}]], list(range(2000)), float):
        assert not simple(value)


# updates --------------------------------------------------------------------------------------------------------------


def add(block: arrays.Block, by: float) -> None:
    block.local += by


def add_to(by: float, block: arrays.Block) -> None:
    block.local += by


def add_all(block: arrays.Block, near: arrays.Block) -> None:
    block.local = near.padded[:-2] + block.local + near.padded[2:]


def fail_on(block: arrays.Block, place: int) -> None:
    if apgas.here().id == place:
        raise ValueError(f"on {place}")


SLOW = threading.Event()


def hold_up(block: arrays.Block) -> None:
    """Wait, on one place, for place 0 to go on."""
    if apgas.here().id == 1:
        assert SLOW.wait(30)
    block.local += 1


def hold_all_up(block: arrays.Block) -> None:
    assert SLOW.wait(30)
    block.local += 1


def test_updates_go_on_while_place_0_does_and_all_else_comes_after_them(apgas_job: MakeJob) -> None:
    def main() -> None:
        SLOW.clear()
        numbers = arrays.from_function(lambda i: i, 9)
        arrays.update_blocks(hold_up, numbers)
        arrays.update_blocks(add, numbers, 10)
        SLOW.set()  # place 0 has not waited
        assert numbers.sum() == 36 + 9 * 11
        arrays.update_blocks(add, numbers, 1)
        assert np.array_equal(numbers.local, np.arange(3.0) + 12)
        arrays.update_blocks(add, numbers, 1)
        assert arrays.reduce_blocks(lambda block: block.local.sum(), numbers) == 36 + 9 * 13
        arrays.update_blocks(add, numbers, 1)
        assert np.array_equal(numbers.freeze().gather(), np.arange(9.0) + 14)

    apgas_job(main, places=3).run()


@pytest.mark.parametrize("places", [1, 3])
def test_arguments_and_functions_are_those_of_the_call(apgas_job: MakeJob, places: int) -> None:
    def main() -> None:
        numbers = arrays.zeros(6)
        by, box = np.ones(1), [5.0]
        arrays.update_blocks(lambda block, by: block.local.__iadd__(by), numbers, by)
        by += 100
        for each in (1.0, 2.0):
            arrays.update_blocks(lambda block: block.local.__iadd__(each), numbers)  # noqa: B023 - that is the point
        arrays.update_blocks(lambda block, box: block.local.__iadd__(box[0]), numbers, box)
        box[0] = 1000.0
        assert numbers.gather().tolist() == [9.0] * 6

    apgas_job(main, places=places).run()


@pytest.mark.parametrize("place", [0, 2])
def test_what_an_update_raises_is_raised_later_and_by_the_finish_around(apgas_job: MakeJob, place: int) -> None:
    def main() -> None:
        numbers = arrays.zeros(9)

        def fail_and_go_on() -> None:
            with apgas.finish():
                arrays.update_blocks(fail_on, numbers, place)
                arrays.update_blocks(add, numbers, 1)

        with pytest.raises(ExceptionGroup) as around:
            fail_and_go_on()
        assert around.group_contains(ValueError, match=f"on {place}")
        with pytest.raises(ExceptionGroup) as found:
            numbers.gather()
        assert found.group_contains(ValueError)
        assert numbers.gather().tolist() == [1.0] * 9, "the next update was carried out"

    apgas_job(main, places=3).run()
    with pytest.raises(ExceptionGroup) as end:
        apgas_job(lambda: arrays.update_blocks(fail_on, arrays.zeros(9), place), places=3).run()
    assert end.group_contains(ValueError)


@pytest.mark.parametrize("seed", range(12))
def test_rows_are_right_in_a_loop_of_updates_that_is_resized(apgas_job: MakeJob, seed: int) -> None:
    rng = random.Random(seed)
    steps, block = 20, rng.choice([0, 2])

    def main() -> Any:
        numbers, other = (arrays.from_function(lambda i: i % 3, 17, block=block) for _ in range(2))
        for step in arrays.steps(steps):
            arrays.update_blocks(add_all, other, numbers.halo(1))
            numbers, other = other, numbers
            if step % 7 == 6:
                assert numbers.max() < 3.0**9 * 3.0**12
            arrays.update_blocks(copy, other, numbers)
        return numbers.gather()

    expected = np.arange(17.0) % 3
    for _ in range(steps):
        padded = np.concatenate([[0], expected, [0]])
        expected = padded[:-2] + expected + padded[2:]
    job = apgas_job(main, places=rng.randint(1, 4))
    for _ in range(4):
        resize = job.grow if rng.random() < 0.6 else job.shrink
        resize(rng.randint(1, 2), at_progress=rng.randint(1, 15))
    assert np.array_equal(job.run(), expected)


def copy(to: arrays.Block, block: arrays.Block) -> None:
    to.local = block.local


@pytest.mark.parametrize("seed", range(8))
def test_a_loss_ends_updates_and_what_comes_after_them(apgas_job: MakeJob, seed: int) -> None:
    rng = random.Random(seed)

    def main() -> None:
        numbers = arrays.zeros(40)
        kill = threading.Timer(rng.random() * 0.02, job.kill, [rng.randint(1, 3)])
        kill.start()

        def update_for_ever() -> None:
            value: Any = 0
            while True:
                arrays.update_blocks(add_all, numbers, numbers.halo(1))
                arrays.update_blocks(add, numbers, value)
                value = arrays.reduce_blocks(total, numbers, wait=False)

        with pytest.raises(ExceptionGroup) as found:
            update_for_ever()
        assert found.group_contains(DeadPlaceError)
        kill.join()
        until_s = time.monotonic() + 20
        while operations.get()._open:
            assert time.monotonic() < until_s, "an operation has not ended"
            time.sleep(0.01)
        with pytest.raises(ExceptionGroup):
            numbers.gather()

    job = apgas_job(main, places=4, resilient=True)
    with contextlib.suppress(ExceptionGroup):  # an update may have been under way
        job.run()


# values that are reduced meanwhile -----------------------------------------------------------------------------------


@pytest.fixture
def far_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Place 0 starts all updates at once, and the first ones wait for ``SLOW``."""

    def update(self: Spread, start: Callable[[], Operation]) -> Operation:
        operation = start()
        self._updates.append(operation)
        return operation

    monkeypatch.setattr(Spread, "update", update)
    SLOW.clear()


def total(block: arrays.Block) -> Any:
    return block.local.sum()


def total_and_rows(block: arrays.Block) -> Any:
    return block.local.sum(), len(block.rows)


def divide(block: arrays.Block, by: float) -> Any:
    block.local /= by
    return block.local.max()


def own_row(block: arrays.Block) -> Any:
    return block.local[:1]


@pytest.mark.parametrize("seed", range(20))
def test_places_have_reduced_values_of_one_another(apgas_job: MakeJob, seed: int) -> None:
    rng = random.Random(seed)
    block, places = rng.choice([0, 0, 2]), rng.randint(1, 6)

    def main() -> None:
        numbers, same = (arrays.from_function(lambda i: i + 1, 24, block=block) for _ in range(2))
        last: Any = 3.0
        for step in range(30):
            added = arrays.reduce_blocks(total, numbers, wait=False)
            largest = arrays.reduce_blocks(divide, numbers, added, op=max, wait=False)
            arrays.update_blocks(add, numbers, largest)
            arrays.update_blocks(add, numbers, last)
            divided = arrays.reduce_blocks(divide, same, arrays.reduce_blocks(total, same), op=np.maximum)
            arrays.map_blocks(add, same, divided)
            arrays.map_blocks(add, same, last if step == 0 else last.result())
            last = added
        assert np.array_equal(numbers.gather(), same.gather())
        both = arrays.reduce_blocks(total_and_rows, numbers, wait=False)
        assert both.result() == both.result() == arrays.reduce_blocks(total_and_rows, numbers)
        assert max(apgas.gather(values_kept).values()) <= 64

    apgas_job(main, places=places).run()


def values_kept() -> int:
    worker = _worker.get()
    return len(worker._returned) + len(worker._reducing) + len(worker.turns._known)


@pytest.mark.usefixtures("far_ahead")
@pytest.mark.parametrize("places", [1, 3])
def test_values_are_those_of_when_they_were_returned(apgas_job: MakeJob, places: int) -> None:
    def main() -> None:
        numbers = arrays.from_function(lambda i: i - 1, 6)
        arrays.update_blocks(hold_all_up, numbers)
        rows = arrays.reduce_blocks(own_row, numbers, wait=False)  # a view of a block
        arrays.update_blocks(add, numbers, 100)
        arrays.update_blocks(add, numbers, rows)
        arrays.update_blocks(lambda block, rows: rows.__iadd__(1), numbers, rows)
        arrays.update_blocks(add, numbers, rows)
        SLOW.set()
        added = 0.0 if places == 1 else 0.0 + 2 + 4
        assert rows.result().tolist() == [added]
        assert numbers.gather().tolist() == [100 + 2 * added + i for i in range(6)]

    apgas_job(main, places=places).run()


@pytest.mark.usefixtures("far_ahead")
def test_a_value_is_for_arrays_on_other_places_too_and_later(apgas_job: MakeJob) -> None:
    def main() -> None:
        numbers, few = arrays.from_function(lambda i: i - 1, 9), arrays.zeros(2)
        arrays.update_blocks(hold_all_up, numbers)
        threading.Timer(0.1, SLOW.set).start()
        value = arrays.reduce_blocks(total, numbers, wait=False)
        arrays.update_blocks(add, few, value)
        fewer = arrays.reduce_blocks(total, few, wait=False)
        arrays.update_blocks(add, numbers, fewer)
        spread_of_program().await_updates()
        arrays.update_blocks(add, numbers, value)
        assert (few.sum(), numbers.sum()) == (72, 36 + 9 * 72 + 9 * 36)
        for wrong in ([value], {"value": value}):
            with pytest.raises(TypeError, match="argument of its own"):
                arrays.update_blocks(add, numbers, wrong)
        with pytest.raises(TypeError, match="lock, which cannot be pickled"):
            arrays.update_blocks(add, numbers, threading.Lock())

    apgas_job(main, places=3).run()


@pytest.mark.usefixtures("far_ahead")
@pytest.mark.parametrize("place", [0, 2])
def test_what_needs_a_value_that_is_not_fails_and_nothing_else(apgas_job: MakeJob, place: int) -> None:
    def main() -> None:
        numbers = arrays.zeros(9)

        def fail_and_go_on() -> None:
            with apgas.finish():
                arrays.update_blocks(hold_all_up, numbers)
                value = arrays.reduce_blocks(fail_on, numbers, place, wait=False)
                further = arrays.reduce_blocks(divide, numbers, value, wait=False)
                arrays.update_blocks(add, numbers, further)
                arrays.update_blocks(add, numbers, 1)
                SLOW.set()
                with pytest.raises(ExceptionGroup) as found:
                    value.result()
                assert found.group_contains(ValueError)
                with pytest.raises(ExceptionGroup) as found:
                    further.result()
                assert found.group_contains(CancelledError)

        with pytest.raises(ExceptionGroup) as around:
            fail_and_go_on()
        assert around.group_contains(ValueError, match=f"on {place}")
        assert not around.group_contains(CancelledError), "what went wrong is said once"
        for _ in range(3):
            with pytest.raises(ExceptionGroup):
                numbers.gather()
        assert numbers.gather().tolist() == [2.0] * 9

    apgas_job(main, places=3).run()


def test_what_is_reduced_meanwhile_is_made_of_numbers(apgas_job: MakeJob) -> None:
    def main() -> None:
        value = arrays.reduce_blocks(lambda block: {"sum": block.local.sum()}, arrays.zeros(9), wait=False)
        with pytest.raises(ExceptionGroup) as found:
            value.result()
        assert found.group_contains(UsageError, match="numbers and arrays")

    with pytest.raises(ExceptionGroup):
        apgas_job(main, places=3).run()


@pytest.mark.parametrize("redundancy", [0, 1])
@pytest.mark.parametrize("seed", range(6))
def test_values_are_right_in_a_loop_that_is_resized(apgas_job: MakeJob, seed: int, redundancy: int) -> None:
    rng = random.Random(seed)
    block = rng.choice([0, 2])

    def main() -> Any:
        numbers = arrays.from_function(lambda i: i % 3 + 1, 17, block=block)
        largest: Any = 1.0
        for _ in arrays.steps(20, redundancy=redundancy):
            arrays.update_blocks(add, numbers, largest)
            largest = arrays.reduce_blocks(divide, numbers, largest, op=np.maximum, wait=False)
        return numbers.gather()

    expected, largest = np.arange(17.0) % 3 + 1, 1.0
    for _ in range(20):
        expected = (expected + largest) / largest
        largest = expected.max()
    job = apgas_job(main, places=rng.randint(1, 4), resilient=bool(redundancy))
    for _ in range(4):
        resize = job.grow if rng.random() < 0.6 else job.shrink
        resize(rng.randint(1, 2), at_progress=rng.randint(1, 15))
    assert np.array_equal(job.run(), expected)


# what operations are to arrays ----------------------------------------------------------------------------------------


def test_functions_are_sent_once_and_arrays_live_no_longer_than_the_program_wants(apgas_job: MakeJob) -> None:
    def main() -> None:
        numbers = arrays.zeros(9)
        for _ in range(5):
            arrays.update_blocks(add_to, 1, numbers)
        spread_of_program().await_updates()
        before = apgas.statistics().messages_sent
        for number in range(10):
            arrays.update_blocks(partial(add_to, number), numbers)
        spread_of_program().await_updates()
        assert apgas.statistics().messages_sent - before == 20  # an order each to two places
        ref = numbers.held._handle.ref
        held = lambda: ref in apgas.runtime.driver.required_driver().objects.local  # noqa: E731 - sent as it is
        assert all(apgas.gather(held).values())
        arrays.update_blocks(add_to, 1, numbers)
        del numbers  # nothing waits for the update any more
        until_s = time.monotonic() + 20
        while any(apgas.gather(held).values()):
            assert time.monotonic() < until_s, "a plan keeps the array"
            time.sleep(0.01)

    apgas_job(main, places=3).run()


def parts_kept() -> int:
    return len(_worker.get().parts)


def test_places_keep_few_parts(apgas_job: MakeJob) -> None:
    def main() -> None:
        for _ in range(50):
            numbers = arrays.zeros(9)
            arrays.map_blocks(add, numbers, 1)
            assert numbers.sum() == 9
        assert max(apgas.gather(parts_kept).values()) <= 32

    apgas_job(main, places=2).run()


def spawn_and_return(block: arrays.Block, done: apgas.PlaceLocal[list[int]]) -> None:
    def append_late() -> None:
        time.sleep(0.05)
        done.get().append(1)

    apgas.async_(append_late)


def spawn_what_fails(block: arrays.Block) -> None:
    apgas.async_(fail_on, block, apgas.here().id)


def test_what_a_function_has_spawned_is_waited_for_and_may_fail(apgas_job: MakeJob) -> None:
    def main() -> None:
        numbers, done = arrays.zeros(9), apgas.PlaceLocal[list[int]](list)
        arrays.map_blocks(spawn_and_return, numbers, done)
        assert sum(map(len, apgas.gather(done.get).values())) == 3
        with pytest.raises(ExceptionGroup) as found:
            arrays.map_blocks(spawn_what_fails, numbers)
        assert found.group_contains(ValueError)

    apgas_job(main, places=3).run()


def test_a_function_on_blocks_does_not_use_arrays_itself(apgas_job: MakeJob) -> None:
    def main() -> None:
        numbers = arrays.zeros(9)
        with pytest.raises(ExceptionGroup) as found:
            arrays.map_blocks(lambda block: numbers.sum(), numbers)
        assert found.group_contains(UsageError, match="part of an operation")

    apgas_job(main, places=1).run()


def test_an_operation_waits_for_its_part_which_another_one_brings() -> None:
    worker = _Worker()
    part = Part(add, (), {}, 0, None, (0, 1))
    worker.start(Start(4, 3, 7, (1,), False, 0))
    worker.turns.skip(3, -1)
    assert worker.turns.step() == Skip(3)
    worker.turns.end()
    assert worker.turns.step() is None
    worker.start(Start(3, -1, 7, (2,), False, 0, part))
    assert worker.turns.step() == Begin(4, (Start(4, 3, 7, (1,), False, 0), part))


@pytest.mark.usefixtures("far_ahead")
def test_what_relies_on_a_part_that_cannot_be_read_fails_with_it(apgas_job: MakeJob) -> None:
    def main() -> None:
        numbers = arrays.zeros(9)

        def fail_and_go_on() -> None:
            with apgas.finish():
                arrays.update_blocks(add, numbers, Unreadable(after_s=0.2, but_on_0=True))
                for _ in range(5):
                    arrays.update_blocks(add, numbers, 1)

        with pytest.raises(ExceptionGroup) as found:
            fail_and_go_on()
        assert found.group_contains(ValueError, match="cannot be read")
        assert not found.group_contains(KeyError)
        while True:
            try:
                numbers.gather()
            except ExceptionGroup:
                continue
            break
        arrays.update_blocks(add, numbers, 1)
        assert len({*numbers.gather()}) <= 2

    apgas_job(main, places=3).run()


def unreadable(after_s: float, but_on_0: bool) -> float:
    if but_on_0 and apgas.here().id == 0:
        return 0.0
    time.sleep(after_s)
    raise ValueError("this cannot be read")


class Unreadable:
    def __init__(self, after_s: float = 0.0, *, but_on_0: bool = False) -> None:
        self.given = (after_s, but_on_0)

    def __reduce__(self) -> Any:
        return unreadable, self.given


def test_what_cannot_be_sent_or_read_fails_the_operation_and_nothing_else(apgas_job: MakeJob) -> None:
    def main() -> None:
        numbers = arrays.zeros(9)
        for call in (
            lambda: arrays.map_blocks(add, numbers, Unreadable()),
            lambda: arrays.map_blocks(lambda block: Unreadable(), numbers),
            lambda: arrays.map_blocks(add, numbers, threading.Lock()),
        ):
            with pytest.raises(ExceptionGroup):
                call()
            arrays.update_blocks(add_all, numbers, numbers.halo(1))
        assert numbers.gather().tolist() == [0.0] * 9

    apgas_job(main, places=3).run()
