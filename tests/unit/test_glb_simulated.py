"""The balancer on simulated places, under orders at chosen moments: nothing is lost, nothing done twice."""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NoReturn

import pytest
from numbered import Numbers, Total
from support import PATIENCE_S
from support.orders import wait_for

import apgas
import glb
from apgas.core.place import PlaceCore as ApgasCore
from apgas.core.relay import branches
from apgas.runtime import serialization
from apgas.testing.handlers import ReleaseNewest
from apgas.testing.job import InProcessPlaces, Job, Order
from apgas.testing.pytest_plugin import MakeJob
from glb import affinity, messages, runner
from glb.config import freeze
from glb.coordinator import Computation, Progress
from glb.core import pacing
from glb.core.pacing import Granularity
from glb.core.place import EXPECTED_CALLS, PlaceCore
from glb.runner import PlaceRunner, Slot

LIMIT = 3000


def compute(orders: int, computations: int = 1) -> int:
    """Computes until that many orders have ended; returns how often."""
    done = 0
    while done < computations or len(apgas.resizes()) < orders:
        config = glb.Config(workers=1, granularity=10, seed=done)
        outcome = glb.compute(Numbers([1], LIMIT), Total, config)
        assert outcome.result.done == Counter(range(1, LIMIT))
        done += 1
    return done


def test_a_computation_grows_and_shrinks(apgas_job: MakeJob) -> None:
    job = apgas_job(compute, 3, places=2)
    job.grow(2)
    job.shrink(1)
    job.shrink(2)
    assert job.run() >= 1
    assert job.outcomes == ["done"] * 3


given_to_1 = threading.Event()
take_bag, join_late = messages.receive, runner.join_late


def note_and_receive(number: int, bag: object, nonce: int | None) -> None:
    if apgas.here().id == 1:
        given_to_1.set()
    take_bag(number, bag, nonce)


def join_slowly(*words: Any) -> object:
    if apgas.here().id == 2:
        assert not given_to_1.wait(0.2)
    return join_late(*words)


def test_newcomers_give_each_other_nothing_before_all_have_joined(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of two would have work at once, and knows that the second one will ask it for some."""
    given_to_1.clear()
    monkeypatch.setattr(messages, "receive", note_and_receive)
    monkeypatch.setattr(runner, "join_late", join_slowly)

    def main() -> None:
        outcome = glb.compute(Numbers([1], LIMIT), Total, glb.Config(workers=1, rate=5000))
        assert outcome.result.done == Counter(range(1, LIMIT))

    job: Job[None] = apgas_job(main, places=1)
    job.grow(2)
    job.run()
    assert job.outcomes == ["done"]


asked: Counter[int] = Counter()
collect_results = messages.collect


def note_and_collect(number: int, below: Sequence[int], running_s: float) -> object:
    asked[apgas.here().id] = max(asked[apgas.here().id], len(branches(below, messages.FAN)))
    return collect_results(number, below, running_s)


def test_reports_and_results_of_many_places_go_by_way_of_others(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a place has children in the trees, which come and go while they report."""
    asked.clear()
    relays: Counter[int] = Counter()
    take_reports = ApgasCore._take_reports

    def note_reports(self: ApgasCore, *words: Any) -> Any:
        relays[self.here] += 1
        return take_reports(self, *words)

    monkeypatch.setattr(ApgasCore, "_take_reports", note_reports)
    monkeypatch.setattr(messages, "collect", note_and_collect)
    monkeypatch.setattr(ApgasCore, "degree", 3)
    monkeypatch.setattr(messages, "FAN", 3)
    job = apgas_job(compute, 3, places=12)
    job.grow(8)
    job.shrink(10)
    job.grow(3)
    job.run()
    assert job.outcomes == ["done"] * 3
    assert relays.keys() - {0}, "no place has passed anything on"
    assert max(asked.values()) == asked[0] == 3
    assert sum(count > 0 for count in asked.values()) > 1, "place 0 has asked all of them"


class Failing(Numbers):
    """Fails at once."""

    def process(self, n: int) -> NoReturn:
        raise ValueError(n)


forgotten: set[int] = set()


def note_and_forget(_: int) -> None:
    forgotten.add(apgas.here().id)


def runners() -> int:
    return len(messages._runners.get())


def test_a_computation_is_forgotten_with_its_results_and_costs_place_0_no_more_messages(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main() -> None:
        glb.compute(Numbers([1], LIMIT), Total, glb.Config(workers=1, granularity=10))
        assert [*apgas.gather(runners).values()] == [0] * 4
        assert not forgotten
        with pytest.raises(ExceptionGroup):
            glb.compute(Failing([1], LIMIT), Total, glb.Config(workers=1, granularity=10))
        apgas.gather(runners)  # behind the messages
        assert forgotten >= {1, 2, 3}

    forgotten.clear()
    monkeypatch.setattr(messages, "forget", note_and_forget)
    apgas_job(main, places=4).run()


def test_what_a_place_has_said_before_its_result_may_come_after_it() -> None:
    """Results come by way of others, reports of progress do not."""
    progress = Progress(lambda _: None)
    progress.update(1, 5)
    progress.close(7)
    progress.update(1, 6)
    assert (progress.tasks, progress.by_place()) == (7, {})


def test_what_a_kept_bag_refers_to_stays(apgas_job: MakeJob) -> None:
    """A bag in a backup may be the only one that refers to an object of a place."""

    def main() -> None:
        bag = Referring([1])
        kept = freeze(bag)
        del bag
        later = Numbers([])
        gone = weakref.ref(later)
        apgas.GlobalRef(later)
        del later
        wait_for(lambda: gone() is None)  # what nothing refers to is let go of in order
        assert serialization.loads(kept).ref.get() == "kept"

    apgas_job(main, places=1).run()


class Referring(Numbers):
    """Refers to an object."""

    def __init__(self, tasks: list[int]) -> None:
        super().__init__(tasks)
        self.ref = apgas.GlobalRef("kept")


def test_whole_nodes_leave(apgas_job: MakeJob) -> None:
    job = apgas_job(compute, 3, places=4, places_per_node=2)
    job.grow(1)
    job.shrink(1, wish=["node1"])
    job.shrink(1)
    job.run()
    assert job.outcomes == ["done"] * 3
    assert [record.places for record in job.resizes] == [(4, 5), (2, 3), (4, 5)]


def test_computations_and_programs_one_after_another(apgas_job: MakeJob) -> None:
    for _ in range(3):
        assert apgas_job(compute, 0, 3).run() == 3


work_off = PlaceRunner._process


def leave_late(self: PlaceRunner[Total], own: Slot, bag: glb.Bag[Total]) -> None:
    """Is held up between giving its slot back and leaving it."""
    work_off(self, own, bag)
    time.sleep(0.005)


def test_a_slot_has_one_worker_at_a_time(apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    spans: dict[tuple[int, str], list[tuple[float, float]]] = {}

    def note(kind: str, _: str, began: float, ended: float, *, row: str) -> None:
        spans.setdefault((apgas.here().id, row), []).append((began, ended))

    monkeypatch.setattr(PlaceRunner, "_process", leave_late)
    monkeypatch.setattr(apgas, "trace_between", note)

    def main() -> None:
        outcome = glb.compute(Numbers([1], LIMIT), Total, glb.Config(workers=2, granularity=10))
        assert outcome.result.done == Counter(range(1, LIMIT))

    apgas_job(main, places=2).run()
    assert set(spans) == {(place, f"worker {slot}") for place in range(2) for slot in range(2)}
    for each in spans.values():
        assert all(began <= ended for began, ended in each)
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(each)))


class CutsANode(ReleaseNewest):
    """Chooses a part of a node first, then leaves the choice to the balancer."""

    def __init__(self) -> None:
        self.aborted: list[list[int]] = []

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        return [] if self.aborted else apgas.places()[-1:]

    def shrinkAborted(self, places: Sequence[apgas.Place]) -> None:
        self.aborted.append([place.id for place in places])


def test_places_that_were_evacuated_in_vain_go_on(apgas_job: MakeJob) -> None:
    handler = CutsANode()

    def main() -> None:
        glb.set_user_handler(handler)
        compute(2)

    job = apgas_job(main, places=4, places_per_node=2)
    job.shrink(1)
    job.shrink(1)
    job.run()
    assert job.outcomes == ["aborted", "done"]
    assert handler.aborted == [[3]]
    assert job.resizes[1].places == (2, 3)


class Withdrawn(ReleaseNewest):
    """Has its order withdrawn while it chooses."""

    def __init__(self) -> None:
        self.order: Order | None = None
        self.stayed: list[list[int]] = []

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        assert self.order is not None
        self.order.withdraw()
        wait_for(apgas.resizes)
        return super().preShrink(nb_places)

    def shrinkAborted(self, places: Sequence[apgas.Place]) -> None:
        self.stayed.append([place.id for place in places])


def test_a_handler_hears_that_its_leavers_stay_if_the_order_was_withdrawn_meanwhile(apgas_job: MakeJob) -> None:
    handler = Withdrawn()

    def main() -> None:
        glb.set_user_handler(handler)
        while not handler.stayed:
            compute(0)

    job = apgas_job(main, places=3)
    handler.order = job.shrink(1)
    job.run()
    assert job.outcomes == ["aborted"]
    assert handler.stayed == [[2]]


def test_cores_given_up_for_newcomers_who_do_not_come_are_used_again(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    ended = threading.Event()

    class Notified(ReleaseNewest):
        def orderEnded(self, record: apgas.ResizeRecord) -> None:
            calls.append(record.outcome)
            ended.set()

    class Waiting(Numbers):
        def process(self, n: int) -> bool:
            assert ended.wait(PATIENCE_S)
            return super().process(n)

    def no_host(*_: object) -> NoReturn:
        raise RuntimeError("no such host")

    def main() -> None:
        glb.set_user_handler(Notified())
        glb.compute(Waiting([1], LIMIT), Total, glb.Config(workers=1))

    monkeypatch.setattr(InProcessPlaces, "spawn", no_host)
    for name in ("give_back_cores", "share_cores"):
        monkeypatch.setattr(Computation, name, lambda self, name=name: calls.append(name))
    job = apgas_job(main, places=1)
    job.grow(1)
    job.run()
    assert calls[-3:] == ["give_back_cores", "share_cores", "aborted"]


def test_a_handler_is_given_inside_of_a_program() -> None:
    with pytest.raises(apgas.UsageError, match=r"inside of apgas\.run only"):
        glb.set_user_handler(CutsANode())


deaths: list[Callable[[], None]] = []


class Fatal(Numbers):
    """A worker on place 1 dies of it; endless otherwise."""

    def process(self, n: int) -> bool:
        if apgas.here().id == 1:
            for die in deaths:
                die()
            # a place that dies in a thread goes on by itself, and would compute beside the tests that follow
            deaths.clear()
            raise apgas.ApgasError("this place is dead")
        return super().process(n)


def test_a_computation_whose_place_dies_stops_and_says_what_is_missing(apgas_job: MakeJob) -> None:
    def main() -> list[str]:
        with pytest.raises(apgas.DeadPlaceError, match=r"place 1 .*has died") as caught:
            glb.compute(Fatal([1], 1 << 200), Total, glb.Config(workers=1, granularity=10, backup_s=None))
        assert caught.value.place == 1
        assert isinstance(caught.value.__cause__, ExceptionGroup)
        again = glb.compute(Numbers([1], LIMIT), Total, glb.Config(workers=1, granularity=10))
        assert again.result.done == Counter(range(1, LIMIT))
        return caught.value.__notes__

    job: Job[list[str]] = apgas_job(main, places=3, resilient=True)
    deaths[:] = [lambda: job.kill(1)]
    assert any("lost: place 1 had not handed in its result" in note for note in job.run())


class Perilous(Numbers):
    """Places 1 and 2 die when they come to the tasks ``deaths_at``; those are tasks again then."""

    def process(self, n: int) -> bool:
        if apgas.here().id in deaths_of:
            deaths_of.pop(apgas.here().id)()
        return super().process(n)


deaths_of: dict[int, Callable[[], None]] = {}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("static", [False, True])
def test_a_computation_survives_the_loss_of_places(apgas_job: MakeJob, workers: int, static: bool) -> None:
    def main() -> list[int]:
        config = glb.Config(workers=workers, granularity=10, static=static, backup_s=0.001)
        for _ in range(3):
            outcome = glb.compute(Perilous([1], LIMIT), Total, config)
            assert outcome.result.done == Counter(range(1, LIMIT))
            assert outcome.statistics.tasks == LIMIT - 1
        return [place.id for place in apgas.places()]

    job: Job[list[int]] = apgas_job(main, places=4, resilient=True)
    deaths_of.update({place: partial(job.kill, place) for place in (1, 2)})
    assert job.run() == sorted({0, 1, 2, 3} - ({1, 2} - deaths_of.keys()))


@pytest.mark.parametrize(("backup_s", "starves", "least", "most"), [
    (1e-6, False, LIMIT // 2, LIMIT),
    (1e-6, True, 1, 1),  # the first time that a worker asks it does not know since when
    (1e3, False, 0, 0),
])  # fmt: skip
def test_backups_come_by_seconds_of_work(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch, backup_s: float, starves: bool, least: int, most: int
) -> None:
    """What a place has not done for want of a core is not lost with it."""
    wanted: Counter[int] = Counter()
    want_backup = PlaceCore.want_backup

    def count(self: PlaceCore[Total]) -> None:
        wanted[self.me] += 1
        want_backup(self)

    def main() -> None:
        config = glb.Config(workers=1, granularity=1, backup_s=backup_s)
        assert glb.compute(Numbers([1], LIMIT), Total, config).result.done == Counter(range(1, LIMIT))

    monkeypatch.setattr(PlaceCore, "want_backup", count)
    monkeypatch.setattr(runner, "REPORT_EVERY_S", 0.0)
    monkeypatch.setattr(pacing, "MOST_BACKING_UP", float("inf"))
    monkeypatch.setattr(affinity, "waited_s", (lambda: 2 * time.monotonic()) if starves else (lambda: 0.0))
    apgas_job(main, places=1, resilient=True).run()
    assert least <= wanted[0] <= most


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bag_that_is_given_away_takes_a_backup_along(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Of a place with several workers it has what others had when they last looked, so the next one is as due."""
    made: list[int] = []

    def main() -> None:
        outcome = glb.compute(Numbers([1], LIMIT), Total, glb.Config(workers=workers, granularity=10, backup_s=1e3))
        assert outcome.result.done == Counter(range(1, LIMIT))

    monkeypatch.setattr(pacing.Backups, "made", lambda self, now: made.append(apgas.here().id))
    monkeypatch.setattr(pacing.Backups, "spent", never_alone)
    apgas_job(main, places=3, resilient=True).run()
    assert bool(made) == (workers == 1)


def never_alone(*_: object) -> NoReturn:
    raise AssertionError("a backup was made that no bag took along")


def test_an_orderly_end_needs_books_that_agree(apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Places count more bags than there are: found at the resize, not only at the end."""
    original = PlaceCore.receive

    def receive(self: PlaceCore[Total], bag: Numbers, *words: int | None) -> object:
        self.statistics.received += 1000
        return original(self, bag, *words)

    def main() -> None:
        with pytest.raises(glb.LedgerError, match=r"\d+ bags were received from other places, but only \d+ were sent"):
            glb.compute(Numbers([1], 1 << 200), Total, glb.Config(workers=1, granularity=10))

    monkeypatch.setattr(PlaceCore, "receive", receive)
    job = apgas_job(main, places=3)
    job.shrink(1, at_progress=100)  # work has arrived by then
    job.run()
    assert job.outcomes == ["aborted"]


@pytest.mark.parametrize("lifelines", ["kautz", "random", "ring", "complete"])
def test_other_lifelines(apgas_job: MakeJob, lifelines: str) -> None:
    def main() -> None:
        outcome = glb.compute(Numbers([1], LIMIT), Total, glb.Config(workers=2, granularity=10, lifelines=lifelines))
        assert outcome.result.done == Counter(range(1, LIMIT))

    apgas_job(main, places=5).run()


class PlainNumbers(Numbers):
    """A bag that holds the GIL."""

    releases_gil = False


def workers_of(bag: Numbers, workers: int | None = None) -> int:
    return glb.compute(bag, Total, glb.Config(workers=workers)).workers


def test_a_bag_that_holds_the_gil_gets_one_worker_unless_configured_otherwise(apgas_job: MakeJob) -> None:
    assert apgas_job(workers_of, PlainNumbers([1], 50)).run() == 1
    assert apgas_job(workers_of, PlainNumbers([1], 50), 3).run() == 3


def change_nothing(workers: int) -> None:
    glb.set_workers(workers)


@pytest.mark.parametrize(
    ("workers", "error", "said"),
    [
        (2, apgas.UsageError, "no computation runs"),
        (0, glb.ConfigError, "workers is 0; it must be a whole number of at least 1"),
        (True, glb.ConfigError, "workers is True"),
    ],
)
def test_workers_that_cannot_change_are_refused(
    apgas_job: MakeJob, workers: int, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        apgas_job(change_nothing, workers).run()


def ordered() -> tuple[set[int], list[tuple[str, str, str]]]:
    """Order workers between two computations, and while one begins."""
    glb.compute(Numbers([1], LIMIT), Total, glb.Config(workers=1))
    workers = set()
    apgas.schedule_orders("0:workers=2")
    while not apgas.resizes():
        threading.Event().wait(0.001)
    while apgas.resizes()[-1].outcome != "done":
        config = glb.Config(workers=1, granularity=10, warm_up=order_three)
        outcome = glb.compute(Numbers([1], LIMIT), Total, config)
        assert outcome.result.done == Counter(range(1, LIMIT))
        workers.add(outcome.workers)
    return workers, [(record.kind, record.outcome, record.reason) for record in apgas.resizes()]


def order_three() -> None:
    """Order while the computation begins: the order waits until it runs (or finds that it is over already)."""
    if apgas.here().id == 0 and apgas.resizes()[-1].outcome != "done":
        apgas.schedule_orders("0:workers=3")


def test_an_order_for_workers_needs_a_computation(apgas_job: MakeJob) -> None:
    workers, records = apgas_job(ordered, places=2).run()
    assert records[0][:2] == ("workers", "refused")
    assert "no computation runs" in records[0][2]
    assert records[-1] == ("workers", "done", "")
    assert 3 in workers


@pytest.mark.parametrize(("very_long", "fewest", "most"), [(False, EXPECTED_CALLS, EXPECTED_CALLS), (True, 50, 60)])
def test_before_long_calls_work_is_set_out_only_while_others_may_ask(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch, very_long: bool, fewest: int, most: int
) -> None:
    """On one place none ever asks, so those of the beginning are all, unless the calls are very long."""
    look, times = PlaceCore.look, Counter[bool]()

    def observe(self: Granularity, tasks: int, seconds: float) -> None:
        self.long, self.very_long = True, very_long

    def counted(self: PlaceCore[Total], slot: int, bag: Numbers, long: int = 0) -> object:
        times[long > 0] += 1
        return look(self, slot, bag, long)

    monkeypatch.setattr(Granularity, "observe", observe)
    monkeypatch.setattr(PlaceCore, "look", counted)

    def main() -> int:
        return glb.compute(Numbers(list(range(50))), Total, glb.Config(workers=1, granularity=1)).statistics.tasks

    assert apgas_job(main, places=1).run() == 50
    assert fewest <= times[True] <= most, times


@pytest.mark.parametrize("shared", [False, True])
def test_the_time_in_which_others_have_the_core_makes_no_call_long(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """It is asked for after the first call that took long."""
    process, observe = Numbers.process, Granularity.observe
    took: list[float] = []

    def wait(self: Numbers, n: int) -> bool:
        time.sleep(1.1 * pacing.VERY_LONG_CALL_S)
        return process(self, n)

    def noted(self: Granularity, tasks: int, seconds: float) -> None:
        took.append(seconds)
        observe(self, tasks, seconds)

    monkeypatch.setattr(Numbers, "process", wait)
    monkeypatch.setattr(Granularity, "observe", noted)
    monkeypatch.setattr(affinity, "waited_s", time.monotonic if shared else (lambda: 0.0))

    def main() -> int:
        return glb.compute(Numbers([1, 2, 3]), Total, glb.Config(workers=1, granularity=1)).statistics.tasks

    assert apgas_job(main, places=1).run() == 3
    assert [seconds > pacing.VERY_LONG_CALL_S for seconds in took] == [True, not shared, not shared]


def test_a_class_is_no_bag_and_no_handler(apgas_job: MakeJob) -> None:
    def main() -> None:
        with pytest.raises(apgas.UsageError, match="a bag, not the class Numbers"):
            glb.compute(Numbers, Total)  # type: ignore[arg-type]
        with pytest.raises(apgas.UsageError, match=r"not the class ReleaseNewest: pass an object, ReleaseNewest\(\)"):
            apgas.define_malleable_handler(ReleaseNewest)  # type: ignore[arg-type]

    apgas_job(main, places=1).run()
