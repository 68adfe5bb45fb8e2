"""What a place does when what it stands on gives way: its io thread, its memory, places that come and go."""

from __future__ import annotations

import pytest

import apgas
from apgas.runtime import current
from apgas.testing.job import Job, JobFailedError

SOON_S = 20.0


def test_a_place_that_hears_nothing_any_more_ends_the_job() -> None:
    def deafen() -> None:
        def fail() -> float | None:
            raise OverflowError("on purpose")

        current.required().transport._loop._timers.seconds_left = fail  # type: ignore[attr-defined]

    def main() -> None:
        apgas.at(apgas.place(1), deafen)
        for _ in range(3):
            apgas.at(apgas.place(1), abs, -1)

    job = Job(main, places=2, deadline_s=SOON_S)
    with pytest.raises(JobFailedError, match=r"place 1 is out of order: OverflowError: on purpose"):
        job.run()
