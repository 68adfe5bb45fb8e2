"""What is frozen comes back equal, whatever kinds of objects it has, and is what pickle itself would read."""

from __future__ import annotations

import gc
import pickle
from collections import deque
from dataclasses import dataclass

from scheduler_bridge.core import JobState
from scheduler_bridge.daemon.requests import JobRequest
from scheduler_bridge.daemon.storage import log_state
from scheduler_bridge.model import JobSpec


@dataclass(frozen=True, slots=True)
class Pair:
    left: object
    right: object


@dataclass(frozen=True, slots=True)
class Single:
    only: object


@dataclass(slots=True)
class Own:
    kept: int
    left_out: int

    def __getstate__(self) -> int:
        return self.kept

    def __setstate__(self, kept: int) -> None:
        self.kept, self.left_out = kept, 0


@dataclass
class Plain:
    left: object
    right: object


def test_all_kinds_come_back_equal_and_shared_objects_stay_shared() -> None:
    spec = JobSpec(1, "m", "u", "malleable", 1, 1, 2, 100.0, 0.0)
    shared = Pair(spec, (1, None))
    state = [shared, Pair(shared, Single(shared)), Plain(shared, deque([spec])), JobState.QUEUED, Single(())]
    state += [JobState, Pair, len]
    state.append(JobRequest(name="a", command=("true",), environment={"A": "b"}))
    back = pickle.loads(log_state.pickled(state))
    assert back == state
    assert back[1].left is back[0]
    assert back[1].right.only is back[0]


def test_a_class_that_says_itself_what_is_kept_is_asked() -> None:
    assert pickle.loads(log_state.pickled(Own(3, 4))) == Own(3, 0)


def test_garbage_is_collected_afterwards_as_before() -> None:
    assert gc.isenabled()
    log_state.pickled([Pair(1, 2)])
    assert gc.isenabled()
