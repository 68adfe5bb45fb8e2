"""Jobs that size themselves: what they want and when, and programs that do so on simulated places."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apgas
import glb
from apgas import arrays
from apgas.arrays.operations import Work, operations
from apgas.arrays.stepping import sizing_of_loops
from apgas.malleability.sizing import Controller, Measured, Sizing
from apgas.runtime.program import program
from apgas.testing.handlers import ReleaseNewest
from apgas.testing.pytest_plugin import MakeJob
from benchmarks.balance.naps import NapBag, Naps
from benchmarks.compare import command_line
from benchmarks.sizing import ARRAY_PROGRAMS, EXAMPLES, ArrayProgram, Found, Run, _arrays, _command
from glb.sizing import PlaceCounts, measured

WINDOW_S = 0.5


class Watched:
    """A controller that is shown one window after another."""

    def __init__(self, **settings: object) -> None:
        self.controller = Controller(Sizing(**({"target": 0.9, "max_nodes": 16} | settings)))  # type: ignore[arg-type]
        self.now = 0.0

    def see(self, busy: Sequence[float], windows: int = 1, **others: object) -> int:
        """What it wants first, if these shares are measured so often."""
        for _ in range(windows):
            self.now += WINDOW_S
            if wanted := self.controller.measured(Measured(self.now, WINDOW_S, busy, **others)):  # type: ignore[arg-type]
                return wanted
        return 0


def test_a_job_that_uses_half_of_its_nodes_gives_back_what_it_does_not_need() -> None:
    watched = Watched()
    assert watched.see([0.45] * 8, 2) == 0, "the first window is left out, and one is not enough"
    assert watched.see([0.45] * 8) == -4
    assert watched.controller.why == "45% busy on 8 nodes"
    watched.controller.answered(-4, watched.now)
    assert watched.see([0.9] * 4, 20) == 0
    assert watched.controller.reversals == 0


def test_a_job_whose_nodes_are_busy_asks_for_as_many_again_when_that_pays() -> None:
    watched = Watched(payback=20.0)
    assert watched.see([1.0, 1.0], 5) == 0, "after 2.5 s, and as much again, a grow of 0.3 s does not pay yet"
    assert watched.see([1.0, 1.0], 5) == 2
    assert Watched().see([1.0, 1.0], 3) == 2, "the first window is left out, and two are enough"
    known = Watched(payback=20.0)
    assert known.see([1.0, 1.0], 3, remaining_s=60.0) == 2, "the end is known to be far away"
    near = Watched()
    assert near.see([1.0, 1.0], 40, remaining_s=2.0) == 0, "it is near"


def test_no_more_is_asked_for_than_there_is_work_for() -> None:
    assert Watched().see([1.0] * 4, 20, spare=2) == 2
    assert Watched().see([1.0] * 4, 20, spare=0) == 0
    assert Watched(max_nodes=5).see([1.0] * 4, 20) == 1
    assert Watched().see([1.0] * 4, 20, failed=0.95) == 0, "who steals finds nothing"


def test_nodes_without_anything_to_do_leave() -> None:
    watched = Watched()
    assert watched.see([1.0] * 15 + [0.0], 20) == -1, "94 % is enough, but one node is dry"
    assert Watched().see([1.0] * 15 + [0.0], 20, spare=5) == 0, "there is work that it could have"
    assert Watched().see([1.0] * 15 + [0.0], 20, remaining_s=0.1) == 0, "it is over before it has left"
    assert Watched(min_nodes=3).see([1.0, 0.0, 0.0, 0.0], 20) == -1


def test_nodes_for_which_there_is_no_work_leave_after_one_window() -> None:
    assert Watched().see([1.0, 1.0, 0.0, 0.0], 2, spare=0) == -2
    assert Watched().see([1.0, 1.0, 0.0, 0.0], 2) == 0, "there may be work for them"
    watched = Watched()
    assert watched.see([1.0, 1.0, 0.0, 0.0], 2, spare=1) == 0, "there is"
    watched.now += 60.0
    assert watched.see([1.0, 1.0, 0.0, 0.0], spare=0) == -2, "in another computation that is known at once"
    halves, wants = Watched(), []
    for spare in (0, 0, 1, 0, 0):
        halves.now += WINDOW_S / 2
        half = Measured(halves.now, WINDOW_S / 2, [1.0, 0.5, 0.0, 0.0], spare=spare)
        wants.append(halves.controller.measured(half))
    assert wants == [0] * 4 + [-2], "as soon as there was none for so long, and not those who work"


def test_after_a_refusal_it_waits_longer_each_time() -> None:
    watched = Watched()
    asked = []
    for _ in range(400):
        if watched.see([1.0] * 4):
            asked.append(watched.now)
            watched.controller.answered(0, watched.now)
    pauses = [later - sooner for sooner, later in pairwise(asked)]
    assert pauses == sorted(pauses)
    assert 2.0 <= pauses[0] < 4.0
    assert 32.0 <= pauses[-1] < 36.0


def test_an_answer_is_not_awaited_for_ever() -> None:
    watched = Watched(answer_s=5.0)
    assert watched.see([1.0] * 4, 20) == 4
    assert watched.see([1.0] * 4, 9) == 0
    assert watched.see([1.0] * 4, 20) == 4


def test_what_a_scheduler_does_is_no_reversal_and_newcomers_may_load() -> None:
    watched = Watched()
    assert watched.see([0.45] * 8, 3) == -4
    watched.controller.answered(-4, watched.now)
    watched.see([0.9] * 4, 10)
    assert watched.see([0.9] * 6, 3) == 0, "the scheduler has given it two"
    assert watched.see([0.4] * 6, 50, ready=False) == 0, "they load"
    assert watched.controller.reversals == 0


def test_the_last_reversal_is_kept_for_giving_back() -> None:
    watched = Watched(reversals=1)
    assert watched.see([0.45] * 8, 3) == -4
    watched.controller.answered(-4, watched.now)
    assert watched.see([1.0] * 4, 200) == 0
    assert watched.see([1.0] * 4, 30, spare=9) == 2, "but there is work for more"
    watched.controller.answered(2, watched.now)
    assert watched.see([0.5] * 6, 200) == 0
    assert watched.controller.reversals == 1


def test_what_no_job_can_hold_is_refused() -> None:
    for wrong in (
        {"target": 0.0}, {"target": 1.0}, {"min_nodes": 0}, {"min_nodes": 3, "max_nodes": 2}, {"window_s": 0.0},
        {"band": 0.6}, {"payback": -1.0}, {"reversals": 0}, {"answer_s": 0.0},
    ):  # fmt: skip
        with pytest.raises(apgas.UsageError):
            Sizing(**({"target": 0.9} | wrong))
    with pytest.raises(glb.ConfigError, match="target_efficiency is 2"):
        glb.Config(target_efficiency=2.0)


shares = st.floats(0.0, 1.0)
windows = st.tuples(
    st.integers(1, 12), shares, st.floats(0.0, 0.2), st.none() | st.integers(0, 9), st.none() | shares, st.booleans()
)


@given(st.lists(st.tuples(windows, st.integers(-3, 3)), max_size=60), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_whatever_is_measured_and_answered_it_stays_in_its_bounds_and_turns_seldom(
    course: list[tuple[tuple[int, float, float, int | None, float | None, bool], int]], reversals: int
) -> None:
    controller = Controller(Sizing(target=0.8, min_nodes=2, max_nodes=10, reversals=reversals, answer_s=3.0))
    now, nodes, directions = 0.0, 4, []
    for (scheduler_s, share, spread, spare, left, ready), answer in course:
        if scheduler_s == 12:
            nodes = max(1, nodes + answer)  # the scheduler's own order
        for _ in range(4):
            now += WINDOW_S
            busy = [max(0.0, share - spread * node) for node in range(nodes)]
            remaining_s = None if left is None else 100 * left
            wanted = controller.measured(
                Measured(now, WINDOW_S, busy, spare=spare, remaining_s=remaining_s, ready=ready)
            )
            if not wanted:
                continue
            assert nodes + wanted <= 10 or wanted < 0
            assert nodes + wanted >= 2 or wanted > 0
            granted = wanted if answer >= 0 else 0
            controller.answered(granted, now)
            if granted:
                nodes += granted
                directions.append(granted > 0)
    turns = sum(one != other for one, other in pairwise(directions))
    assert turns <= reversals


# Where glb's measurements come from ----------------------------------------------------------------------------------


def counts(place: int, clock_s: float, idle_s: float, **others: object) -> PlaceCounts:
    known = {"workers": 2, "tried": 0, "won": 0, "waiting": 0, "ready": True}
    return PlaceCounts(place, clock_s, idle_s, **(known | others))  # type: ignore[arg-type]


def test_a_node_is_as_busy_as_its_places_and_their_workers() -> None:
    before = {place: counts(place, 10.0 + place, 5.0) for place in range(4)}
    now = {
        0: counts(0, 11.0, 5.0, tried=4, won=1, waiting=7),
        1: counts(1, 12.0, 6.0, waiting=2),
        2: counts(2, 13.0, 7.0),
        3: counts(3, 14.0, 7.0),
    }
    found = measured([[0, 1], [2, 3]], before, now, 20.0, 1.0, counted=True)
    assert list(found.busy) == [0.75, 0.0]
    assert (found.failed, found.spare, found.ready) == (0.75, 9 // 4, True)
    assert measured([[0, 1]], before, now, 20.0, 1.0, counted=False).spare is None


def test_who_joins_loads_or_begins_anew_is_not_measured() -> None:
    before, now = {0: counts(0, 1.0, 5.0), 1: counts(1, 1.0, 5.0)}, {0: counts(0, 2.0, 5.0), 1: counts(1, 2.0, 4.0)}
    assert not measured([[0], [1]], before, now, 2.0, 1.0, counted=True).ready
    assert not measured([[0], [2]], before, now, 2.0, 1.0, counted=True).ready
    loads = {0: counts(0, 2.0, 5.0, ready=False)}
    assert not measured([[0]], before, loads, 2.0, 1.0, counted=True).ready
    silent = measured([[0]], before, {0: before[0]}, 2.0, 1.0, counted=True)
    assert (list(silent.busy), silent.ready) == ([1.0], True), "it computes in a call that keeps its interpreter"


# Programs ------------------------------------------------------------------------------------------------------------


QUICK = apgas.Sizing(target=0.9, window_s=0.03, max_nodes=4, payback=0.0)


def busy_for(seconds: float, sizing: apgas.Sizing | None = QUICK) -> glb.Outcome[Naps]:
    """Sleep for a number of node-seconds."""
    config = glb.Config(workers=1, granularity=1, target_efficiency=sizing)
    naps = [0.002] * round(seconds / 0.002)
    return glb.compute(NapBag.whole(len(naps), naps), Naps, config)


def test_a_program_with_much_work_grows_by_its_own_orders(apgas_job: MakeJob) -> None:
    def main() -> tuple[glb.Outcome[Naps], int]:
        program().resizing.communicator = None  # as where no scheduler has started the job
        outcome = busy_for(4.0)
        return outcome, len(apgas.places())

    job = apgas_job(main, places=1)
    outcome, places = job.run()
    assert places > 1
    assert outcome.looks[-1].nodes > 1
    kinds = [record.kind for record in job.resizes if record.outcome == "done"]
    assert kinds[0] == "grow", kinds  # on a busy machine it may find that it is too large, too
    assert outcome.seconds <= outcome.node_s <= 4 * outcome.seconds
    assert outcome.held[0] == (0.0, 1)


def test_a_program_with_a_scheduler_asks_and_gets_what_there_is(apgas_job: MakeJob) -> None:
    def main() -> int:
        busy_for(4.0)
        return len(apgas.places())

    job = apgas_job(main, places=1)
    job.spare_nodes = 1
    assert job.run() == 2


def test_a_program_that_does_not_size_itself_keeps_its_size(apgas_job: MakeJob) -> None:
    def main() -> glb.Outcome[Naps]:
        return busy_for(0.5, None)

    job = apgas_job(main, places=2)
    outcome = job.run()
    assert (list(outcome.held), list(outcome.looks), job.resizes) == ([(0.0, 2)], [], [])
    assert outcome.node_s == pytest.approx(2 * outcome.seconds)


def test_other_programs_measure_themselves(apgas_job: MakeJob) -> None:
    def main() -> tuple[int, int]:
        apgas.define_malleable_handler(ReleaseNewest())

        def measure() -> apgas.Measured:
            nodes = len(apgas.nodes())
            return apgas.Measured(time.monotonic(), 0.02, [1.0] * min(2, nodes) + [0.0] * (nodes - 2))

        sizing = apgas.hold_efficiency(apgas.Sizing(target=0.9, window_s=0.02), measure)
        while len(apgas.nodes()) > 2:
            time.sleep(0.01)
        sizing.stop()
        return len(apgas.nodes()), sizing.reversals

    assert apgas_job(main, places=5).run() == (2, 0)


def test_a_program_without_a_handler_cannot_size_itself(apgas_job: MakeJob) -> None:
    def main() -> None:
        with pytest.raises(apgas.UsageError, match="handler"):
            apgas.hold_efficiency(0.9, lambda: None)

    apgas_job(main).run()


# Loops over arrays ---------------------------------------------------------------------------------------------------


def test_a_loop_refuses_a_target_each_time_and_goes_on_with_the_one_before(apgas_job: MakeJob) -> None:
    def main() -> None:
        list(arrays.steps(1, target_efficiency=0.5))
        kept = sizing_of_loops()
        for _ in range(2):
            with pytest.raises(apgas.UsageError, match="target"):
                arrays.steps(1, target_efficiency=7.0)
        assert sizing_of_loops() is kept is not None

    apgas_job(main).run()


def test_nodes_are_busy_for_as_long_as_functions_work_on_their_blocks(apgas_job: MakeJob) -> None:
    def main() -> None:
        work = Work()
        assert work.measure() is None, "no operation has ended"
        work.until_s = work._measured_s = (10.0, {0: 5.0})
        work.add(12.0, [(0, 1.0), (1, 0.5)])
        assert work.measure() == apgas.Measured(12.0, 2.0, [0.5, 0.25], ready=False), "place 1 has just joined"
        work.add(13.0, [(0, 9.0), (1, 0.0)])
        assert work.measure() == apgas.Measured(13.0, 1.0, [1.0, 0.0], ready=True)

    apgas_job(main, places=2).run()


def awake(_: arrays.Block) -> None:
    pass


def test_work_counts_in_the_time_in_which_it_was_done(apgas_job: MakeJob) -> None:
    """It counted in the operation after it: a long one was idle, and a short one after that more than busy."""

    def main() -> None:
        numbers, work = arrays.zeros(64), operations.get().work
        looks = []
        for _ in range(5):
            for fn in (asleep, awake):
                arrays.map_blocks(fn, numbers)
                looks.append(work.measure())
        busy_s = sum(each.efficiency * each.seconds for each in looks if each is not None)
        assert busy_s > 0.8 * 5 * 0.01

    apgas_job(main, places=2).run()


def half_asleep(block: arrays.Block) -> None:
    if block.rows.start < 16:
        time.sleep(0.01)


def asleep(_: arrays.Block) -> None:
    time.sleep(0.01)


def test_a_loop_with_arrays_gives_nodes_back_that_wait_for_others(apgas_job: MakeJob) -> None:
    def main() -> int:
        numbers = arrays.zeros(64)
        for _ in arrays.steps(target_efficiency=QUICK):
            arrays.map_blocks(half_asleep, numbers)
            if len(apgas.nodes()) == 1:
                break
        return len(numbers.gather())

    job = apgas_job(main, places=4)
    assert job.run() == 64
    assert job.resizes[-1].kind == "shrink"


def test_a_loop_with_arrays_whose_nodes_are_busy_grows(apgas_job: MakeJob) -> None:
    def main() -> int:
        program().resizing.communicator = None  # as where no scheduler has started the job
        numbers = arrays.zeros(64)
        for _ in arrays.steps(target_efficiency=apgas.Sizing(target=0.2, window_s=0.03, max_nodes=3, payback=0.0)):
            arrays.map_blocks(asleep, numbers)
            if len(apgas.nodes()) > 1:
                break
        return len(apgas.nodes())

    assert apgas_job(main, places=1).run() > 1


def test_a_target_that_no_loop_can_hold_is_refused(apgas_job: MakeJob) -> None:
    def main() -> None:
        with pytest.raises(apgas.UsageError, match="a share of 1"):
            arrays.steps(1, target_efficiency=2.0)

    apgas_job(main).run()


# The measurement -----------------------------------------------------------------------------------------------------


def test_an_example_with_arrays_is_measured(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setitem(ARRAY_PROGRAMS, "k_means", ArrayProgram({"POINTS": 240, "STEPS": 5}, 240))
    file = tmp_path / "run.json"
    apgas_job(lambda: _arrays("k_means", 0.5, QUICK, str(file)), places=2).run()
    run = Run.read(file)
    assert run.printed.count("\n") == 1
    assert 0.25 <= run.seconds <= run.node_seconds
    assert run.held[0] == (0.0, 2)


def test_a_run_that_prints_something_else_is_wrong() -> None:
    sized, fixed = Run(1.0, 2.0, None, printed="1"), Run(1.0, 2.0, None, printed="2")
    assert Found("x", {2: sized}, sized, 0.9).summary()["exact"]
    assert not Found("x", {2: fixed}, sized, 0.9).summary()["exact"]


def test_nodes_are_counted_from_when_they_were_held() -> None:
    run = Run(0.0, 0.0, None, held=[(0.0, 2), (1.0, 4), (3.0, 3)])
    run.end(4.0)
    assert run.node_seconds == 2 + 8 + 3
    assert run.turns == 1


@pytest.mark.parametrize("wrong", [["--json", "missing/x.json"], ["--figure", "missing/x.png"], ["--figure", "x.doc"]])
def test_files_that_cannot_be_written_are_refused_before_anything_runs(wrong: list[str]) -> None:
    assert command_line.main("python -m benchmarks.sizing", _command, wrong) == 2
