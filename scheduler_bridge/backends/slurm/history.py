"""What a session remembers of its program, for ``malleable report``: a record as of a cluster with one job."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler_bridge.core import effects as fx
from scheduler_bridge.core import events as ev
from scheduler_bridge.record import Recorder, RunRecord


class History:
    """Events in the order in which they came; the nodes of the picture are those that were held at some time.

    Args:
        started_at: The beginning, as an ISO date.
    """

    def __init__(self, started_at: str) -> None:
        self._started_at = started_at
        self._events: list[tuple[float, ev.Event, tuple[fx.Effect, ...]]] = []
        self._nodes: dict[str, None] = {}
        self._measured: list[tuple[int, int, float, dict[str, float]]] = []

    def add(self, now_s: float, event: ev.Event, effects: Iterable[fx.Effect] = ()) -> None:
        """Remember ``event`` and what came of it."""
        had = tuple(effects)
        self._events.append((now_s, event, had))
        for effect in had:
            if isinstance(effect, fx.StartJob | fx.SendOrder):
                self._nodes.update(dict.fromkeys(effect.nodes))

    def measured(self, job: int, order: int, seconds: float, phases: dict[str, float]) -> None:
        """Remember what the program measured of an order."""
        self._measured.append((job, order, seconds, phases))

    def record(self) -> RunRecord:
        """Return the record so far."""
        recorder = Recorder(tuple(self._nodes), "slurm", started_at=self._started_at)
        for now_s, event, effects in self._events:
            recorder.observe(now_s, event, effects)
        for job, order, seconds, phases in self._measured:
            recorder.note_measured(job, order, seconds, phases)
        recorder.note("nodes of a Slurm allocation")
        return recorder.record()
