"""A network without sockets: messages wait in channels until an adversary delivers them."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

from apgas.core.effects import Payload
from apgas.core.messages import AnyMessage


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
