"""Carries out transfers by MPI: starts them, looks whether they are done, and has MPI make progress elsewhere.

MPI has no way to sleep until something happens. So the thread looks at it again and again, but only while a transfer
is under way: at first without a pause, for most transfers take less than that; then with naps that grow. To look all
the time, or to block within MPI, was tried: beside a computing thread it takes half of the core. A transfer is started
by the thread that asks for it, and if it is a receive of what has arrived already, the thread has no part in it.

What MPI calls done here may not have left this process: over libfabric's TCP, it goes on only while a thread calls MPI.
So the thread lingers for a second after the last transfer, looking now and then, and sleeps in the kernel only after
that. A place that waits for long pokes those that it waits for, and they linger again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from mpi4py.MPI import Request, Status

_logger = logging.getLogger(__name__)

EAGER_S: Final = 0.002
"""For so long after the last sign of progress it looks without a pause."""
FIRST_NAP_S: Final = 0.00005
LONGEST_NAP_S: Final = 0.001
LINGER_S: Final = 1.0
LINGER_NAP_S: Final = 0.01
STUCK_S: Final = 0.5
"""A transfer that makes no progress for so long may need a poke, and again after so long."""


class Transfer(msgspec.Struct, eq=False):
    """The buffers of one frame on their way, out or in.

    Attributes:
        post: Starts it, one request after the other.
        ended: Called once, with an empty text when all is done, else with what went wrong; on the engine's thread, or
            within ``submit``.
        receiving: Whether MPI can give it up: it can for receives only.
    """

    post: Callable[[], Iterable[Request]]
    ended: Callable[[str], None]
    receiving: bool
    pending: int = 0
    over: bool = False

    def end(self, error: str) -> None:
        """Report the end, once."""
        if not self.over:
            self.over = True
            self.ended(error)


class Engine:
    """Carries out transfers, each place has one.

    ``test_some`` is Testsome of MPI's requests. ``progress`` lets MPI work on whatever is under way; see where it is
    chosen, for not every call of MPI does. The thread calls ``stuck`` when transfers make no progress. ``explain`` says
    what an error code of MPI means.
    """

    def __init__(
        self,
        test_some: Callable[[list[Request], list[Status]], Sequence[int] | None],
        progress: Callable[[], object],
        stuck: Callable[[], None],
        explain: Callable[[int], str],
        name: str,
    ) -> None:
        self._test_some = test_some
        self._explain = explain
        self._progress = progress
        self._stuck = stuck
        self._linger_until_s = 0.0
        self._condition = threading.Condition()
        self._queue: deque[Callable[[], None]] = deque()
        self._requests: list[Request] = []
        self._owners: list[Transfer] = []
        self._given_up: list[Transfer] = []
        self._running = True
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, transfer: Transfer) -> None:
        """Carry out a transfer. Any thread."""
        requests: list[Request] = []
        try:
            requests.extend(transfer.post())
            if transfer.receiving:
                requests = [request for request in requests if not request.Test()]
        except Exception as error:
            _logger.debug("a transfer could not begin", exc_info=True)
            self._let_go(transfer, requests)
            transfer.end(str(error))
            return
        if requests:
            self._do_soon(lambda: self._watch(transfer, requests))
        else:
            transfer.end("")

    def linger(self) -> None:
        """Let MPI finish what it calls done already. Any thread."""
        self._linger_until_s = time.monotonic() + LINGER_S
        with self._condition:
            self._condition.notify()

    def give_up(self, transfer: Transfer) -> None:
        """Do not wait for a transfer any more; its end is not reported. Any thread."""
        self._do_soon(lambda: self._give_up(transfer))

    def stop(self) -> None:
        """End the thread; what is still under way is given up. Idempotent."""
        with self._condition:
            self._running = False
            self._condition.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def _do_soon(self, work: Callable[[], None]) -> None:
        with self._condition:
            self._queue.append(work)
            self._condition.notify()

    # the rest runs on the thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        nap_s = FIRST_NAP_S
        active_s = poked_s = 0.0
        while self._running:
            now_s = time.monotonic()
            if self._queue:
                self._queue.popleft()()
                active_s = poked_s = now_s
            elif not self._requests:
                nap_s = self._linger(nap_s, now_s)
            elif self._look():
                active_s = poked_s = now_s
                nap_s = FIRST_NAP_S
                self._linger_until_s = now_s + LINGER_S
            elif now_s - active_s < EAGER_S:
                time.sleep(0)  # lets other threads have the interpreter
            else:
                self._sleep(nap_s)
                nap_s = min(2 * nap_s, LONGEST_NAP_S)
                if now_s - poked_s > STUCK_S:
                    poked_s = now_s
                    self._stuck()
        for transfer in set(self._owners):
            self._give_up(transfer)

    def _linger(self, nap_s: float, now_s: float) -> float:
        """Nothing is under way: look once, and sleep; returns how long to sleep the next time."""
        if now_s > self._linger_until_s:
            self._sleep(None)
            return FIRST_NAP_S
        self._progress()
        self._sleep(nap_s)
        return min(2 * nap_s, LINGER_NAP_S)

    def _sleep(self, longest_s: float | None) -> None:
        with self._condition:
            if self._running and not self._queue:
                self._condition.wait(longest_s)

    def _watch(self, transfer: Transfer, requests: list[Request]) -> None:
        transfer.pending = len(requests)
        self._requests += requests
        self._owners += [transfer] * transfer.pending

    def _look(self) -> bool:
        """Return whether a request is done."""
        statuses: list[Status] = []
        try:
            done = self._test_some(self._requests, statuses)
        except Exception:
            _logger.debug("a transfer failed", exc_info=True)
            self._find_failures(statuses)
            return True
        if not done:
            return False
        self._remove(dict.fromkeys(done, ""))
        return True

    def _find_failures(self, statuses: list[Status]) -> None:
        """Look at the requests one by one, for the error of all together does not say which of them failed.

        Those that have ended, well or not, are null requests by now, which have no error. Only their statuses have it.
        """
        ended = [index for index, request in enumerate(self._requests) if not request]
        outcomes = dict.fromkeys(ended, "it failed together with others")
        if len(statuses) == len(ended):
            codes = [status.error for status in statuses]
            outcomes = {i: self._explain(code) if code else "" for i, code in zip(ended, codes, strict=True)}
        for index, request in enumerate(self._requests):
            try:
                if request and request.Test():
                    outcomes[index] = ""
            except Exception as error:  # noqa: BLE001 - whatever MPI has to say ends the transfer
                outcomes[index] = str(error)
        self._remove(outcomes)

    def _remove(self, outcomes: dict[int, str]) -> None:
        """Take requests out that have ended, by index, each with what went wrong."""
        ended = [(self._owners[index], error) for index, error in sorted(outcomes.items())]
        kept = [index for index in range(len(self._requests)) if index not in outcomes]
        self._requests = [self._requests[index] for index in kept]
        self._owners = [self._owners[index] for index in kept]
        for transfer, error in ended:
            transfer.pending -= 1
            if error:
                self._give_up(transfer)
                transfer.end(error)
            elif not transfer.pending:
                transfer.end("")

    def _give_up(self, transfer: Transfer) -> None:
        both = list(zip(self._requests, self._owners, strict=True))
        self._let_go(transfer, [request for request, owner in both if owner is transfer])
        self._requests = [request for request, owner in both if owner is not transfer]
        self._owners = [owner for owner in self._owners if owner is not transfer]

    def _let_go(self, transfer: Transfer, requests: list[Request]) -> None:
        if requests:
            # MPI may still look at this memory
            self._given_up.append(transfer)
        for request in requests:
            try:
                if transfer.receiving:
                    request.Cancel()
                request.Free()
            except Exception:
                _logger.debug("a request could not be given up", exc_info=True)


# Progress at other places --------------------------------------------------------------------------------------------

_EVERY_S: Final = 0.8 * LINGER_S
"""So that those who are poked go on lingering until the next time."""


def poke_while(
    needed: Callable[[], bool], poke: Callable[[], None], later: Callable[[float, Callable[[], None]], object]
) -> None:
    """``poke`` other places to call MPI for as long as this one waits for them within MPI.

    Most waits end before the first time. ``later`` runs something after a delay in seconds.
    """

    def again() -> None:
        if needed():
            poke()
            later(_EVERY_S, again)

    later(STUCK_S, again)
