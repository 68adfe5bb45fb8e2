"""The functions that travel between places, and who takes them there.

A message of a computation that is over, or that this place takes no part in, is dropped: thieves ask without being
counted, so their questions may arrive late. Bags cannot, because the finish waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import apgas
from apgas.core.relay import branches
from apgas.runtime import serialization
from glb import affinity
from glb.config import Harvest
from glb.errors import GlbError
from glb.statistics import packed

if TYPE_CHECKING:
    from glb.config import PlaceResult
    from glb.coordinator import Computation
    from glb.core.backup import Backup, Gift
    from glb.core.leavers import Load
    from glb.runner import PlaceRunner
    from glb.sizing import PlaceCounts
    from glb.statistics import Statistics

FAN: Final = 16
"""How many places a place asks for their results, which ask others in turn."""
_runners: apgas.PlaceState[dict[int, PlaceRunner[Any]]] = apgas.PlaceState(dict)
_computations: apgas.PlaceState[dict[int, Computation[Any]]] = apgas.PlaceState(dict)


def _runner(number: int) -> PlaceRunner[Any]:
    runner = _runners.get().get(number)
    if runner is None:
        raise GlbError(f"{apgas.here()} takes no part in computation {number}")
    return runner


def register(number: int, runner: PlaceRunner[Any]) -> None:
    """Let messages about computation ``number`` reach ``runner``."""
    _runners.get()[number] = runner


# counted by the finish of the computation ---------------------------------------------------------------------------


def receive(number: int, bag: Any, nonce: int | None) -> None:
    """A bag arrives."""
    _runner(number).receive(bag, nonce)


def receive_gift(number: int, gift: Gift) -> None:
    """A bag arrives, which place 0 knows of."""
    _runner(number).receive(serialization.loads(gift.bag.data), gift.nonce, gift.ident)


def keep(number: int, backup: Backup[Any]) -> None:
    """(place 0) A place has made a backup."""
    if (computation := _computations.get().get(number)) is not None:
        computation.keep(backup)


def redirect(number: int, ident: int, to: int) -> None:
    """(place 0) A gift has found its place evacuated, and is for place ``to``."""
    if (computation := _computations.get().get(number)) is not None:
        computation.redirect(ident, to)


def work(number: int, slot: int, bag: Any) -> None:
    """A worker works."""
    _runner(number).work(slot, bag)


def attend(number: int) -> None:
    """The attendant shares out what workers in long calls have set out."""
    _runner(number).attend()


# uncounted, on the thread that receives ------------------------------------------------------------------------------


def requested(number: int, thief: int, nonce: int | None) -> None:
    """A thief asks."""
    if (runner := _runners.get().get(number)) is not None:
        runner.take(lambda core: core.requested(thief, nonce))


def refused(number: int, nonce: int) -> None:
    """A random victim has nothing."""
    if (runner := _runners.get().get(number)) is not None:
        runner.take(lambda core: core.refused(nonce))


def begin(number: int) -> None:
    """All members have joined: a place without work may begin to steal."""
    if (runner := _runners.get().get(number)) is not None:
        runner.begin()


def use_cores(number: int, cores: tuple[int, ...]) -> None:
    """Compute on these cores only, while the computation lasts; none: on those of this place."""
    if number in _runners.get():
        affinity.use(cores)


def count_up(number: int) -> None:
    """Place 0 asks how busy this place was."""
    if (runner := _runners.get().get(number)) is not None:
        apgas.immediate(0, counted, number, runner.count_up())


def counted(number: int, counts: PlaceCounts) -> None:
    """(place 0) A place says how busy it was."""
    if (computation := _computations.get().get(number)) is not None:
        computation.gauge.take(counts)


def aborted(number: int) -> None:
    """The computation has failed somewhere."""
    if (runner := _runners.get().get(number)) is not None:
        runner.take(lambda core: core.abort())


def progressed(number: int, place: int, tasks: int) -> None:
    """(place 0) A place has processed ``tasks`` tasks."""
    if (computation := _computations.get().get(number)) is not None:
        computation.progress.update(place, tasks)
        computation.notice_losses()


def failed(number: int, reason: str) -> None:
    """(place 0) A place has given the computation up; ``reason`` where no activity carries the error."""
    if (computation := _computations.get().get(number)) is not None:
        computation.abort(reason)


# called and waited for by place 0 -----------------------------------------------------------------------------------


def set_members(number: int, members: Sequence[int]) -> Statistics:
    """Rewire for new members; return what was counted so far."""
    return _runner(number).set_members(members)


def set_workers(number: int, count: int, cores: apgas.CoreIds | None) -> None:
    """Let ``count`` workers work here from now on, on ``cores`` only."""
    _runner(number).set_workers(count)
    affinity.bind(cores)


def load(number: int) -> tuple[Load, Statistics]:
    """Return how much there is to do here, and what was counted so far."""
    return _runner(number).load()


def evacuate(number: int, survivors: Sequence[int], turns: dict[int, list[int]]) -> PlaceResult[Any]:
    """Hand all work out, to survivors as ``turns`` says for this place, and return the result so far."""
    return _runner(number).evacuate(survivors, turns[apgas.here().id])


def readmit(number: int, members: Sequence[int]) -> None:
    """Undo an evacuation."""
    _runner(number).readmit(members)


def collect(number: int, below: Sequence[int], running_s: float) -> Harvest[Any]:
    """The computation is over, after ``running_s``: hand in the rest, and what the places ``below`` have; forget it.

    This place asks some of them, and these the others.
    """
    with apgas.finish():
        asked = [apgas.async_at(branch[0], collect, number, branch[1:], running_s) for branch in branches(below, FAN)]
        runner = _runners.get().pop(number)
        mine = runner.report()
        affinity.use(())
    assert mine.result is not None
    harvest = Harvest(mine.result, packed(mine.place, mine.counted(running_s, runner.setup.workers)))
    harvest.add(branch.result() for branch in asked)
    return harvest


def hand_in(number: int) -> PlaceResult[Any]:
    """Hand in what there is; the computation may go on, for others may have died."""
    return _runner(number).report()


def forget(number: int) -> None:
    """The computation is over, or has failed: no others divide the cores with this place any more."""
    affinity.use(())
    _runners.get().pop(number, None)


def enlist(computation: Computation[Any]) -> None:
    """(place 0) Let messages about ``computation`` reach it."""
    _computations.get()[computation.setup.number] = computation


def dismiss(number: int) -> None:
    """(place 0) Messages about this computation are of no interest any more."""
    _computations.get().pop(number, None)
