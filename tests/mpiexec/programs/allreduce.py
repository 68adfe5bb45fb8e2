"""Collective operations of MPI on places that come and go."""

from __future__ import annotations

from collections.abc import Sequence

import apgas
from apgas import Place, async_at, finish, gather, here, place, places
from apgas.runtime import collectives
from apgas.testing.handlers import ReleaseNewest


class Handler(ReleaseNewest):
    def preShrink(self, nb_places: int) -> Sequence[Place]:
        return [place for place in places() if place.id][:nb_places]


def ids() -> list[int]:
    """The ids of all places of this call, exchanged by MPI."""
    comm = apgas.comm()
    found: list[int] = comm.allgather(here().id)
    assert found[comm.rank] == here().id
    return found


def ids_of(members: list[Place]) -> list[int]:
    found: list[int] = apgas.comm(members).allgather(here().id)
    return found


def check_all() -> tuple[int, ...]:
    answers = gather(ids)
    expected = [place.id for place in answers]
    assert all(answer == expected for answer in answers.values()), answers
    return tuple(expected)


def main() -> None:
    start = places()
    memberships = [check_all()]
    with finish():
        answers = [async_at(member, ids_of, start) for member in start]
    assert [answer.result() for answer in answers] == [[member.id for member in start]] * len(start)

    apgas.define_malleable_handler(Handler())
    apgas.schedule_orders("0:+2,0:-1,0:+1,0:-2")
    while len(apgas.resizes()) < 4:
        now = check_all()
        if now != memberships[-1]:
            memberships.append(now)
    memberships.append(check_all())
    assert [record.outcome for record in apgas.resizes()] == ["done"] * 4, apgas.resizes()
    # the program hears of some memberships in between, and of the last one in any case
    first = len(start)
    assert memberships[0] == tuple(range(first))
    assert set(memberships[-1]) == {member.id for member in places()}
    assert len(memberships[-1]) == first

    vars(collectives)["COMM_S"] = 0.5  # nothing is under way, so nothing is worth waiting for
    complaint = ""
    try:
        apgas.comm([place(0), place(10**6)])
    except apgas.UsageError as error:
        complaint = str(error)
    assert "no communicator of exactly the places [0, 1000000] came" in complaint, complaint
    print("fine")


if __name__ == "__main__":
    apgas.run(main)
