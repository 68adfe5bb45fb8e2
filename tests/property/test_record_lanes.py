"""Jobs that share a node never cover each other on a picture, whatever they do."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from scheduler_bridge.record import JobRecord, Segment
from scheduler_bridge.report.looks import Lane, lanes

CORES = 4
EVENT = st.tuples(st.sampled_from(("come", "take", "go")), st.integers(0, 5), st.integers(1, CORES), st.booleans())


def history(events: list[tuple[str, int, int, bool]]) -> list[JobRecord]:
    """The jobs of a node with ``CORES`` cores that come, use other numbers of them, and go, one event a second."""
    jobs: list[JobRecord] = []
    held: dict[int, tuple[float, int, bool]] = {}

    def close(number: int, at_s: float) -> bool:
        since_s, cores, is_guest = held.pop(number)
        if at_s > since_s:
            jobs[number].segments.append(Segment(since_s, at_s, ("a",), cores / CORES, is_guest))
        return is_guest

    moment = 0.0
    for kind, which, cores, together in events:
        free = CORES - sum(taken for _, taken, _ in held.values())
        if kind == "come" and free:
            is_guest = bool(held)
            held[len(jobs)] = (moment, min(cores, free), is_guest)
            jobs.append(JobRecord(len(jobs), "j", "me", "malleable", 1, 1, 1, 9.0, moment))
        elif held and kind != "come":
            number = sorted(held)[which % len(held)]
            taken = held[number][1]
            is_guest = close(number, moment)
            if kind == "take":
                held[number] = (moment, min(cores, free + taken), is_guest)
        moment += 0.0 if together else 1.0
    for number in list(held):
        close(number, moment + 1)
    return jobs


@given(st.lists(EVENT, max_size=30))
def test_each_job_has_a_part_of_its_own(events: list[tuple[str, int, int, bool]]) -> None:
    jobs = history(events)
    found = lanes(jobs)
    for job in jobs:
        for number, part in enumerate(job.segments):
            assert ((job.job_id, number) in found) == (part.share < 1)
            pieces = found.get((job.job_id, number), [Lane(part.from_s, part.to_s, "a", 0.0, 1.0)])
            assert [piece.share for piece in pieces] == [part.share] * len(pieces), "as high as its cores"
            assert all(0 <= piece.top <= 1 - piece.share for piece in pieces), "within the row"
            ends = [part.from_s, *(piece.to_s for piece in pieces)]
            assert [piece.from_s for piece in pieces] == ends[:-1], "one after the other"
            assert ends[-1] == part.to_s
    for one, other in itertools.combinations([piece for pieces in found.values() for piece in pieces], 2):
        at_once = one.from_s < other.to_s and other.from_s < one.to_s
        cover = one.top < other.top + other.share and other.top < one.top + one.share
        assert not (at_once and cover), (one, other)


@given(st.lists(EVENT, max_size=30))
def test_who_needs_not_move_does_not(events: list[tuple[str, int, int, bool]]) -> None:
    """With two jobs a node, as SD-Policy shares them, a job lies where it is until it gets other cores."""
    jobs = history([(kind, which, CORES // 2, together) for kind, which, _, together in events])
    assert all(len(pieces) == 1 for pieces in lanes(jobs).values())
