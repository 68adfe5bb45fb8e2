"""Simulations in which places die: a plain job ends everywhere, a resilient one goes on, and every loss is reported.

A victim either crashes (a first part of what it had sent arrives) or is fenced: somebody believes it dead, and it goes
on for a while with what the others then refuse. ``SurvivalSimulation(seed).run()`` raises if a finish fires before
every surviving activity under it has ended, or never; if a loss is not reported, or something is reported as lost that
is not; if members disagree; if anything waits for a dead place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from stress.simulation import Packet, Simulation, _info
from stress.workload import Activity, Oracle
from support.in_places.validation import validate

from apgas.core import effects as e
from apgas.core import messages as m
from apgas.core import resize as r
from apgas.core.place import PlaceCore
from apgas.core.relay import Words
from apgas.core.resilient import ResilientFinishTable, ResilientPlaceCore

FIRST = (m.FinishId(0, 0), m.FinishId(0, -1))
"""The finish of the program itself, which may be dense."""


@dataclass(slots=True)
class SurvivalOracle(Oracle):
    """What is true, with places that die.

    Attributes:
        dead: Places that crashed or were fenced.
        lost: Activities that died, or will never arrive.
        reported: Activities whose end their home has heard of.
        notified: Lost activities whose caller was notified, at the home of their finish.
        failures: Activities that raised.
        counted: How many losses finishes have reported.
    """

    dead: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    reported: set[int] = field(default_factory=set)
    notified: set[int] = field(default_factory=set)
    failures: set[int] = field(default_factory=set)
    counted: int = 0
    unreported: dict[tuple[int, m.FinishId], set[int]] = field(default_factory=dict)

    def sent(self, finish: m.FinishId | None, by: Activity, dst: int) -> int:
        """An activity was spawned at ``dst``; a fenced place may do so under a finish that is over."""
        if by.place in self.dead and finish is not None:
            self.alive.setdefault(finish, set()).add(-2)
        number = Oracle.sent(self, finish, by, dst)
        if dst in self.dead:
            self.lost.add(number)
        return number

    def over(self, finish: m.FinishId | None, number: int, *, failed: bool = False) -> None:
        """An activity (or the body, -1) ended."""
        if failed:
            self.failures.add(number)
        if finish is not None and number >= 0:
            place = self.routes[number][2]
            if finish.home == place:
                self.reported.add(number)
            else:
                self.unreported.setdefault((place, finish), set()).add(number)
        Oracle.over(self, finish, number, failed=failed)

    def knows(self, place: int, finish: m.FinishId | None) -> bool:
        """Whether ``place`` has to know that ``finish`` is cancelled: not if its home died, nor that of one around."""
        around = finish
        while around is not None:
            if around.home in self.dead:
                return False
            around = self.outer[around]
        return Oracle.knows(self, place, finish)

    def dies(self, place: int) -> None:
        """What is at ``place``, or on its way there, is lost."""
        self.dead.add(place)
        self.lost.update(n for n, route in self.routes.items() if route[2] == place and n not in self.ended)

    def fire_with_losses(self, fired: e.FinishFired) -> None:
        """A finish fired: nothing that survives is alive under it, and reports what is lost with each place."""
        finish = fired.finish
        alive = self.alive[finish] - self.lost - {-2}
        assert not alive, f"{finish} fired early: {sorted(alive)} are alive"
        assert finish not in self.fired, f"{finish} fired twice"
        self.fired.add(finish)
        mine = {n: route for n, route in self.routes.items() if route[0] == finish}
        heard = [n for n in mine if n in self.failures and (mine[n][2] not in self.dead or n in self.reported)]
        failed = len(heard) + (finish in FIRST and -1 in self.failures)
        assert len(fired.errors) == failed, f"{finish} fired with {len(fired.errors)} of {failed} errors"
        for place in self.dead:
            self._check_count(finish, mine, place, dict(fired.lost).get(place, 0))
        assert dict(fired.lost).keys() <= self.dead, f"{finish} reports losses with the living: {fired.lost}"
        silent = {n for n in mine if n in self.lost - self.reported and not self._excused(n, finish)}
        assert fired.lost or not silent, f"{finish} is silent about {sorted(silent)}"
        self.counted += sum(count for _, count in fired.lost)

    def _check_count(
        self, finish: m.FinishId, mine: dict[int, tuple[m.FinishId | None, int, int, int]], place: int, count: int
    ) -> None:
        """Exact for what survivors sent; what dead places sent to each other is not known for sure."""
        gone = [
            n
            for n, (_, src, dst, _) in mine.items()
            if dst == place != src and not {n} & (self.reported | self.notified)
        ]
        at_least = sum(mine[n][1] not in self.dead for n in gone)
        undelivered = sum(n in self.lost and src == place != dst for n, (_, src, dst, _) in mine.items())
        story = f"{finish} reports {count} lost with place {place}"
        assert at_least <= count <= len(gone) + undelivered, f"{story}, not {at_least} to {len(gone)} + {undelivered}"

    def _excused(self, number: int, finish: m.FinishId) -> bool:
        """Whether an activity was lost with a call whose caller was notified."""
        while number in self.routes and self.routes[number][0] == finish:
            if number in self.notified:
                return True
            number = self.routes[number][3]
        return False

    def check_end(self) -> None:
        """Every finish of a survivor fired; every activity has ended once, or is lost."""
        missing = {finish for finish in self.alive.keys() - self.fired if finish.home not in self.dead}
        assert not missing, f"finishes never fired: { {f: sorted(self.alive[f]) for f in sorted(missing)} }"
        vanished = self.routes.keys() - self.ended - self.lost
        assert not vanished, f"activities {sorted(vanished)} were neither run to their end nor lost"


class HeardTable(ResilientFinishTable):
    """Notes what a home has heard of dense finishes.

    Args:
        here: The place.
        heard: Called with the home, the finish, a place, and the word up to which the home has heard all that it said.
    """

    def __init__(self, here: int, heard: Callable[[int, m.FinishId, int, m.Word], None]) -> None:
        super().__init__(here)
        self._note = heard

    def words_came(self, finish: m.FinishId, words: Words) -> list[e.FinishFired]:
        """Take words at the home."""
        pairs = self._pairs[finish]
        fired = super().words_came(finish, words)
        for place in words.by_place.keys() & pairs.words.keys():
            word = pairs.words[place]
            if word.count == word.highest:
                self._note(self.here, finish, place, word)
        return fired


class SurvivalSimulation(Simulation):
    """A run of a resilient job in which up to ``kills`` places die.

    Args:
        seed: Decides everything.
        kills: How many places die, one after another or at once; place 0 never does.
        places: How many there are at the start.
        orders: How many orders come at random times.
        activities: The program stops spawning after about that many.
        deliveries: The program goes on until that many messages have arrived.
        places_per_node: How many places share a node; a node may lose some of its places.
        dense: Whether every second finish is dense.
    """

    def __init__(
        self,
        seed: int,
        *,
        kills: int = 2,
        places: int = 4,
        orders: int = 3,
        activities: int = 80,
        deliveries: int = 150,
        places_per_node: int = 1,
        dense: bool = False,
    ) -> None:
        self._said: dict[tuple[m.FinishId, int, int, int], set[int]] = {}
        self._covered: dict[tuple[int, m.FinishId], set[int]] = {}
        super().__init__(
            seed,
            places=places,
            orders=orders,
            activities=activities,
            deliveries=deliveries,
            places_per_node=places_per_node,
            dense=dense,
        )
        assert isinstance(self.oracle, SurvivalOracle)
        self.losses = self.oracle
        self.killed: list[int] = []
        self.passed_on = 0
        self._due = sorted(self.rng.randint(0, deliveries) for _ in range(kills))
        if self.rng.random() < 0.3:
            self._due = self._due[:1] * kills
        self._cut: set[tuple[int, int]] = set()
        self._carried: dict[int, tuple[m.Message, set[int]]] = {}
        self._calls: dict[tuple[int, int], tuple[int, m.Spawn]] = {}

    def _new_core(self, place: int, members: list[m.PlaceInfo], epoch: int) -> PlaceCore:
        core = ResilientPlaceCore(place, members, epoch)
        core.degree = self.degree
        core.finishes = core._losses = HeardTable(place, self._heard_words)
        return core

    def _heard_words(self, home: int, finish: m.FinishId, place: int, word: m.Word) -> None:
        """A home has taken what ``place`` had said up to some time."""
        if home not in self.losses.dead:
            self.losses.reported |= self._said.get((finish, place, word.turn, word.highest), set())

    def _new_oracle(self) -> Oracle:
        return SurvivalOracle()

    # the adversary ---------------------------------------------------------------------------------------------------

    def _choices(self) -> list[Callable[[], None]]:
        if self._due and self.network.delivered >= self._due[0] and self.program.main_lives:
            return [self._kill]
        return super()._choices()

    def _kill(self) -> None:
        self._due.pop(0)
        # one that was released and has not left yet as well: that must not matter
        candidates = sorted(self.cores.keys() - {0})
        if not candidates:
            return
        victim = self.rng.choice(candidates)
        self.killed.append(victim)
        if self.rng.random() < 0.25:
            self._accuse(victim)
            return
        self.losses.dies(victim)
        for packet in self.network.cut(victim, self.rng):
            self._drop(packet)
        self._end_process(victim)
        self._soon.append(partial(self._gone, victim))
        for place in self.cores:
            # only those that were connected notice; place 0 is connected to everyone
            if place == 0 or self.rng.random() < 0.5:
                self.network.send(Packet(victim, place, None, []))

    def _accuse(self, victim: int) -> None:
        """Some place finds its connection to the victim broken, although the victim lives."""
        accuser = self.rng.choice([place for place in sorted(self.cores) if place != victim])
        self._perform(accuser, self.cores[accuser].lost(victim, "it closed our connection"))
        if accuser != 0:
            # place 0 may have good reasons not to believe it, but the accuser takes nothing more from there
            self.network.send(Packet(victim, 0, None, []))

    def _end_process(self, place: int) -> None:
        self.program.keep(lambda activity: activity.place != place)
        del self.cores[place]
        self.left.add(place)

    def _drop(self, packet: Packet) -> None:
        if isinstance(packet.message, m.Spawn | m.Uncounted):
            self.losses.lost.add(int.from_bytes(bytes(packet.payload[0]), "big"))

    def _deliver(self) -> None:
        self._arrive(self.network.deliver())

    def _arrive(self, packet: Packet) -> None:
        src, dst, message = packet.src, packet.dst, packet.message
        self._touched = dst
        core = self.cores.get(dst)
        if core is None:
            last_words = isinstance(
                message, None | m.Final | m.Parted | m.LossReport | m.Cancel | m.Forget | m.Fulfilled
            )
            if isinstance(message, m.Said):  # again, of what its home knew before it left
                last_words = message.finish in self.losses.fired
            assert {src, dst} & self.losses.dead or last_words, f"{packet} is lost"
            self._drop(packet)
            return
        if message is None:
            self._perform(dst, core.lost(src, "connection ended"))
            return
        if (dst, src) in self._cut:
            self._drop(packet)
            self._perform(dst, core.received(src, message, packet.payload))
            return
        if isinstance(message, m.Report | m.Answer):
            self.losses.reported |= self._carried.pop(id(message), (message, set[int]()))[1]
        self._take(core, src, message, packet.payload)

    def _sever(self, here: int, dead: int, later: int) -> None:
        """The driver of ``here`` has taken all that arrived from ``dead``, or as much as it had time for."""
        if later:
            self._soon.append(lambda: self._sever(here, dead, later - 1))
            return
        core = self.cores.get(here)
        if not isinstance(core, ResilientPlaceCore):
            return
        self._touched = here
        packets = self.network.between(dead, here)
        taken = len(packets) if self.rng.random() < 0.7 else self.rng.randint(0, len(packets))
        for packet in packets[:taken]:
            self._arrive(packet)
        if here not in self.cores:
            return
        self._cut.add((here, dead))
        for packet in packets[taken:]:
            self._drop(packet)
            self.network.send(packet)
        self._perform(here, core.cut_off(dead))

    # effects ---------------------------------------------------------------------------------------------------------

    def _perform(self, here: int, effects: Iterable[e.Effect]) -> None:
        for effect in effects:
            match effect:
                case e.Send(dst, message, payload):
                    self._send(here, dst, message, payload)
                case e.RunActivity(payload=payload) | e.RunUncounted(payload=payload):
                    number = int.from_bytes(bytes(payload[0]), "big")
                    assert number not in self.losses.lost or here in self.losses.dead, f"activity {number} came back"
                    super()._perform(here, [effect])
                case e.CallLost(call):
                    number, spawn = self._calls[here, call]
                    if spawn.to_caller and spawn.finish.home == here:
                        self.losses.notified.add(number)
                    self.program.unblock(here, call)
                case e.FinishFired(finish):
                    if here not in self.losses.dead:
                        self.losses.fire_with_losses(effect)
                        self._check_answered(here, finish)
                    self.program.unblock(here, finish)
                case e.MembersChanged(died=died):
                    super()._perform(here, [effect])
                    for place in died:
                        self._bury(here, place)
                case e.PlaceLost(place):
                    assert here == 0, f"place {here} buries place {place}"
                case e.Ends():
                    assert here in self.losses.dead, f"place {here} ends"
                    self._end_process(here)
                    return
                case _:
                    super()._perform(here, [effect])

    def _send(self, here: int, dst: int, message: m.Message, payload: e.Payload) -> None:
        if isinstance(message, m.Spawn | m.Uncounted):
            number = int.from_bytes(bytes(payload[0]), "big")
            if isinstance(message, m.Spawn):
                self._calls[here, message.call] = (number, message)
            if (dst, here) in self._cut:
                self.losses.lost.add(number)
        if isinstance(message, m.Reply | m.Answer) and not payload:
            self.losses.not_begun(*self.program.sent[dst, message.call])
        if isinstance(message, m.Said):
            self.passed_on += len(message.words) > (here in message.words)
        if isinstance(message, m.Said) and here in message.words:
            self._note(here, message.finish, message.words[here])
        if dst in self.losses.dead and dst not in self.cores:
            return
        assert dst in self.known[here], f"place {here} sends {message} to {dst}, which it does not know yet"
        decoded = m.decode_frame(m.encode(message))
        assert not isinstance(decoded, m.OF_REFERENCES)
        if isinstance(decoded, m.Report | m.Answer):
            self._carried[id(decoded)] = (decoded, self.losses.unreported.pop((here, decoded.finish), set()))
        self.network.send(Packet(here, dst, decoded, payload))

    def _note(self, here: int, finish: m.FinishId, word: m.Word) -> None:
        """Note what is known to whom has heard a word of ``here``, and all before it."""
        covered = self._covered.setdefault((here, finish), set())
        if word.highest > 1 or not word.turn:  # else it says again what it has said
            covered |= self.losses.unreported.pop((here, finish), set())
        self._said[finish, here, word.turn, word.highest] = covered.copy()

    def _bury(self, here: int, place: int) -> None:
        if here == 0:
            if place in self.cores:
                # fenced: it notices that we have closed our connection, sooner or later
                self.losses.dies(place)
                self.network.send(Packet(0, place, None, []))
            self._soon.append(lambda: self._carry_out_order(self.order_machine.died(place, self.now_s)))
        self._soon.append(lambda: self._sever(here, place, self.rng.choice((0, 0, 10, 40))))

    def _leave(self, here: int) -> None:
        if here not in self.losses.dead:
            super()._leave(here)

    def _carry_out_order(self, effects: Iterable[r.OrderEffect]) -> None:
        for effect in effects:
            super()._carry_out_order([effect])
            if isinstance(effect, r.CommitShrink):
                for place in set(effect.leavers) - self.cores.keys():
                    self._soon.append(partial(self._gone, place))

    def _spawned(self, effect: r.StartSpawn) -> None:
        """Admit newcomers now and commit them later: a place may die meanwhile, and the order is aborted."""
        if self.rng.random() < 0.1:
            self._carry_out_order(self.order_machine.failed(effect.token, "no such host", self.now_s))
            return
        ids = self.cores[0].membership.new_ids(len(effect.nodes))
        added = tuple(_info(place, self.places_per_node) for place in ids)
        epoch = self.cores[0].epoch

        def joined() -> None:
            if self.cores[0].epoch != epoch:
                self._carry_out_order(self.order_machine.failed(effect.token, "a place died meanwhile", self.now_s))
                return
            self._carry_out_order(
                self.order_machine.spawned(effect.token, added, {"spawn": 0.1, "join": 0.01}, self.now_s) or ()
            )

        self._soon.append(joined)

    # activities ------------------------------------------------------------------------------------------------------

    def _unheard(self, activity: Activity, core: PlaceCore) -> bool:
        return activity.caller is not None and activity.caller[0] in core.membership.dead

    # the end ---------------------------------------------------------------------------------------------------------

    def _check_nodes(self) -> None:
        for node in self.order_machine.nodes.held():
            assert not any(self.order_machine.nodes.is_gone(place) for place in node)

    def _check_end(self) -> None:
        super()._check_end()
        for place, core in self.cores.items():
            assert core.finishes.quiet, f"place {place} is not quiet"
            validate(core)
            assert isinstance(core, ResilientPlaceCore)
            assert not core._dying, f"place {place} waits for what is left of places that have died"
            assert not core._losses._settling, f"place {place} waits for reports of losses: {core.finishes}"


# Simulations in which a place dies: the job must end on every other place, whatever was under way --------------------
#
# place p dies       its messages under way may or may not arrive; its connections end
# place 0 hears of it (itself, or from a place that lost p)     -> End to everyone
# place 0 dies       every place notices by itself


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
        # one that was released dies anyway, which does not matter
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
        assert self.victim is not None, "no place was killed"
        survivors = self.cores.keys()
        assert survivors == self.ended.keys() & survivors, (
            f"place {self.victim} died and places {sorted(survivors - self.ended.keys())} go on"
        )
        why = {self.ended[place].partition(":")[0] for place in survivors} - {"released"}
        assert why <= {f"place {self.victim} died" if self.victim else "lost place 0"}, f"places end with {self.ended}"
