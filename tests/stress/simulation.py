"""A whole job in one thread: place cores, a resize coordinator, an adversarial network and a virtual clock.

One seed is one run, to the bit. ``Simulation(seed).run()`` raises if anything that must hold does not: a finish fires
early, twice or never; an activity is lost or runs twice; members disagree; a message reaches a place that has left.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from msgspec.structs import replace
from stress.workload import Activity, Oracle, RandomProgram
from support.in_places.validation import validate

from apgas.core import effects as e
from apgas.core import messages as m
from apgas.core import resize as r
from apgas.core.effects import Payload
from apgas.core.messages import AnyMessage
from apgas.core.order import Nodes, OrderMachine, Step
from apgas.core.place import PlaceCore

NEVER_S = 1e9
"""A deadline that a run which works never reaches."""


def _info(place: int, places_per_node: int = 1) -> m.PlaceInfo:
    # ids are given out by whole nodes
    return m.PlaceInfo(place, "sim", 1000 + place, f"node{place // places_per_node}", place)


class Simulation:
    """One seeded run of a random program on a few places, with a few resizes.

    Args:
        seed: Decides everything.
        places: How many there are at the start.
        orders: How many orders come at random times.
        activities: The program stops spawning after about that many.
        deliveries: The program goes on until that many messages have arrived, and until two orders were carried out.
        places_per_node: How many places share a node; ``places`` is a multiple of it, orders count nodes.
        dense: Whether every second finish is dense.
    """

    def __init__(
        self,
        seed: int,
        *,
        places: int = 3,
        orders: int = 3,
        activities: int = 60,
        deliveries: int = 0,
        places_per_node: int = 1,
        dense: bool = True,
    ) -> None:
        self.rng = random.Random(seed)
        self.network = SimulatedNetwork(self.rng)
        self.oracle = self._new_oracle()
        self.places_per_node = places_per_node
        self.degree = 1 + seed % 3
        self.news: list[m.News] = []
        members = [_info(place, places_per_node) for place in range(places)]
        self.cores = {place: self._new_core(place, members, 0) for place in range(places)}
        self.left: set[int] = set()
        self.known = {place: set(range(places)) for place in range(places)}
        self.records: list[r.ResizeRecord] = []
        self.now_s = 0.0
        self.drain_s = self.rng.choice((15.0, 400.0, NEVER_S))
        deadlines = r.Deadlines(pre_s=40, spawn_s=40, drain_s=self.drain_s, release_s=NEVER_S, post_s=NEVER_S)
        self.order_machine = OrderMachine(self.cores[0].membership.members, deadlines)
        self.order_machine.nodes = Nodes(self.cores[0].membership.members, places_per_node)
        self._soon: list[Callable[[], None]] = []
        self._holding: list[tuple[int, m.FinishId]] = []
        self.met: dict[int, set[int]] = {}
        """To which others each place has sent anything."""
        self._timers: list[tuple[float, int]] = []
        self._orders_left = orders
        self._deliveries = deliveries
        self._order_number = 0
        self._touched = 0
        self._numbered = set(range(places))
        self.program = RandomProgram(
            self.rng,
            self.cores,
            self.oracle,
            self._perform,
            goes_on=self._goes_on,
            unheard=self._unheard,
            activities=activities,
            dense=dense,
        )

    def run(self, max_steps: int = 100_000) -> Simulation:
        """Run to the end and check what must hold; returns itself for statistics."""
        self.order_machine.enable()
        self.program.open()
        for _ in range(max_steps):
            choices = self._choices()
            if not choices:
                break
            self.now_s += self.rng.random()
            self._touched = 0
            self.rng.choice(choices)()
            if self._touched in self.cores:
                validate(self.cores[self._touched])
            validate(self.order_machine)
        else:
            raise AssertionError(f"no end after {max_steps} steps")
        self._check_end()
        return self

    def _new_core(self, place: int, members: list[m.PlaceInfo], epoch: int) -> PlaceCore:
        core = HearingCore(place, members, epoch, self.news)
        core.degree = core.news_degree = self.degree
        return core

    def _new_oracle(self) -> Oracle:
        return Oracle()

    def _unheard(self, activity: Activity, core: PlaceCore) -> bool:
        return False

    def _step(self) -> None:
        self._touched = self.program.step()

    # the adversary ---------------------------------------------------------------------------------------------------

    def _choices(self) -> list[Callable[[], None]]:
        choices: list[Callable[[], None]] = []
        if self.network.waiting():
            choices += [self._deliver] * 4
        if self.program.runnable:
            choices += [self._step] * 3
        if self._soon:
            choices.append(self._do_soon)
        if self._holding:
            choices.append(self._pass_on)
        if self._orders_left and self.program.main_lives:
            choices.append(self._order)
        due = [timer for timer in self._timers if timer[0] <= self.now_s]
        if due:
            choices.append(self._fire_timer)
        if not choices and self._timers and self.order_machine.step is not Step.IDLE:
            choices.append(self._jump)
        return choices

    def _goes_on(self) -> bool:
        """Whether the program is to last longer: too little has happened so far."""
        if not self._deliveries:
            return False
        carried_out = sum(record.outcome == "done" for record in self.records)
        alone = len(self.cores) == 1
        if (carried_out < 2 or alone) and not self._orders_left and self.order_machine.step is Step.IDLE:
            self._orders_left = 1
        return carried_out < 2 or self.network.delivered < self._deliveries

    def _do_soon(self) -> None:
        self._soon.pop(self.rng.randrange(len(self._soon)))()

    def _pass_on(self) -> None:
        """A driver has waited long enough, or hardly at all."""
        here, finish = self._holding.pop(self.rng.randrange(len(self._holding)))
        if here in self.cores:
            self._touched = here
            self._perform(here, self.cores[here].pass_on(finish))

    def _jump(self) -> None:
        """Nothing else can happen: let time pass."""
        self.now_s = max(self.now_s, min(self._timers)[0])

    def _fire_timer(self) -> None:
        timer = min(self._timers)
        self._timers.remove(timer)
        self._carry_out_order(self.order_machine.timeout(timer[1], self.now_s))

    def _order(self) -> None:
        self._orders_left -= 1
        kind: r.Kind = self.rng.choice(("grow", "shrink"))
        self._order_number += 1
        order = r.ResizeOrder(self._order_number, kind, self.rng.randint(1, 3))
        self._carry_out_order(self.order_machine.ordered(order, self.now_s))

    def _deliver(self) -> None:
        packet = self.network.deliver()
        self._touched = packet.dst
        if packet.dst in self.left:
            assert isinstance(packet.message, None | m.Final | m.Cancel | m.Forget), f"{packet} is lost"
            return
        core = self.cores[packet.dst]
        if packet.message is None:
            self._perform(packet.dst, core.lost(packet.src, "connection ended"))
        else:
            self._take(core, packet.src, packet.message, packet.payload)

    def _take(self, core: PlaceCore, src: int, message: m.AnyMessage, payload: e.Payload) -> None:
        if isinstance(message, m.Cancel) and message.epoch <= core.epoch:
            self.oracle.heard.add((core.here, message.finish))
        self._perform(core.here, core.received(src, message, payload))

    # effects ---------------------------------------------------------------------------------------------------------

    def _perform(self, here: int, effects: Iterable[e.Effect]) -> None:  # noqa: C901 - one arm an effect
        for effect in effects:
            match effect:
                case e.Send(dst, message, payload):
                    assert dst in self.known[here], f"place {here} sends {message} to {dst}, which it does not know yet"
                    decoded = m.decode_frame(m.encode(message))
                    assert not isinstance(decoded, m.OF_REFERENCES)
                    if isinstance(message, m.Reply | m.Answer) and not payload:
                        self.oracle.not_begun(*self.program.sent[dst, message.call])
                    self.met.setdefault(here, set()).add(dst)
                    self.network.send(Packet(here, dst, decoded, payload))
                case e.PassOn(finish):
                    self._holding.append((here, finish))
                case e.RunActivity(src, spawn, payload):
                    self.program.begin(here, payload, spawn.finish, (src, spawn))
                case e.RunUncounted(_, payload):
                    self.program.begin(here, payload, None, None)
                case e.ResolveCall(call):
                    self.program.unblock(here, call)
                case e.FinishFired(finish, errors):
                    self.oracle.fire(finish, len(errors))
                    self._check_answered(here, finish)
                    self.program.unblock(here, finish)
                case e.MembersChanged(_, added, removed):
                    self.known[here].update(info.place for info in added)
                    for place in removed:
                        self.network.send(Packet(here, place, None, []))
                case e.LeaverDrained(order, place):
                    self._carry_out_order(self.order_machine.drained(order, place, self.now_s))
                case e.StaysOn():
                    pass
                case e.Leaves():
                    self._leave(here)
                case e.PlaceLost(place, reason):
                    raise AssertionError(f"place {place} was reported lost to place {here}: {reason}")
                case e.RunImmediate() | e.Ends() | e.CallLost():
                    raise AssertionError(f"unexpected {effect}")
                case _:
                    assert_never(effect)

    def _check_answered(self, home: int, finish: m.FinishId) -> None:
        """All that the home of a finish has sent under it has been answered when the finish fires."""
        late = [call for call in self.cores[home].calls if self.program.sent[home, call][1] == finish]
        assert not late, f"{finish} fired before calls {late} of its home were answered"

    def _leave(self, here: int) -> None:
        assert not any(a.place == here for a in (*self.program.runnable, *self.program.blocked)), (
            f"place {here} left with work"
        )
        self.left.add(here)
        del self.cores[here]
        for place in self.cores:
            self.network.send(Packet(here, place, None, []))
        self._soon.append(partial(self._gone, here))

    def _gone(self, place: int) -> None:
        self._carry_out_order(self.order_machine.gone(place, self.now_s))

    def _carry_out_order(self, effects: Iterable[r.OrderEffect]) -> None:
        core = self.cores[0]
        for effect in effects:
            match effect:
                case r.CallHandler():
                    self._soon.append(partial(self._handler_returns, effect))
                case r.StartSpawn():
                    self._soon.append(partial(self._spawned, effect))
                case r.CommitGrow(added):
                    self._perform(0, core.commit_grow(added))
                    for info in added:
                        members = list(core.membership.members.values())
                        self.cores[info.place] = self._new_core(info.place, members, core.epoch)
                        self.known[info.place] = set(core.membership.members)
                case r.PrepareShrink(order, leavers):
                    self._perform(0, core.prepare_shrink(order, leavers))
                case r.AbortShrink(order):
                    self._perform(0, core.abort_shrink(order))
                case r.CommitShrink(order):
                    self._perform(0, core.commit_shrink(order))
                case r.SetTimer(token, delay_s):
                    self._timers.append((self.now_s + delay_s, token))
                case r.TellDeferred():
                    pass
                case r.Finished(record):
                    self._finished(record)
                case _:
                    assert_never(effect)

    def _finished(self, record: r.ResizeRecord) -> None:
        self.records.append(record)
        if "did not drain" in record.reason:
            # once is what a short deadline explains; from now on every leaver must get there
            self.order_machine.deadlines = replace(self.order_machine.deadlines, drain_s=NEVER_S)

    def _handler_returns(self, call: r.CallHandler) -> None:
        if self.rng.random() < 0.05:
            self._carry_out_order(self.order_machine.failed(call.token, "the handler failed", self.now_s))
            return
        staying = {info.place for info in self.cores[0].membership.staying}
        candidates = [node for node in self.order_machine.nodes.held()[1:] if staying.issuperset(node)]
        count = min(call.count // self.places_per_node, len(candidates))
        chosen = None
        if call.method == "preShrink":
            chosen = [place for node in self.rng.sample(candidates, count) for place in node]
        self._carry_out_order(self.order_machine.returned(call.token, chosen, self.now_s))

    def _spawned(self, effect: r.StartSpawn) -> None:
        if self.rng.random() < 0.1:
            self._carry_out_order(self.order_machine.failed(effect.token, "no such host", self.now_s))
            return
        ids = self.cores[0].membership.new_ids(len(effect.nodes))
        added = tuple(_info(place, self.places_per_node) for place in ids)
        if any(info.place in self._numbered for info in added):
            raise AssertionError(f"{added} have ids of newcomers before them, which may have come too late")
        self._numbered.update(info.place for info in added)
        phases = {"spawn": 0.1, "join": 0.01}
        self._carry_out_order(self.order_machine.spawned(effect.token, added, phases, self.now_s) or ())

    # the end ---------------------------------------------------------------------------------------------------------

    def _check_end(self) -> None:
        assert not self.program.runnable, "activities are left"
        stuck = [(a.number, a.place, a.blocked_on) for a in self.program.blocked]
        assert not stuck, f"activities wait for ever: {stuck}"
        self.oracle.check_end()
        assert self.order_machine.step is Step.IDLE, f"an order hangs in step {self.order_machine.step}"
        undrained = [record for record in self.records if "did not drain" in record.reason]
        assert len(undrained) <= (self.drain_s < NEVER_S), f"leavers never drained: {undrained}"
        views = {tuple(sorted(core.membership.members)) for core in self.cores.values()}
        epochs = {core.epoch for core in self.cores.values()}
        assert len(views) == len(epochs) == 1, f"members disagree: {views}, epochs {epochs}"
        assert set(next(iter(views))) == self.cores.keys(), "members and processes differ"
        self._check_nodes()
        deaf = [place for place, core in self.cores.items() if isinstance(core, HearingCore) and core.misses_news]
        assert not deaf, f"places {deaf} have not heard all of {self.news}"
        assert not any(core.calls for core in self.cores.values()), "calls are open"
        assert not any(core._relay.held for core in self.cores.values()), "reports are held"
        remembered = {place: core.cancelled for place, core in self.cores.items() if core.cancelled}
        assert not remembered, f"places remember finishes that have fired: {remembered}"

    def _check_nodes(self) -> None:
        partial = [node for node in self.order_machine.nodes.held() if len(node) != self.places_per_node]
        assert not partial, f"a part of a node has left, these are still there: {partial}"


class HearingCore(PlaceCore):
    """A place that checks what it hears of place 0's decisions: all since it joined, in their order, each once.

    Args:
        news: What place 0 has decided so far; place 0 adds to it.
    """

    def __init__(self, here: int, members: list[m.PlaceInfo], epoch: int, news: list[m.News]) -> None:
        super().__init__(here, members, epoch)
        self._news = news
        self._heard = len(news)

    @property
    def misses_news(self) -> bool:
        """Whether place 0 has decided something that has not come here."""
        return self._heard < len(self._news)

    def _hear(self, src: int, news: m.News) -> list[e.Effect]:
        if self.here == 0:
            self._news.append(news)
        assert self.misses_news, f"place {self.here} hears {news} again"
        assert news == self._news[self._heard], f"place {self.here} hears {news} before {self._news[self._heard]}"
        self._heard += 1
        effects = super()._hear(src, news)
        passed_on = [effect for effect in effects if isinstance(effect, e.Send) and effect.message == news]
        assert len(passed_on) <= self.news_degree, f"place {self.here} sends {news} to {len(passed_on)} places"
        return effects


# A network without sockets: messages wait in channels until an adversary delivers them -------------------------------


@dataclass(frozen=True, slots=True)
class Packet:
    """A message under way; None stands for the end of the connection."""

    src: int
    dst: int
    message: AnyMessage | None
    payload: Payload


class SimulatedNetwork:
    """Keeps the order of each ordered pair and nothing else; some pairs are slow."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._channels: dict[tuple[int, int], deque[Packet]] = {}
        self._weights: dict[tuple[int, int], float] = {}
        self.delivered = 0

    def send(self, packet: Packet) -> None:
        """Put a packet behind those of its pair."""
        pair = (packet.src, packet.dst)
        if pair not in self._weights:
            self._weights[pair] = self._rng.choice((1.0, 1.0, 0.3, 0.02))
        self._channels.setdefault(pair, deque()).append(packet)

    def waiting(self) -> int:
        """How many channels hold something."""
        return len(self._channels)

    def under_way(self) -> list[Packet]:
        """Every packet that has not arrived."""
        return [packet for channel in self._channels.values() for packet in channel]

    def deliver(self) -> Packet:
        """Take the first packet of a channel that the adversary picks."""
        pairs = list(self._channels)
        pair = self._rng.choices(pairs, [self._weights[pair] for pair in pairs])[0]
        channel = self._channels[pair]
        packet = channel.popleft()
        if not channel:
            del self._channels[pair]
        self.delivered += 1
        return packet

    def cut(self, place: int, rng: random.Random) -> list[Packet]:
        """``place`` dies: what is under way to it is lost, a first part of its own arrives; returns what is lost."""
        lost: list[Packet] = []
        for pair in [pair for pair in self._channels if place in pair]:
            channel = self._channels.pop(pair)
            arriving = rng.randint(0, len(channel)) if pair[0] == place else 0
            if arriving:
                self._channels[pair] = deque(list(channel)[:arriving])
            lost += list(channel)[arriving:]
        return lost

    def between(self, src: int, dst: int) -> list[Packet]:
        """Take every packet that is under way from ``src`` to ``dst``."""
        return list(self._channels.pop((src, dst), ()))
