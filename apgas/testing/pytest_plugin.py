"""The fixture ``apgas_job`` for pytest: runs malleable programs on simulated places, see ``apgas.testing.job``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

import pytest

if TYPE_CHECKING:
    from apgas.testing.job import Job

T = TypeVar("T")


class MakeJob(Protocol):
    """The type of ``apgas_job``."""

    def __call__(
        self,
        main: Callable[..., T],
        *args: object,
        places: int = 3,
        places_per_node: int = 1,
        deadline_s: float = 30.0,
        resilient: bool = False,
        setup: Callable[[], object] | None = None,
    ) -> Job[T]:
        """Make a job; see ``apgas.testing.job.Job``."""


@pytest.fixture
def apgas_job() -> MakeJob:
    """Run malleable programs on simulated places.

    Example:
        ``job = apgas_job(main, places=2)``, then ``job.grow(1)``, then ``job.run()``.
    """
    from apgas.testing.job import Job

    return Job
