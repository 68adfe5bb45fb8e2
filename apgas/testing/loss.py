"""Simulations in which a place dies: the job must end on every other place, whatever was under way.

place p dies       its messages under way may or may not arrive; its connections end
place 0 hears of it (itself, or told by a place that lost p)     -> End to everyone
place 0 dies       every place notices by itself
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from apgas.core import effects as e
from apgas.testing.network import Packet
from apgas.testing.simulation import Simulation


class LossSimulation(Simulation):
    """A run in which one place, place 0 included, is killed after ``after`` deliveries."""

    def __init__(self, seed: int, *, after: int, places: int = 4, orders: int = 3) -> None:
        super().__init__(seed, places=places, orders=orders, activities=400, deliveries=after + 100)
        self._after = after
        self.victim: int | None = None
        self.ended: dict[int, str] = {}

    def _choices(self) -> list[Callable[[], None]]:
        if self.victim is None and self.network.delivered >= self._after:
            return [self._kill]
        if self.victim is None:
            return super()._choices()
        choices: list[Callable[[], None]] = [self._deliver] if self.network.waiting() else []
        if any(activity.place not in self.ended for activity in self.program.runnable):
            choices.append(self._step_of_the_living)
        return choices

    def _kill(self) -> None:
        # one that was released dies anyway, and nobody minds
        self.victim = self.rng.choice(sorted(self.cores[0].membership.members))
        self.program.keep(lambda activity: activity.place != self.victim)
        self.network.cut(self.victim, self.rng)
        del self.cores[self.victim]
        self.left.add(self.victim)
        for place in self.cores:
            # only those that were connected notice; place 0 is connected to everyone
            if place == 0 or self.victim == 0 or self.rng.random() < 0.5:
                self.network.send(Packet(self.victim, place, None, []))

    def _step_of_the_living(self) -> None:
        """Let an activity go on where the end is not known yet: what it sends must do no harm."""
        self.program.keep(lambda activity: activity.place not in self.ended)
        if self.program.runnable:
            self._step()

    def _deliver(self) -> None:
        if self.victim is None:
            super()._deliver()
            return
        packet = self.network.deliver()
        core = self.cores.get(packet.dst)
        if core is None or packet.dst in self.ended:
            return
        if packet.message is None:
            self._perform(packet.dst, core.lost(packet.src, "connection ended"))
        else:
            self._perform(packet.dst, core.received(packet.src, packet.message, packet.payload))

    def _perform(self, here: int, effects: Iterable[e.Effect]) -> None:
        if self.victim is None:
            super()._perform(here, effects)
            return
        for effect in effects:
            match effect:
                case e.PlaceLost(place, reason):
                    assert here == 0, f"place {here} ends the job"
                    if not self.cores[0].over:
                        self._perform(0, self.cores[0].end(f"place {place} died: {reason}"))
                case e.Ends(reason):
                    assert here not in self.ended, f"place {here} ended twice"
                    self.ended[here] = reason
                    for place in self.cores:
                        if place != here:
                            self.network.send(Packet(here, place, None, []))
                case e.Leaves():
                    self.ended[here] = "released"
                case e.Send() if here in self.ended and not self.cores[here].over:
                    raise AssertionError(f"place {here} goes on after its end: {effect}")
                case e.LeaverDrained():
                    pass  # the coordinator is not simulated any more: the job is ending
                case _:
                    super()._perform(here, [effect])

    def _check_end(self) -> None:
        assert self.victim is not None, "nobody was killed"
        survivors = self.cores.keys()
        assert survivors == self.ended.keys() & survivors, (
            f"place {self.victim} died and places {sorted(survivors - self.ended.keys())} go on"
        )
