"""How a place begins to take part in a computation; called and waited for by place 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apgas
from glb import affinity, messages
from glb.runner import PlaceRunner
from glb.setup import Setup


def join(
    setup: Setup[Any], members: Sequence[apgas.Place], registered: bool, cores: apgas.CoreIds | None
) -> affinity.Home:
    """Take part from the start, on ``cores`` only: warm up, then be ready; tell where this place runs."""
    affinity.bind(cores)
    setup.warm_up()
    messages.register(setup.number, PlaceRunner(setup, members, setup.workers, registered=registered))
    return affinity.home()


def join_late(
    setup: Setup[Any],
    members: Sequence[apgas.Place],
    before: Sequence[apgas.Place],
    workers: int,
    cores: apgas.CoreIds | None,
) -> affinity.Home:
    """Take part from now on: answer at once, warm up, and steal once ``begin`` is said; tell where this place runs."""
    affinity.bind(cores)
    runner = PlaceRunner(setup, members, workers, registered=False, before=before)
    messages.register(setup.number, runner)
    runner.warm_up()
    return affinity.home()
