"""What every place must know of a computation, and what it hands in."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import cloudpickle

import apgas
from glb.bag import Result
from glb.config import Config
from glb.statistics import Statistics

R = TypeVar("R", bound=Result)
T = TypeVar("T")


class Setup(Generic[R]):
    """The parameters of a computation; picklable.

    What comes from the program is unpickled on first use only: it may import for half a second, and a newcomer shall
    answer before that.

    Args:
        number: Tells computations of one program apart.
        make_result: Makes an empty result.
        workers: Worker slots per place.
        config: The settings.
    """

    def __init__(self, number: int, make_result: Callable[[], R], workers: int, config: Config) -> None:
        self.number = number
        self.workers = workers
        self.config = replace(config, on_progress=None, warm_up=None)
        self._pickled: bytes = cloudpickle.dumps((make_result, config.warm_up))
        self._program: tuple[Callable[[], R], Callable[[], None] | None] | None = make_result, config.warm_up

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_program": None}

    def make_result(self) -> R:
        """Make an empty result."""
        return self._load()[0]()

    def warm_up(self) -> None:
        """Load the program's part and call its warm-up, if it has one."""
        warm_up = self._load()[1]
        if warm_up is not None:
            warm_up()

    def _load(self) -> tuple[Callable[[], R], Callable[[], None] | None]:
        if self._program is None:
            self._program = pickle.loads(self._pickled)
        return self._program


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
