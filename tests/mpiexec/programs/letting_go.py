"""Objects behind references live as long as somebody has a reference, anywhere; prints "fine" if all of it held."""

from __future__ import annotations

import gc
import pickle
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import apgas
from apgas import GlobalRef, PlaceLocal, async_at, at, finish, gather, here, immediate, places
from apgas.runtime import driver
from apgas.testing.handlers import ReleaseNewest

PATIENCE_S = 600.0


class Box:
    """Something that can be watched."""

    def __init__(self, content: object = None) -> None:
        self.content = content


Shelf = PlaceLocal[dict[str, Any]]


def check(condition: object, what: object) -> None:
    if not condition:
        raise AssertionError(what)


def wait_for(condition: Callable[[], object], what: object) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        gc.collect()
        check(time.monotonic() < until, what)
        time.sleep(0.002)


def put(shelf: Shelf, name: str, ref: object) -> None:
    shelf.get()[name] = ref


def take(shelf: Shelf, name: str) -> Any:
    return shelf.get()[name]


def clear(shelf: Shelf) -> None:
    shelf.get().clear()


def read(ref: GlobalRef[Box]) -> object:
    return ref.get().content


def read_there(shelf: Shelf, name: str) -> object:
    ref = shelf.get()[name]
    return at(ref.place, read, ref)


def pass_on(ref: GlobalRef[Box], shelf: Shelf, name: str, to: apgas.Place) -> None:
    async_at(to, put, shelf, name, ref)


def give_back(ref: GlobalRef[Box]) -> list[GlobalRef[Box]]:
    return [ref]


def make(content: object) -> GlobalRef[Box]:
    return GlobalRef(Box(content))


def homed() -> int:
    gc.collect()
    return len(driver.required_driver().objects.homed)


def placed() -> int:
    gc.collect()
    return len(driver.required_driver().objects.local)


def watched(content: object) -> tuple[GlobalRef[Box], weakref.ref[Box]]:
    box = Box(content)
    return GlobalRef(box), weakref.ref(box)


def what_nobody_refers_to_goes(shelf: Shelf) -> None:
    ref, box = watched(1)
    for place in places():
        at(place, here)
        check(at(place, give_back, ref)[0].get().content == 1, "a reference that came back")
    gather(give_back, ref)
    with finish():
        async_at(places()[-1], partial(at, ref.place, read, ref))
    check(box() is not None, "it went while it was referred to")
    del ref
    wait_for(lambda: box() is None, "it did not go")


def what_a_place_keeps_stays(shelf: Shelf) -> None:
    ref, box = watched(2)
    with finish():
        async_at(places()[1], pass_on, ref, shelf, "kept", places()[-1])
    immediate(places()[1], put, shelf, "by an immediate", ref)
    del ref
    for place in places():
        at(place, gc.collect)
    check(at(places()[-1], read_there, shelf, "kept") == 2, "the object of a reference that is kept")
    gather(clear, shelf)
    wait_for(lambda: box() is None, "it did not go when it was let go elsewhere")


def what_is_freed_or_pickled_by_hand() -> None:
    ref, box = watched(3)
    ref.free()
    ref.free()
    check(box() is None, "free does not free")
    try:
        ref.get()
    except apgas.PlaceGoneError as error:
        check("has freed" in str(error), error)
    ref, box = watched(4)
    copy = pickle.loads(pickle.dumps(ref))
    del ref
    gc.collect()
    check(copy.get().content == 4 and box() is not None, "a copy made by hand")
    copy.free()


def objects_of_a_place_local_follow_its_handle() -> None:
    before = gather(placed)
    local: PlaceLocal[Box] = PlaceLocal(Box)
    gather(local.get)
    check(gather(placed) == {place: count + 1 for place, count in before.items()}, "the objects")
    nested = apgas.broadcast([1, 2])
    at(places()[-1], nested.get)
    local.free()
    wait_for(lambda: gather(placed) == {place: count + 1 for place, count in before.items()}, "free does not free")
    at(places()[-1], local.get)
    del local, nested
    wait_for(lambda: gather(placed) == before, "objects without a handle stay")


def hop(left: int, ref: GlobalRef[Box]) -> None:
    while left:
        now = places()
        with suppress(apgas.PlaceGoneError):  # left meanwhile: another one
            async_at(now[(left * 7 + here().id) % len(now)], hop, left - 1, ref)
            return


def leavers_let_go(shelf: Shelf) -> None:
    ref, box = watched(5)
    elsewhere = at(places()[1], make, 6)
    at(places()[-1], put, shelf, "here", ref)
    at(places()[-1], put, shelf, "there", elsewhere)
    before = at(places()[1], homed)
    apgas.define_malleable_handler(ReleaseNewest())
    apgas.schedule_orders("0:-1,0.05:+2,0.3:-2")
    until = time.monotonic() + PATIENCE_S
    while len(apgas.resizes()) < 3:
        check(time.monotonic() < until, apgas.resizes())
        with finish(), suppress(apgas.PlaceGoneError):  # left meanwhile
            for place in places():
                async_at(place, hop, 20, ref)
    apgas.disable_malleable_handler()
    check([record.outcome for record in apgas.resizes()] == ["done"] * 3, apgas.resizes())
    check(box() is not None and at(elsewhere.place, read, elsewhere) == 6, "a reference that is kept")
    del ref, elsewhere
    wait_for(lambda: box() is None, "a leaver has kept a reference to an object of place 0")
    wait_for(lambda: at(places()[1], homed) < before, "a leaver has kept a reference to an object of place 1")


def main() -> None:
    shelf: Shelf = PlaceLocal(dict)
    what_nobody_refers_to_goes(shelf)
    what_a_place_keeps_stays(shelf)
    what_is_freed_or_pickled_by_hand()
    objects_of_a_place_local_follow_its_handle()
    leavers_let_go(shelf)
    print("fine", flush=True)


if __name__ == "__main__":
    apgas.run(main)
