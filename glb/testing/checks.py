"""What must hold at every moment of a simulated computation, and at its end. The checkers see all places at once.

Nobody starves while another has work for it, within bounds:

- Whoever is known to wait for a place is served before the next call of ``process`` of any worker there that has
  something to split: the wait is the call under way.
- Whoever waits is known to each of its buddies, or its question, or work for it, is under way to or from there. A
  newcomer is known to those that it will ask from the moment when they know of it.
- A random thief is answered within as many looks of its victim's workers as there were workers when it asked, and at
  once by a place that is not warm yet.
- While all workers are in long calls and nothing is under way, no slot of any place is idle while work is set out
  somewhere. So coarse tasks are begun as early as by greedy list scheduling, but for the time that messages take.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from glb.core.effects import Effect, Give, Message, Refuse, Request
from glb.core.place import PlaceCore
from glb.core.view import Phase
from glb.testing.bags import Total
from glb.testing.control import Loot, Wire, Worker

if TYPE_CHECKING:
    from glb.testing.simulation import Simulation


class SimulationError(AssertionError):
    """The state machine broke a promise; the text says which, and the seed repeats it."""


class Checks:
    """Looks at a simulation.

    Args:
        job: What to look at.
    """

    def __init__(self, job: Simulation) -> None:
        self._job = job
        self._chances: dict[tuple[int, int, int], int] = {}

    # when a worker takes its turn -----------------------------------------------------------------------------------

    def asked(self, core: PlaceCore[Total], thief: int, nonce: int | None) -> None:
        """A thief's question is about to arrive."""
        if nonce is not None:
            self._chances[core.me, thief, nonce] = core.alive

    def looked(self, worker: Worker, core: PlaceCore[Total]) -> None:
        """A worker has attended to its place, and stays."""
        known = {(worker.place, thief, nonce) for thief, nonce in core.thieves.random.items()}
        for key in [key for key in self._chances if key[0] == worker.place]:
            self._chances[key] -= 1
            if key not in known:
                del self._chances[key]
            elif self._chances[key] <= 0:
                raise self._job.wrong(f"place {key[1]} has no answer though all workers of place {key[0]} have looked")

    def refused(
        self, core: PlaceCore[Total], nonce: int, asked: Request | None, answers: list[Message]
    ) -> list[Message]:
        """A place has taken a refusal, which answers what it had ``asked``, or else must change nothing."""
        if answers and (asked is None or asked.nonce != nonce):
            raise self._job.wrong(f"place {core.me} takes an old refusal for the answer to its present question")
        return answers

    def gives(self, place: int, give: Give[Total]) -> None:
        """A bag is about to be sent."""
        if give.why == "evacuation" and give.to not in self._job.control.members:
            raise self._job.wrong(f"place {place} evacuates to place {give.to}, which does not stay")

    def processes(self, worker: Worker, core: PlaceCore[Total]) -> None:
        """A worker is about to process."""
        if worker.place in self._job.stopped:
            raise self._job.wrong(f"a worker of place {worker.place} goes on after the end")
        if core.phase is not Phase.WORKING:
            raise self._job.wrong(f"a worker of place {worker.place}, which is {core.phase.name}, goes on")
        if worker.slot >= core.workers:
            raise self._job.wrong(f"the worker in slot {worker.slot} of place {worker.place} goes on")
        if not worker.bag.is_splittable():
            return
        if core.thieves:
            raise self._job.wrong(f"place {worker.place} has work to spare and goes on while others wait for it")
        self._check_waiting(core)

    def _check_waiting(self, core: PlaceCore[Total]) -> None:
        """Nobody waits for this place, which has work to spare, without its knowing."""
        if core.me not in self._job.control.members:
            return
        away = self._job.lost | self._job.gone | self._job.control.leaving
        for place in self._job.scenario.lifelines.thieves(core.me, core.members):
            thief = self._job.cores.get(place)
            if thief is None or thief.alive or place in away or thief.members is not core.members:
                continue
            waits = thief.phase is Phase.WAITING
            new = thief.phase is Phase.JOINING and place >= self._job.initial and not thief.statistics.received
            # one that was called back asks by itself once it may begin
            if not (waits or (new and place not in self._job.control.called_back)):
                continue
            sent = [*self._between(place, core.me), *self._between(core.me, place)]
            if not any(isinstance(each, Request | Loot | Give) for each in sent):
                raise self._job.wrong(f"place {place} starves, for place {core.me} does not know that it waits")

    def comes_back(self, worker: Worker) -> None:
        """A long call ends."""
        if worker.held != tuple(worker.bag.tasks):
            raise self._job.wrong(f"the bag of a worker of place {worker.place} was touched while it was in a call")

    def quiet(self) -> None:
        """All workers are in long calls, nothing is under way, and the attendants have done what they can."""
        job = self._job
        if job.lost or job.over:
            return
        places = {place: core for place, core in job.cores.items() if place in job.control.members}
        set_out = [place for place, core in places.items() if core.shared]
        for place, core in places.items():
            if core.shared and not core.attended:
                raise job.wrong(f"no attendant serves what is set out at place {place}")
            if core.alive < core.workers and set_out and core.phase is not Phase.JOINING and place not in job.cold:
                raise job.wrong(f"place {place} has idle slots while work is set out at places {set_out}")

    # between steps --------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Look at all places."""
        slots = Counter((worker.place, worker.slot) for worker in self._job.workers if not worker.todo)
        if slots and max(slots.values()) > 1:
            raise self._job.wrong(f"two workers in one slot: {[slot for slot, held in slots.items() if held > 1]}")
        for place, core in self._job.cores.items():
            if place in self._job.lost or place in self._job.gone:
                continue
            if core.shared and not core.alive:
                raise self._job.wrong(f"place {place} holds a bag, but has no worker")
            if core.thieves.random and not core.alive:
                raise self._job.wrong(f"place {place} owes answers, but has no worker to give them")
            if core.thieves.random and place in self._job.cold:
                raise self._job.wrong(f"place {place} lets random thieves wait until it is warm")
            if place in self._job.control.members and not self._job.lost:
                self._validate_thief(place, core)

    def _validate_thief(self, place: int, core: PlaceCore[Total]) -> None:
        """A waiting place is known to each buddy, a stealing one to its victim, or a message is under way."""
        waiting = [Request(buddy, None) for buddy in core.buddies] if core.phase is Phase.WAITING else []
        stealing = [core.asked] if core.phase is Phase.STEALING and core.asked is not None else []
        if core.phase is Phase.STEALING and not stealing:
            raise self._job.wrong(f"place {place} is STEALING from nobody")
        for request in waiting + stealing:
            other = request.to
            known = self._job.cores[other].thieves.knows(place, request.nonce)
            if not (known or request in self._between(place, other) or self._answered(request, other, place)):
                raise self._job.wrong(f"place {place} waits for place {other}, which does not know it")

    def _answered(self, request: Request, sender: int, to: int) -> bool:
        return any(
            isinstance(message, Loot | Give) or (isinstance(message, Refuse) and message.nonce == request.nonce)
            for message in self._between(sender, to)
        )

    def _between(self, sender: int, to: int) -> list[Wire | Effect[Total]]:
        """Return what is under way, or about to be sent, from ``sender`` to ``to``, which is not gone."""
        if to in self._job.gone:
            return []
        return [
            *self._job.network.between(sender, to),
            *(
                effect
                for worker in self._job.at[sender]
                for effect in worker.todo
                if isinstance(effect, Request | Refuse | Give) and effect.to == to
            ),
        ]

    # at the end -----------------------------------------------------------------------------------------------------

    def finished(self, result: Total, missing: str | None) -> None:
        """Look at the result, and at the places once the computation is over."""
        for place, core in self._job.cores.items():
            if place in self._job.lost:
                continue
            if core.alive or core.shared:
                raise self._job.wrong(f"place {place} has work after the finish")
            if missing is None and core.result.done:
                raise self._job.wrong(f"place {place} has results that nobody has asked for")
            result.merge(core.result)
        tasks = range(1, self._job.scenario.limit)
        twice = [task for task, times in result.done.items() if times > 1]
        if twice:
            raise self._job.wrong(f"tasks {twice} were done more than once")
        if missing is None and result.done != Counter(tasks):
            raise self._job.wrong(f"tasks {sorted(set(tasks) - set(result.done))} are lost")
        if missing is not None:
            self._check_missing(missing)

    def _check_missing(self, missing: str) -> None:
        if not self._job.lost:
            raise self._job.wrong(f"no place has died, but something is missing: {missing}")
        for place in self._job.lost:
            if f"place {place} " not in missing:
                raise self._job.wrong(f"place {place} has died, but the books do not say so: {missing}")
