"""Where a job's orders come from, and what it does when its scheduler is gone."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Final, Protocol

import msgspec

from apgas.errors import UsageError
from apgas.malleability.orders import Answer, Message, Order, Withdraw


class OrderListener(Protocol):
    """What the runtime offers a communicator. Every method may be called from any thread and returns at once."""

    def order(self, order: Order) -> None:
        """Take an order; its outcome is sent back as an ``Outcome``."""

    def withdraw(self, order: Withdraw) -> None:
        """Take an order back if it is still deferred."""

    def answer(self, answer: Answer) -> None:
        """Take the answer to an evolving request."""

    def scheduler_lost(self, reason: str) -> None:
        """The scheduler is gone for good (after the reconnection time, if any): the job is to end."""


class Communicator(Protocol):
    """Connects one job to its scheduler. Only place 0 has one."""

    def start(self, listener: OrderListener) -> None:
        """Connect and begin to deliver orders; returns at once or raises ``ApgasError`` if the scheduler refuses us."""

    def send(self, message: Message) -> None:
        """Send a message to the scheduler; never blocks, order is kept; messages of a lost connection are kept too."""

    def close(self) -> None:
        """Deliver what is pending (at most 1 s) and disconnect. Idempotent."""


# What a job does when its scheduler is gone: end, or try for a while to come back ------------------------------------

ENV_ON_LOSS: Final = "APGAS_ON_SCHEDULER_LOSS"

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


class OnLoss(msgspec.Struct, frozen=True):
    """Keep trying to reconnect for ``reconnect_s`` seconds; 0: end at once."""

    reconnect_s: float = 0.0

    @classmethod
    def parse(cls, text: str, *, name: str = "on_loss") -> OnLoss:
        """Read ``end`` or ``reconnect:SECONDS``.

        Args:
            text: What to read.
            name: Where it stands, for the error.

        Raises:
            UsageError: ``text`` is neither.
        """
        action, _, seconds = text.strip().partition(":")
        if action == "end" and not seconds:
            return cls()
        if action == "reconnect":
            try:
                value = float(seconds)
            except ValueError:
                value = math.nan
            if 0 < value < math.inf:
                return cls(value)
        raise UsageError(f"{name} is {text!r}; it is to be 'end' or 'reconnect:SECONDS', for example 'reconnect:30'")

    def pauses(self) -> Iterator[float]:
        """Yield the seconds to wait before each attempt: doubling, bounded, spread so that jobs do not come at once."""
        pause_s = _FIRST_PAUSE_S
        while True:
            yield pause_s * random.uniform(0.5, 1.0)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
