"""How far a computation is, as place 0 knows it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

import apgas

_log = logging.getLogger("glb")

SHOW_EVERY_S: Final = 0.25


class Progress:
    """Adds up what the places report and shows it.

    ``show`` (tasks, places, workers) is called in a thread of its own, at most every ``SHOW_EVERY_S``; without it the
    scheduler is told instead.

    Args:
        show: The program's callback.
        size: Returns the present number of places.
        workers: Returns the present number of workers on all places.
    """

    def __init__(
        self, show: Callable[[int, int, int], None] | None, size: Callable[[], int], workers: Callable[[], int]
    ) -> None:
        self._show = show
        self._size = size
        self._workers = workers
        self._lock = threading.Lock()
        self._by_place: dict[int, int] = {}
        self._settled = 0
        self._news = threading.Event()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def tasks(self) -> int:
        """Tasks processed, as far as reported."""
        with self._lock:
            return self._settled + sum(self._by_place.values())

    def by_place(self) -> dict[int, int]:
        """Return what each place has processed, as far as reported since it joined."""
        with self._lock:
            return dict(self._by_place)

    def start(self) -> None:
        """Begin to show."""
        if self._show is not None:
            self._thread = threading.Thread(target=self._run, name="glb-progress", daemon=True)
            self._thread.start()

    def update(self, place: int, tasks: int) -> None:
        """Note what ``place`` has processed; never blocks."""
        with self._lock:
            self._by_place[place] = tasks
        if self._show is None:
            apgas.progress(self.tasks)
        else:
            self._news.set()

    def settle(self, place: int, tasks: int) -> None:
        """Note the final count of ``place``; if it takes part again it counts from 0."""
        with self._lock:
            self._by_place.pop(place, None)
            self._settled += tasks

    def stop(self) -> None:
        """Show the last count and end the thread."""
        self._over.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over.wait(SHOW_EVERY_S):
                self._news.wait()
                self._news.clear()
                self._call()
            self._call()
        except Exception:  # noqa: BLE001 - the picture may fail, the computation goes on
            _log.exception("on_progress failed; no more progress is shown")

    def _call(self) -> None:
        if self._show is not None:
            self._show(self.tasks, self._size(), self._workers())
