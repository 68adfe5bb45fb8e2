"""Where a job's orders come from: one interface for the socket protocol, other batch systems and tests."""

from __future__ import annotations

from typing import Protocol

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
