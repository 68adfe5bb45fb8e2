"""What every place must know of a computation, and what it hands in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import apgas
from glb.bag import Result
from glb.config import Config
from glb.statistics import Statistics

R = TypeVar("R", bound=Result)
T = TypeVar("T")


@dataclass(frozen=True)
class Setup(Generic[R]):
    """The parameters of a computation.

    Attributes:
        number: Tells computations of one program apart.
        make_result: Makes an empty result.
        workers: Worker slots per place.
        config: The settings, without those that concern place 0 only.
    """

    number: int
    make_result: Callable[[], R]
    workers: int
    config: Config


@dataclass(frozen=True)
class Report(Generic[R]):
    """What a place has done since it joined or since its last report.

    Attributes:
        place: Its id.
        result: Its part of the result.
        statistics: Its counts.
        present_s: The time that the report covers; may begin before the computation.
    """

    place: int
    result: R
    statistics: Statistics
    present_s: float


def everywhere(places: list[apgas.Place], fn: Callable[..., T], *args: object) -> list[T]:
    """Run ``fn(*args)`` on all ``places`` at once and return the values in their order.

    Raises:
        ExceptionGroup: It failed on some of them.
    """
    with apgas.finish():
        futures = [apgas.async_at(place, fn, *args) for place in places]
    return [future.result() for future in futures]
