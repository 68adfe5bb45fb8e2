"""The view that the core hands to policies: it answers from indices that follow the jobs that change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler_bridge.core.nodes import NodePool
from scheduler_bridge.core.queue_index import Lookups, RankedQueue
from scheduler_bridge.core.tracked import TrackedJob
from scheduler_bridge.model import ClusterView, JobSpec, Line, Need, Reservation, RunningJob, UserKey


class LiveView(ClusterView):
    """The state as a policy sees it, for one pass; answers as ``ClusterView`` would, at the cost of what has changed.

    It is made of what ``SchedulerState`` keeps. An index is made when a policy first asks for it, and follows then.
    """

    __setattr__ = object.__setattr__  # it is not frozen as its base is
    __delattr__ = object.__delattr__  # with this one, too, attributes are set without a call
    releasing_nodes = 0  # an attribute, which policies ask for at each pass

    def __init__(
        self,
        pool: NodePool,
        queue: dict[int, TrackedJob],
        active: Mapping[int, TrackedJob],
        stale: dict[int, TrackedJob],
        promises: Mapping[int, Reservation],
        cores_per_node: int,
        scaled: bool,
    ) -> None:
        self._made_of = (pool, queue, active, stale, promises, cores_per_node, scaled)
        self._pool = pool
        self._promises = promises
        self._lookups = lookups = Lookups(queue, active, stale)
        vars(self).update(queue=lookups.queue, cores_per_node=cores_per_node, scaled=scaled)
        # these the indices answer as they are asked
        vars(self).update(total=lookups.total, running_by=lookups.running_by, paused=lookups.paused)
        vars(self).update(queue_by=lookups.queue_by, index=lookups.index)
        self.reorder = lookups.reorder
        self.arrived: tuple[JobSpec, ...] | None = None

    def __reduce__(self) -> tuple[type[LiveView], tuple[object, ...]]:
        """Pickle what it looks at; indices, whose keys may be any functions, are made again when they are asked for."""
        return type(self), self._made_of

    def refresh(self, renewals: int, accuracy: Mapping[str, float], arrived: tuple[JobSpec, ...] | None = None) -> None:
        """Take in how things are; where all that is new has ``arrived``, indices follow only when they are used."""
        pool, known = self._pool, vars(self)
        known["total_nodes"] = pool.in_service  # what policies ask for most often
        known["free_nodes"] = pool.free
        known["renewals"] = renewals
        known["accuracy"] = accuracy
        known["arrived"] = arrived
        if arrived is None:
            self._lookups.follow()
        known["releasing_nodes"] = self._lookups.releasing_nodes

    @property
    def releasing(self) -> Sequence[RunningJob]:
        """The running jobs that are about to release nodes, in the order of their ids."""
        return self._lookups.releasing

    @property
    def reservations(self) -> tuple[Reservation, ...]:
        """What the last pass promised to jobs, or left standing."""
        return tuple(self._promises.values())

    def promised(self, job_id: int) -> Reservation | None:
        """What a job is promised."""
        return self._promises.get(job_id)

    def waiting(self, job_id: int) -> JobSpec | None:
        """The job, if it waits."""
        job = self._lookups.queue.jobs.get(job_id)
        return None if job is None else job.spec

    @property
    def running(self) -> Sequence[RunningJob]:
        """Jobs that hold nodes, in the order of their starts; put together when it is first asked for."""
        return self._lookups.running

    def line(self, queue: Sequence[JobSpec], need: Need) -> Line:
        """The jobs of ``queue``; only what the view itself has handed out is indexed."""
        if queue is self.queue:
            return self._lookups.line(need, self.total_nodes, self.walltime_s)
        if isinstance(queue, RankedQueue):
            return self._lookups.line_of(queue, need, self.total_nodes, self.walltime_s)
        return ClusterView.line(self, queue, need)

    def queue_by_user(self, key: UserKey, age_s: float = 0.0) -> Sequence[JobSpec]:
        """The waiting jobs in the order of a key of their users, and of the time that they have waited."""
        return self._lookups.queue_by_user(key, age_s, self.accuracy)

    def snapshot(self) -> ClusterView:
        """The view as it is now, to be kept."""
        return ClusterView(
            total_nodes=self.total_nodes,
            free_nodes=self.free_nodes,
            queue=tuple(self.queue),
            running=self.running,
            reservations=self.reservations,
            accuracy=dict(self.accuracy),
            cores_per_node=self.cores_per_node,
            scaled=self.scaled,
        )
