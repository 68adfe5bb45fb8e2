"""Conservative backfilling pass by pass: what follows changes against what is made anew, and against the textbook."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core import SchedulerCore, Settings
from scheduler_bridge.core.events import (
    CancelJob,
    Event,
    EvolvingRequest,
    JobEnded,
    JobStarted,
    JobSubmitted,
    MalleableReady,
    NodeDown,
    NodeUp,
    ReservationCancelled,
    ReservationMade,
    ResizeFailed,
    SendOrder,
)
from scheduler_bridge.model import AdvanceReservation, ClusterView, JobSpec, RunningJob
from scheduler_bridge.policies import Decision, Policy, Reserve, Stand, Start, in_full
from scheduler_bridge.policies.base import Around
from scheduler_bridge.policies.profile import Profile
from scheduler_bridge.policies.timetable import Candidates, Slot, Timetable
from scheduler_bridge.sim import Engine, Simulated, replay
from scheduler_bridge.sim.engine import node_names
from scheduler_bridge.workloads.generate.models import lublin

NODES = 12
JOBS = 45


def textbook(view: ClusterView, now: float) -> list[tuple[str, int, float, int]]:
    """What the docstring of the policy says, looking at every promise at every moment."""
    usable = view.free_nodes
    spans = {job.spec.job_id: (now, job.expected_end_s, job.nodes - job.kept_nodes) for job in view.running}
    size = usable + sum(nodes for _, _, nodes in spans.values())

    def free(begin: float, end: float) -> int:
        moments = [begin, *(start for start, _, _ in spans.values() if begin < start < end)]
        return min(size - sum(n for start, until, n in spans.values() if start <= at < until) for at in moments)

    promised = {promise.job_id: promise for promise in view.reservations}
    for spec in view.queue:
        if (promise := promised.get(spec.job_id)) is not None:
            start = max(now, promise.start_s)
            end = start + view.walltime_s(spec, promise.nodes)
            if free(start, end) >= promise.nodes:
                spans[spec.job_id] = (start, end, promise.nodes)
    found = []
    for spec in view.queue:
        spans.pop(spec.job_id, None)
        need = spec.min_nodes
        length = view.walltime_s(spec, need)
        times = sorted({now, *(end for _, end, _ in spans.values() if end > now)})
        start = next((time for time in times if free(time, time + length) >= need), float("inf"))
        if start == now and need <= usable:
            nodes = min(spec.max_nodes, usable, free(now, now + length))
            usable -= nodes
            spans[spec.job_id] = (now, now + view.walltime_s(spec, nodes), nodes)
            found.append(("start", spec.job_id, now, nodes))
        elif start < float("inf"):
            spans[spec.job_id] = (start, start + length, need)
            found.append(("promise", spec.job_id, start, need))
    return sorted(found)


def schedule_of(decisions: list[Decision], now: float) -> list[tuple[str, int, float, int]]:
    promises = [decision.reservation for decision in decisions if isinstance(decision, Reserve)]
    found = [("promise", promise.job_id, promise.start_s, promise.nodes) for promise in promises]
    return sorted(found + [("start", d.job_id, now, d.nodes) for d in decisions if isinstance(d, Start)])


class Compared(Around):
    """Decides on the view of the core, and compares with a view that knows nothing of the last pass."""

    def __init__(self, policy: Policy, *, exact: bool = True) -> None:
        self.policy = policy
        self.exact = exact  # nothing happens that the textbook does not know
        self.standing = self.moved = 0

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        decisions = self.policy.decide(view, now)
        snapshot = view.snapshot()
        whole = in_full(decisions, snapshot.reservations)
        assert whole == self.policy.decide(snapshot, now), f"at {now} s"
        assert not self.exact or schedule_of(whole, now) == textbook(snapshot, now), f"at {now} s"
        if Stand() in decisions:
            self.standing += 1
            self.moved += len(decisions) - 1
        return decisions


def workload(rng: random.Random, share: float, late: float) -> list[Simulated]:
    """More jobs than the nodes can do for a while; some run longer than expected, or start late."""
    jobs, now = [], 0.0
    for job_id in range(JOBS):
        now += rng.choice([0.0, 0.0, 1.0, 3.0])
        nodes = rng.choice([1, 1, 2, rng.randint(1, NODES)])
        low, high = (max(1, nodes - 2), min(NODES, nodes + 3)) if rng.random() < share else (nodes, nodes)
        walltime_s = float(rng.randint(2, 60))
        job_class = "rigid" if low == high else "malleable"
        spec = JobSpec(job_id, "j", "u", job_class, nodes, low, high, walltime_s, now, rho=0.3)  # type: ignore[arg-type]  # one of two words
        runtime_s = walltime_s * rng.choice([0.01, 0.3, 0.9, 1.0, 1.0 + late])
        jobs.append(simulated(spec, runtime_s, start_delay_s=rng.choice([0.0, late])))
    return jobs


def troubles(rng: random.Random) -> Iterator[tuple[float, Event]]:
    """Nodes that go and come back, and jobs that are cancelled."""
    for node in rng.sample(node_names(NODES), 3):
        at_s = rng.uniform(0.0, 150.0)
        yield at_s, NodeDown(node)
        yield at_s + rng.uniform(1.0, 100.0), NodeUp(node)
    for _ in range(5):
        yield rng.uniform(0.0, 150.0), CancelJob(rng.randrange(JOBS))


@pytest.mark.parametrize("walltime", ["fixed", "scaled"])
@pytest.mark.parametrize("late", [0.0, 0.5])
def test_every_pass_decides_as_one_that_looks_at_everything(walltime: str, late: float) -> None:
    standing = moved = 0
    for seed in range(12):
        rng = random.Random(seed)
        policy = Compared(policies.get("conservative"))
        settings = Settings(walltime=walltime)  # type: ignore[arg-type]  # likewise
        Engine(NODES, policy, settings).run(workload(rng, seed % 3 / 2, late), list(troubles(rng)) if seed % 2 else [])
        standing, moved = standing + policy.standing, moved + policy.moved
    assert standing > 300, "hardly any pass followed the one before"
    assert moved > 300, "hardly any reservation moved"


def test_an_opening_that_is_exactly_long_enough_is_found_whatever_rounding_makes_of_it() -> None:
    opens_s, length_s = 2.0**30 - 4.0, 8.0
    while opens_s + length_s - opens_s >= length_s:
        opens_s = math.nextafter(opens_s, math.inf)
    profile, candidates = Profile(0.0, 1), Candidates()
    profile.take(0.0, opens_s, 1)
    slot = Slot(JobSpec(1, "r", "u", "rigid", 1, 1, 1, length_s, 0.0), 1, length_s)
    candidates.add(slot)
    slot.start_s = opens_s + 99.0
    profile.take(opens_s + length_s, slot.start_s + length_s, 1)
    candidates.place(slot)
    candidates.freed.append((opens_s, opens_s + length_s, 0))
    assert [(found, candidates.earlier(found)) for found in candidates.turns(profile, 0.0)] == [(slot, opens_s)]


def test_passes_that_see_less_are_noticed() -> None:
    """Where a user may have no more nodes, the policy is shown a copy without what is too much."""
    for seed in range(12):
        rng = random.Random(seed)
        jobs = [
            (structs.replace(job, user="uvw"[job.job_id % 3]), dynamics) for job, dynamics in workload(rng, 0.5, 0.5)
        ]
        Engine(NODES, Compared(policies.get("conservative")), Settings(user_nodes=8)).run(jobs, [])


def test_what_a_pass_promised_that_counted_on_a_shrink_is_noticed() -> None:
    """Job 1 offers a node, two jobs are promised nodes at that moment, and the shrink fails: the promises stand."""
    policy = Compared(policies.get("conservative"), exact=False)
    core = SchedulerCore(node_names(10), policy, Settings(failure_backoff_s=0.0))
    core.handle(JobSubmitted(JobSpec(1, "m", "u", "malleable", 5, 1, 5, 100.0, 0.0)), 0.0)
    core.handle_batch([JobStarted(1), MalleableReady(1)], 0.0)
    core.handle(JobSubmitted(JobSpec(2, "r", "u", "rigid", 5, 5, 5, 50.0, 0.0)), 0.0)
    core.handle(JobStarted(2), 0.0)
    core.handle(JobSubmitted(JobSpec(9, "r", "u", "rigid", 10, 10, 10, 5.0, 1.0)), 1.0)
    core.handle(CancelJob(9), 1.0)
    orders = [effect for effect in core.handle(EvolvingRequest(1, -1), 2.0) if isinstance(effect, SendOrder)]
    waiting = [JobSpec(4, "r", "u", "rigid", 6, 6, 6, 20.0, 2.0), JobSpec(5, "r", "u", "rigid", 5, 5, 5, 60.0, 2.0)]
    core.handle_batch([JobSubmitted(spec) for spec in waiting], 2.0)
    assert expected_starts_s(core) == [50.0, 70.0]
    core.handle(ResizeFailed(1, orders[0].order, "no"), 4.0)
    assert expected_starts_s(core) == [130.0, 50.0]


def test_a_timetable_that_nobody_asks_for_stays_small() -> None:
    policy = policies.get("conservative")
    core = SchedulerCore(node_names(4), policy)
    core.handle_batch([JobSubmitted(JobSpec(i, "r", "u", "rigid", 3, 3, 3, 10.0, 0.0)) for i in range(2)], 0.0)
    core.handle(JobEnded(0, "completed"), 1.0)
    table = core._state._view.index(Timetable)
    core.use(policies.get("fcfs"), Settings())
    for number in range(10, 1000):
        table.put(number, RunningJob(JobSpec(number, "r", "u", "rigid", 1, 1, 1, 10.0, 0.0), 1, 0.0, 10.0 + number, 1))
        table.put(number, None)
    assert len(table.candidates.freed) + len(table.tight) < 500


def test_what_was_promised_by_others_in_between_is_noticed() -> None:
    """While nodes are kept, the parts of the cluster are decided on one by one, and promises made anew."""
    policy = Compared(policies.get("conservative"))
    core = SchedulerCore(node_names(4), policy)
    core.handle_batch([JobSubmitted(JobSpec(i, "r", "u", "rigid", 3, 3, 3, 10.0, 0.0)) for i in range(4)], 0.0)
    core.handle(JobSubmitted(JobSpec(4, "r", "u", "rigid", 3, 3, 3, 20.0, 0.0)), 1.0)
    core.handle(JobSubmitted(JobSpec(5, "r", "u", "rigid", 4, 4, 4, 20.0, 0.0)), 2.0)
    assert expected_starts_s(core) == [10.0, 20.0, 30.0, 40.0, 60.0]
    core.handle(ReservationMade(AdvanceReservation("kept", 15.0, 50.0, nodes=2)), 3.0)
    assert expected_starts_s(core) != [10.0, 20.0, 30.0, 40.0, 60.0]
    core.handle(ReservationCancelled("kept"), 4.0)
    assert expected_starts_s(core) == [10.0, 20.0, 30.0, 40.0, 60.0]
    core.handle(JobEnded(0, "completed"), 5.0)
    assert expected_starts_s(core) == [15.0, 25.0, 35.0, 55.0]


def expected_starts_s(core: SchedulerCore) -> list[float | None]:
    return [row.expected_start_s for row in core.snapshot().jobs if row.state == "waiting"]


def test_decisions_that_nobody_carries_out_change_nothing() -> None:
    """As where a limit on users' nodes makes a policy decide twice, or somebody only asks what would be."""
    policy = policies.get("conservative")
    core = SchedulerCore(node_names(4), policy)
    core.handle_batch([JobSubmitted(JobSpec(i, "r", "u", "rigid", 3, 3, 3, 10.0, 0.0)) for i in range(3)], 0.0)
    core.handle(JobSubmitted(JobSpec(3, "r", "u", "rigid", 1, 1, 1, 10.0, 0.0)), 1.0)
    view = core._state.view()
    for now in (2.0, 3.0, 3.0):
        decisions = policy.decide(view, now)
        assert in_full(decisions, view.reservations) == policy.decide(view.snapshot(), now)


def test_the_profile_agrees_with_a_plain_list_of_seconds() -> None:
    horizon = 700  # nothing is taken in the last seconds, which stand for ever
    for seed in range(20):
        rng = random.Random(seed)
        free = rng.randint(5, 40)
        profile, naive = Profile(0.0, free), [free] * horizon
        begin = 0
        for _ in range(250):
            start, nodes = rng.randint(begin, horizon - 400), rng.choice([1, 2, 5, -1, -3])
            end = start + rng.choice([rng.randint(1, 60), rng.randint(60, 300)])
            naive[start:end] = [level - nodes for level in naive[start:end]]
            assert profile.take(float(start), float(end), nodes) == min(naive[start:end])
            if rng.random() < 0.1:
                begin += rng.randint(0, 5)
                profile.forget(float(begin))
            if rng.random() < 0.05:
                profile.raise_by(2)
                naive = [level + 2 for level in naive]
            want, length = rng.randint(1, free), rng.randint(1, 60)
            fits = [s for s in range(begin, horizon - length) if min(naive[s : s + length]) >= want]
            assert profile.earliest(want, length) == (fits[0] if fits else float("inf"))
            assert profile.room(start, end) == min(naive[max(start, begin) : end], default=naive[begin])
            promised = rng.randint(begin + 1, horizon - 100)
            sooner = [s for s in range(begin, promised) if min(naive[s : min(s + length, promised)]) >= want]
            assert profile.earliest(want, length, begin, promised) == (sooner[0] if sooner else float("inf"))
            run = next((s for s in range(promised, begin, -1) if naive[s - 1] < want), begin)
            assert profile.since(want, promised) == (run if run < promised else float("inf"))
            if begin <= start:
                more_than = rng.choice([0, 0, min(naive[start:end])])
                found = profile.around(start, end, more_than)
                assert found == as_far_as_they_can(naive, begin, (start, end), more_than)


def as_far_as_they_can(
    naive: list[int], begin: int, opening: tuple[int, int], more_than: int
) -> list[tuple[int, float, float]]:
    """From the steps of the opening on, as long as enough nodes are free; the last second is endless."""
    found = dict[tuple[float, float], int]()
    first, behind = opening
    while first > begin and naive[first - 1] == naive[first]:
        first -= 1
    while behind < len(naive) and naive[behind] == naive[behind - 1]:
        behind += 1
    opening = first, behind
    for nodes in range(max(naive[slice(*opening)]), more_than, -1):
        first, behind = opening
        while first > begin and naive[first - 1] >= nodes:
            first -= 1
        while behind < len(naive) and naive[behind] >= nodes:
            behind += 1
        found.setdefault((first, behind if behind < len(naive) else float("inf")), nodes)
    return [(nodes, *span) for span, nodes in found.items()]


def test_looks_at_the_profile_do_not_outnumber_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """On an overloaded machine most jobs stay where they are when one ends early; that is seen without a search."""
    counts = Counter[str]()

    def count(of: type, name: str) -> None:
        method = getattr(of, name)

        def counted(*args: Any) -> Any:
            counts[f"{of.__name__}.{name}"] += 1
            return method(*args)

        monkeypatch.setattr(of, name, counted)

    count(Timetable, "advance")
    count(Candidates, "earlier")
    for name in ("earliest", "around"):
        count(Profile, name)
    replay(lublin(600, 100, seed=1, load=2.0), policies.get("conservative"))
    advances = counts["Timetable.advance"]
    assert advances > 4 * 600, "hardly any reservation moved"
    assert counts["Candidates.earlier"] < 2 * advances, "jobs are looked at that stay where they are"
    assert counts["Profile.earliest"] < 1.5 * advances + 600, "a reservation that slides is searched for anew"
    assert counts["Profile.around"] < 1.5 * advances + 600
