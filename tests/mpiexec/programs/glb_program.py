"""Programs that the tests start with mpiexec; each prints one JSON object."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable

from numbered import Numbers, Total

import apgas
import glb
import glb.driver


class SlowNumbers(Numbers):
    """Tasks that take a tenth of a millisecond, so that orders fall due while there is work."""

    def process(self, n: int) -> bool:
        time.sleep(0.0001 * min(n, len(self.tasks)))
        return super().process(n)


class FailingNumbers(SlowNumbers):
    """Fails at a task in the middle of the tree."""

    def process(self, n: int) -> bool:
        if any(task == 3000 for task in self.tasks):
            raise ValueError("task 3000 is bad")
        return super().process(n)


def right(outcome: glb.Outcome[Total], limit: int) -> bool:
    return dict(outcome.result.done) == dict.fromkeys(range(1, limit), 1) and outcome.statistics.tasks == limit - 1


def leave_if_new() -> None:
    """A warm-up that fails on places that join."""
    if apgas.here().id > 1:
        sys.exit("too cold")


def summary(outcomes: list[glb.Outcome[Total]], limit: int) -> dict[str, object]:
    return {
        "right": bool(outcomes) and all(right(outcome, limit) for outcome in outcomes),
        "took_part": sorted({place for outcome in outcomes for place, own in outcome.places.items() if own.tasks}),
        "resizes": [(record.kind, record.n, record.outcome, record.reason) for record in apgas.resizes()],
        "places": [place.id for place in apgas.places()],
    }


def steady() -> dict[str, object]:
    outcomes = [
        glb.compute(SlowNumbers([1], 3000), Total, glb.Config(workers=workers, static=static, lifelines=graph))
        for workers, static, graph in ((1, False, "hypercube"), (3, False, "ring"), (2, True, "complete"))
    ]
    return summary(outcomes, 3000)


def elastic(orders: str, limit: str, workers: str) -> dict[str, object]:
    """Compute again and again until every order has been carried out, wherever its steps fall."""
    glb.compute(Numbers([1], 100), Total)  # before the first one orders are refused
    apgas.schedule_orders(orders)
    outcomes: list[glb.Outcome[Total]] = []
    while len(apgas.resizes()) < orders.count(":") and len(outcomes) < 5000:
        config = glb.Config(workers=int(workers), seed=len(outcomes), static=len(outcomes) % 3 == 2)
        outcomes.append(glb.compute(SlowNumbers([1], int(limit)), Total, config))
    facts = summary(outcomes, int(limit))
    # each present place must come to work sooner or later
    for _ in range(100):
        last = glb.compute(SlowNumbers([1], 5000), Total, glb.Config(workers=int(workers)))
        if all(own.tasks for own in last.places.values()):
            return facts | {"last": right(last, 5000), "worked": sorted(last.places)}
    return facts | {"last": False}


def failing() -> dict[str, object]:
    try:
        glb.compute(FailingNumbers([1], 100_000), Total, glb.Config(workers=2))
    except* ValueError as error:
        leaf: BaseException = error
        while isinstance(leaf, BaseExceptionGroup):
            leaf = leaf.exceptions[0]
        text = str(leaf)
    else:
        text = ""
    after = glb.compute(SlowNumbers([1], 3000), Total, glb.Config(workers=2))
    return summary([after], 3000) | {"error": text}


def given_up() -> dict[str, object]:
    """An order waits between two computations until handlers are given up; it must not disturb the next one."""
    glb.compute(Numbers([1], 100), Total)
    apgas.schedule_orders("0.001:-1")
    time.sleep(0.2)
    apgas.disable_malleable_handler()
    after = glb.compute(SlowNumbers([1], 5000), Total, glb.Config(workers=1))
    return summary([after], 5000) | {"evacuated": after.statistics.evacuation_deals}


class Watching(apgas.MalleableHandler):
    """A program's own handler, which notes its calls and chooses whom to release."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def preShrink(self, nb_places: int) -> list[apgas.Place]:
        self.calls.append("preShrink")
        return apgas.places()[1 : 1 + nb_places]

    def postShrink(self, nb_places: int, removed_places: object) -> None:
        self.calls.append("postShrink")

    def preGrow(self, nb_places: int) -> None:
        self.calls.append("preGrow")

    def postGrow(self, nb_places: int, continued_places: object, new_places: object) -> None:
        self.calls.append("postGrow")


def watched() -> dict[str, object]:
    handler = Watching()
    glb.set_user_handler(handler)
    return elastic("0.05:+1,0.1:-1", "3000", "1") | {"calls": handler.calls}


def paced() -> dict[str, object]:
    seen: list[tuple[int, int, int]] = []
    warm: apgas.PlaceLocal[list[int]] = apgas.PlaceLocal(list)
    config = glb.Config(
        workers=1,
        rate=4000.0,
        on_progress=lambda *numbers: seen.append(numbers),
        warm_up=lambda: warm.get().append(1),
    )
    outcome = glb.compute(Numbers([1], 3000), Total, config)
    warmed = [apgas.at(place, lambda: len(warm.get())) for place in apgas.places()]
    return summary([outcome], 3000) | {"seconds": outcome.seconds, "last": seen[-1], "warmed": warmed}


def change_workers(over: threading.Event, changed: list[int]) -> None:
    """Let the workers of all places, or of one, change every few milliseconds."""
    while not over.wait(0.005):
        count = 1 + len(changed) % 4
        places = None if count % 2 else apgas.places()[-1:]
        with contextlib.suppress(apgas.UsageError):  # between two computations
            glb.set_workers(count, places)
            changed.append(count)


def more_and_fewer(orders: str) -> dict[str, object]:
    """Workers come and go on places that come and go."""
    over = threading.Event()
    changed: list[int] = []
    changing = threading.Thread(target=change_workers, args=(over, changed))
    changing.start()
    try:
        facts = elastic(orders, "20000", "2")
    finally:
        over.set()
        changing.join()
    return facts | {"changed": len(changed)}


class Located(SlowNumbers):
    """Notes on which cores it was processed."""

    def process(self, n: int) -> bool:
        cores_seen.get().add(tuple(sorted(os.sched_getaffinity(0))))
        return super().process(n)


cores_seen: apgas.PlaceLocal[set[tuple[int, ...]]]


def located(affinity: str) -> dict[str, object]:
    """Return on which cores each place computed, and which it may use before and after."""
    global cores_seen
    cores_seen = apgas.PlaceLocal(set)
    for place in apgas.places():
        apgas.at(place, know_cores, cores_seen)
    config = glb.Config(workers=1, static=True, affinity=affinity == "on")
    outcome = glb.compute(Located(list(range(1, 800)), 800), Total, config)
    seen = [apgas.at(place, lambda: sorted(cores_seen.get())) for place in apgas.places()]
    free = [apgas.at(place, lambda: sorted(os.sched_getaffinity(0))) for place in apgas.places()]
    return {"right": outcome.statistics.tasks > 0, "seen": seen, "free": free}


def know_cores(seen: apgas.PlaceLocal[set[tuple[int, ...]]]) -> None:
    global cores_seen
    cores_seen = seen


def called_back() -> dict[str, object]:
    """A shrink is prepared and called off twice while a computation runs; the leavers must work again."""
    elastic = glb.driver._elastic.get()
    with apgas.finish():
        computing = apgas.async_(glb.compute, SlowNumbers([1], 20_000), Total, glb.Config(workers=2))
        evacuated = []
        for _ in range(2):
            leavers = elastic.preShrink(2)
            evacuated.append(sorted(leavers))
            time.sleep(0.02)
            elastic.shrinkAborted([apgas.place(leaver) for leaver in leavers])
    outcome = computing.result()
    after = glb.compute(SlowNumbers([1], 3000), Total, glb.Config(workers=2))
    return summary([outcome], 20_000) | {"evacuated": evacuated, "after": right(after, 3000)}


def joined_cold() -> dict[str, object]:
    """A newcomer's warm-up leaves by SystemExit: the computation must not go on without it."""
    glb.compute(Numbers([1], 100), Total)  # before the first one orders are refused
    apgas.schedule_orders("0.05:+1")
    text = ""
    try:
        for _ in range(300):  # it may take long to join
            glb.compute(SlowNumbers([1], 20_000), Total, glb.Config(workers=1, warm_up=leave_if_new))
    except (glb.GlbError, BaseExceptionGroup) as error:
        text = "".join(traceback.format_exception(error))
    after = glb.compute(SlowNumbers([1], 3000), Total, glb.Config(workers=1))
    return summary([after], 3000) | {"error": text}


class Held:
    """(place 0) What the tasks of ``HeldNumbers`` wait for."""

    def __init__(self) -> None:
        self.others = 0
        self.all_others = threading.Event()
        self.leaving = threading.Event()
        self.places: set[int] = set()


HELD_LIMIT = 65
HELD_S = 60
held: apgas.PlaceLocal[Held]
held_here: apgas.PlaceLocal[threading.Event]


def know_held(at_0: apgas.PlaceLocal[Held], here: apgas.PlaceLocal[threading.Event]) -> None:
    global held, held_here
    held, held_here = at_0, here


def count_others(tasks: int, place: int) -> None:
    held.get().others += tasks
    held.get().places.add(place)
    if held.get().others == HELD_LIMIT - 2:
        held.get().all_others.set()


def wait_for(name: str) -> None:
    if not getattr(held.get(), name).wait(HELD_S):
        raise TimeoutError(f"{held.get().others} tasks were done while one was under way, not {HELD_LIMIT - 2}")


class HeldNumbers(Numbers):
    """Tasks without children; the first one that ``place`` begins does not end before all others have been done.

    Where that is not place 0, the first one that place 0 begins does not end before a place is to leave.
    """

    place = 0

    def children(self, task: int) -> list[int]:
        return []

    def process(self, n: int) -> bool:
        before = self.work
        first = not held_here.get().is_set()
        held_here.get().set()
        here = apgas.here().id
        if first and here == self.place:
            apgas.at(apgas.place(0), wait_for, "all_others")
        elif first and here == 0:
            wait_for("leaving")
        more = super().process(n)
        apgas.at(apgas.place(0), count_others, self.work - before - (first and here == self.place), here)
        return more


class HeldElsewhere(HeldNumbers):
    """One place is in its first task when it is to leave."""

    place = 1


class LeavesHeld(Watching):
    """Lets the place leave that is in a long task."""

    def preShrink(self, nb_places: int) -> list[apgas.Place]:
        apgas.at(apgas.place(1), lambda: held_here.get().wait(HELD_S))
        held.get().leaving.set()
        return [apgas.place(1)]


def stolen_during_a_task(orders: str = "", elsewhere: str = "") -> dict[str, object]:
    """A task is under way until all others are done, which its worker holds at first."""
    bag = HeldElsewhere if elsewhere else HeldNumbers
    at_0, here = apgas.PlaceLocal(Held), apgas.PlaceLocal(threading.Event)
    for place in apgas.places():
        apgas.at(place, know_held, at_0, here)
    if elsewhere:
        glb.set_user_handler(LeavesHeld())
    if orders:
        glb.compute(Numbers([1], 100), Total)  # before the first one they are refused
        apgas.schedule_orders(orders)
    config = glb.Config(workers=1, warm_up=lambda: know_held(at_0, here))
    outcome = glb.compute(bag(list(range(1, HELD_LIMIT)), HELD_LIMIT), Total, config)
    while len(apgas.resizes()) < bool(orders):  # a leaver may be about to end
        time.sleep(0.001)
    return summary([outcome], HELD_LIMIT) | {"helped": sorted(held.get().places)}


def traced(timeline: str) -> dict[str, object]:
    """Two places join; once they have worked, two leave."""
    apgas.trace(timeline)
    glb.compute(Numbers([1], 100), Total)  # before the first one orders are refused
    outcomes, worked = [], set[int]()
    apgas.schedule_orders("0:+2")
    while len(apgas.resizes()) < 2:
        outcomes.append(glb.compute(SlowNumbers([1], 3000), Total, glb.Config(workers=1, granularity=10)))
        new = {place for place, own in outcomes[-1].places.items() if own.tasks} - worked
        if new and len(worked := worked | new) == 4:
            apgas.schedule_orders("0:-2")
    return summary(outcomes, 3000)


def main() -> None:
    program: Callable[..., dict[str, object]] = globals()[sys.argv[1]]
    sys.stdout.write(json.dumps(program(*sys.argv[2:])) + "\n")


if __name__ == "__main__":
    apgas.run(main)
