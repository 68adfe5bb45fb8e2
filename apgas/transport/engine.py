"""Carries out transfers by MPI: starts them, and has a thread look whether they are done.

MPI has no way to sleep until something happens. So the thread looks at it again and again, but only while a transfer
is under way: at first without a pause, for most transfers take less than that; then with naps that grow. Without
transfers it sleeps in the kernel. A transfer is started by the thread that asks for it, and if it is a receive of what
has arrived already, the engine's thread has nothing to do with it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

_logger = logging.getLogger(__name__)

EAGER_S: Final = 0.002
"""For so long after the last sign of progress it looks without a pause."""
FIRST_NAP_S: Final = 0.00005
LONGEST_NAP_S: Final = 0.001


class Request(Protocol):
    """As much of an mpi4py request as is used here."""

    def Test(self) -> bool: ...  # noqa: N802, D102 - the names of MPI
    def Cancel(self) -> None: ...  # noqa: N802, D102
    def Free(self) -> None: ...  # noqa: N802, D102


TestSome = Callable[[list[Request]], Sequence[int] | None]
"""MPI.Request.Testsome: the indices of the requests that are done."""


class Transfer:
    """The buffers of one frame on their way, out or in.

    Args:
        post: Starts it.
        ended: Called once, with an empty text when all is done, else with what went wrong; on the engine's thread, or
            within ``submit``.
        receiving: Whether MPI can give it up: it can for receives only.
    """

    def __init__(self, post: Callable[[], list[Request]], ended: Callable[[str], None], *, receiving: bool) -> None:
        self.post = post
        self.ended = ended
        self.receiving = receiving
        self.pending = 0
        self.over = False

    def end(self, error: str) -> None:
        """Tell of the end, once."""
        if not self.over:
            self.over = True
            self.ended(error)


class Engine:
    """Carries out transfers, each place has one.

    Args:
        test_some: MPI's.
        name: Of the thread.
    """

    def __init__(self, test_some: TestSome, name: str) -> None:
        self._test_some = test_some
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
        try:
            requests = transfer.post()
            if transfer.receiving:
                requests = [request for request in requests if not request.Test()]
        except Exception as error:
            _logger.debug("a transfer could not begin", exc_info=True)
            transfer.end(str(error))
            return
        if requests:
            self._do_soon(lambda: self._watch(transfer, requests))
        else:
            transfer.end("")

    def give_up(self, transfer: Transfer) -> None:
        """Do not wait for a transfer any more; it is not told of its end. Any thread."""
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
        progress_s = 0.0
        while self._running:
            if self._queue:
                self._queue.popleft()()
                progress_s = time.monotonic()
                continue
            if not self._requests:
                self._sleep(None)
            elif self._look():
                progress_s = time.monotonic()
                nap_s = FIRST_NAP_S
            elif time.monotonic() - progress_s < EAGER_S:
                time.sleep(0)  # lets other threads have the interpreter
            else:
                self._sleep(nap_s)
                nap_s = min(2 * nap_s, LONGEST_NAP_S)
        for transfer in set(self._owners):
            self._give_up(transfer)

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
        try:
            done = self._test_some(self._requests)
        except Exception:
            _logger.debug("a transfer failed", exc_info=True)
            self._find_failures()
            return True
        if not done:
            return False
        self._remove(set(done), dict.fromkeys(done, ""))
        return True

    def _find_failures(self) -> None:
        """Look at the requests one by one, for together they do not tell which of them failed."""
        outcomes: dict[int, str] = {}
        for index, request in enumerate(self._requests):
            try:
                if request.Test():
                    outcomes[index] = ""
            except Exception as error:  # noqa: BLE001 - whatever MPI has to say ends the transfer
                outcomes[index] = str(error)
        self._remove(set(outcomes), outcomes)

    def _remove(self, done: set[int], outcomes: dict[int, str]) -> None:
        ended = [(self._owners[index], outcomes[index]) for index in sorted(done)]
        kept = [index for index in range(len(self._requests)) if index not in done]
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
        mine = {index for index, owner in enumerate(self._owners) if owner is transfer}
        if not mine:
            return
        # MPI may still look at this memory
        self._given_up.append(transfer)
        for index in mine:
            try:
                if transfer.receiving:
                    self._requests[index].Cancel()
                self._requests[index].Free()
            except Exception:
                _logger.debug("a request could not be given up", exc_info=True)
        self._requests = [request for index, request in enumerate(self._requests) if index not in mine]
        self._owners = [owner for owner in self._owners if owner is not transfer]
