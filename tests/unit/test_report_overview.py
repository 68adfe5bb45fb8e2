"""The picture of a run of any size: its curves, its busiest part, and who has which rows."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.patches import Rectangle

from scheduler_bridge.cli import results
from scheduler_bridge.cli.common import CliError
from scheduler_bridge.record import JobRecord, Reserved, ResizeRecord, RunRecord, Segment
from scheduler_bridge.report import overview, words
from scheduler_bridge.report.overview import Course, Life, Window, cut, lives_of
from scheduler_bridge.report.page import render

HOUR_S = 3600.0


def lives(jobs: int, *, every_s: float = 60.0, nodes: int = 3) -> list[Life]:
    """Jobs of ten minutes, of which every tenth waits for an hour."""
    found = []
    for job in range(jobs):
        submit_s = job * every_s
        start_s = submit_s + (HOUR_S if job % 10 == 9 else 0.0)
        found.append(Life(submit_s, start_s, start_s + 600, ((start_s, start_s + 600, nodes),)))
    return found


def test_steps_are_means_of_what_happened() -> None:
    # 4 nodes: job 1 has all of them from 100 s to 200 s, job 2 (submitted at 100 s) two of them from 200 s to 300 s
    course = Course("easy", 4, [Life(100, 100, 200, ((100, 200, 4),)), Life(100, 200, 300, ((200, 300, 2),))])
    assert course.origin_s == 100
    assert course.edges_s.tolist() == list(range(201))
    assert course.busy.tolist() == [1.0] * 100 + [0.5] * 100
    assert course.waiting.tolist() == [1.0] * 100 + [0.0] * 100
    assert (course.makespan_s, course.utilization, course.most_waiting, course.open_jobs) == (200, 0.75, 1, 0)
    assert course.waits_s == pytest.approx((50, 50, 90))
    assert course.mean_turnaround_s == 150
    assert (course.half_s[0], course.most_s[0]) == (50, 90)
    assert np.isnan(course.half_s[1:]).all()


def test_jobs_that_are_not_over_count_until_now() -> None:
    course = Course("easy", 2, [Life(0, 10, None, ((10, 50, 2),)), Life(20, None, None, ())], until_s=60)
    assert (course.makespan_s, course.open_jobs, course.most_waiting) == (60, 2, 1)
    assert course.mean_turnaround_s is None
    assert course.waiting.sum() == 10 + 40
    assert "of which 2 are not over" in overview.claim(course)
    never = Course("easy", 1, [Life(0, None, None, ())], until_s=60)
    assert overview.claim(never).startswith("1 job, of which 1 is not over on 1 node under easy, over ")
    assert overview.headline(never) == "easy: 0 % busy, no job has started"
    with pytest.raises(ValueError, match="no job"):
        Course("easy", 2, [])


times = st.integers(0, 10**6).map(lambda number: number / 7)


@given(
    jobs=st.lists(st.tuples(times, times, times, st.integers(1, 50)), min_size=1, max_size=40), nodes=st.integers(1, 99)
)
def test_nothing_is_lost_in_steps(jobs: list[tuple[float, float, float, int]], nodes: int) -> None:
    run = [
        Life(submit, submit + wait, submit + wait + length, ((submit + wait, submit + wait + length, size),))
        for submit, wait, length, size in jobs
    ]
    course = Course("easy", nodes, run)
    steps_s = np.diff(course.edges_s)
    assert len(steps_s) <= 301
    held = sum(length * size for _, _, length, size in jobs)
    assert float((course.busy * steps_s).sum()) * nodes == pytest.approx(held, abs=1e-3)
    assert float((course.waiting * steps_s).sum()) == pytest.approx(sum(wait for _, wait, _, _ in jobs), abs=1e-3)
    assert course.most_waiting >= course.waiting.max() - 1e-6
    window = course.busiest()
    assert 0 <= window.from_s < window.to_s <= course.makespan_s + 1e-6


def test_the_busiest_part_is_the_one_in_which_most_is_held_and_most_jobs_wait() -> None:
    calm = lives(2000)
    full = [Life(60_000.0, 60_000.0 + HOUR_S, 60_000.0 + 3 * HOUR_S, ((63_600.0, 70_800.0, 70),)) for _ in range(1)]
    window = Course("easy", 100, calm + full).busiest()
    assert window.is_busiest
    assert window.to_s - window.from_s == 3 * HOUR_S
    assert window.from_s < 67_200 < window.to_s
    assert Course("easy", 100, lives(5)).busiest() == Window(0.0, 840.0)


def job(number: int, *segments: tuple[float, float, int, int], malleable: bool = False) -> JobRecord:
    """A job with nodes from one number up to another one."""
    parts = [
        Segment(from_s, to_s, tuple(f"n{node}" for node in range(low, high))) for from_s, to_s, low, high in segments
    ]
    sizes = [len(part.nodes) for part in parts]
    job_class = "malleable" if malleable else "rigid"
    record = JobRecord(
        number, f"job {number}", "u", job_class, sizes[0], min(sizes), max(sizes), 1e4, max(0, segments[0][0] - 5)
    )
    record.start_s, record.end_s, record.state, record.segments = segments[0][0], segments[-1][1], "completed", parts
    return record


def run(nodes: int, *jobs: JobRecord, reserved: list[Reserved] | None = None) -> RunRecord:
    end_s = max((one.end_s or 0.0) for one in jobs)
    names = [f"n{node}" for node in range(nodes)]
    return RunRecord("avg", names, end_s=end_s, jobs=list(jobs), reserved=reserved or [], notes=["simulated: w"])


def test_a_part_has_what_was_held_then() -> None:
    record = run(4, job(1, (0, 100, 0, 2)), job(2, (50, 300, 2, 4)), job(3, (300, 400, 0, 4)))
    part = cut(record, Window(75, 200), 0)
    assert [(one.job_id, part.from_s, part.to_s) for one in part.jobs for part in one.segments] == [
        (1, 75, 100),
        (2, 75, 200),
    ]
    assert len(record.jobs[0].segments[0].nodes) == 2
    assert record.jobs[0].segments[0].from_s == 0


@st.composite
def runs(draw: st.DrawFn) -> RunRecord:
    """Jobs that never hold more nodes than there are, on whatever nodes."""
    nodes = draw(st.integers(1, 12))
    jobs = []
    free = [set(range(nodes)) for _ in range(12)]  # in each slot of time
    for number in range(draw(st.integers(1, 10))):
        begin = draw(st.integers(0, 10))
        parts = []
        for slot in range(begin, draw(st.integers(begin + 1, 12))):
            mine = sorted(draw(st.sets(st.sampled_from(sorted(free[slot])), min_size=1))) if free[slot] else []
            free[slot] -= set(mine)
            if not mine:
                break
            parts.append(Segment(float(slot), slot + 1.0, tuple(f"n{node}" for node in mine)))
        if parts:
            made = job(number, (parts[0].from_s, parts[-1].to_s, 0, 1))
            made.segments = parts
            jobs.append(made)
    return run(nodes, *(jobs or [job(0, (0, 1, 0, 1))]))


@settings(max_examples=30)
@given(record=runs())
def test_each_job_has_as_many_rows_as_nodes_and_none_twice(record: RunRecord) -> None:
    stays = list(overview._gathered(record))
    for slot in range(12):
        there = [stay for stay in stays if stay.from_s <= slot < stay.to_s]
        rows = [row for stay in there for first, last in stay.runs for row in range(first, last + 1)]
        assert len(rows) == len(set(rows))
        assert all(0 <= row < len(record.nodes) for row in rows)
        held = {
            one.job_id: len(part.nodes)
            for one in record.jobs
            for part in one.segments
            if part.from_s <= slot < part.to_s
        }
        found = {
            stay.job.job_id: sum(last - first + 1 for first, last in stay.runs)
            for stay in there
            if stay.job is not None
        }
        assert found == held


@settings(max_examples=30)
@given(record=runs())
def test_stacked_jobs_have_as_many_rows_as_nodes_without_a_gap(record: RunRecord) -> None:
    stays = [stay for stay in overview._stacked(record, 0.0, 12.0) if stay.painted]
    rooms = [stay for stay in overview._stacked(record, 0.0, 12.0) if not stay.painted]
    for slot in range(12):
        middle_s = slot + 0.5
        there = sorted((stay.runs[0], stay.job) for stay in stays if stay.from_s <= middle_s < stay.to_s)
        parts = [(one, part) for one in record.jobs for part in one.segments if part.from_s <= middle_s < part.to_s]
        held = {one.job_id: len(part.nodes) for one, part in parts}
        assert {one.job_id: last - first + 1 for (first, last), one in there if one} == held
        assert [first for (first, _), _ in there] == [0, *(last + 1 for (_, last), _ in there)][:-1]
    for room in rooms:
        inside = [
            stay for stay in stays if stay.job is room.job and stay.from_s < room.to_s and room.from_s < stay.to_s
        ]
        assert inside
        assert all(stay.runs[0][0] <= room.runs[0][0] <= room.runs[0][1] <= stay.runs[0][1] for stay in inside)


def test_a_job_whose_nodes_lie_apart_is_gathered() -> None:
    record = run(9, job(1, (0, 9, 0, 1)), job(2, (0, 9, 5, 6), (9, 20, 5, 8)), reserved=[Reserved("n8", 0, 5, 7)])
    apart = scattered(record)
    stays = {(stay.from_s, stay.job and stay.job.job_id): list(stay.runs) for stay in overview._gathered(apart)}
    assert all(len(rows) == 1 for rows in stays.values())
    assert sorted(last - first + 1 for rows in stays.values() for first, last in rows) == [1, 1, 3, 3]


def scattered(record: RunRecord) -> RunRecord:
    """The same with the nodes of job 1 here and there."""
    record.jobs[0].segments = [Segment(0, 9, ("n0", "n3", "n7"))]
    return record


def large(jobs: int, nodes: int) -> RunRecord:
    found = []
    for number in range(jobs):
        low = number * 7 % (nodes - 5)
        at_s = 60.0 * number
        found.append(
            job(number, (at_s, at_s + 200, low, low + 5), (at_s + 200, at_s + 500, low, low + 2), malleable=True)
        )
        found[-1].resizes = [ResizeRecord(1, "shrink", 3, at_s + 190, at_s + 200, outcome="done", nodes=("n1",) * 40)]
    return run(nodes, *found)


def test_what_is_drawn_does_not_grow_with_the_run(tmp_path: Path) -> None:
    sizes = []
    for jobs in (1500, 6000):
        record = large(jobs, 400)
        shown = results.drawn_of(record, None)
        assert shown.whole is not None
        shown.write(tmp_path / "x.png", tmp_path / "x.html")
        sizes.append(((tmp_path / "x.png").stat().st_size, (tmp_path / "x.html").stat().st_size))
    assert max(sizes[1]) < 600_000
    assert sizes[1][0] < 1.3 * sizes[0][0]
    assert sizes[1][1] < 1.3 * sizes[0][1]


def test_the_page_tells_of_the_whole_run_and_lists_the_jobs_of_the_part() -> None:
    record = large(1500, 400)
    shown = results.drawn_of(record, (36_000.0, 37_800.0))
    html = render([shown.record], whole=shown.whole)
    assert "1,500 jobs on 400 nodes under avg" in html
    assert "hours 10 to 10.5; the same jobs are in the table" in html
    assert html.count('<tr><td class="number" data-sort=') == len(shown.record.jobs) == 38
    assert "and 24 more" in html
    assert "n399" not in html


def test_small_runs_are_drawn_job_by_job_unless_a_part_is_asked_for(tmp_path: Path) -> None:
    record = large(20, 100)
    assert results.drawn_of(record, None).whole is None
    shown = results.drawn_of(record, (0.0, 1e9))
    assert shown.whole is not None
    assert shown.whole[1] == Window(0.0, 60 * 19 + 500)
    shown.write(tmp_path / "x.png", None)
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(CliError, match="nothing is left to draw"):
        results.drawn_of(record, (1e6, 2e6))


@pytest.mark.parametrize("asked", [None, (0.0, 60.0)])
def test_of_a_run_without_jobs_nothing_is_drawn(asked: tuple[float, float] | None) -> None:
    refused = JobRecord(1, "job", "u", "rigid", 9, 9, 9, 1e4, 0.0, state="refused")
    for record in (RunRecord("avg", ["n0"]), RunRecord("avg", ["n0"], jobs=[refused])):
        with pytest.raises(CliError, match="nothing to draw: no job was taken"):
            results.drawn_of(record, asked)


@pytest.mark.parametrize("text", ["24h", "2h:1h", "a:b", "1h:1h", ":"])
def test_a_part_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(CliError, match="--window"):
        results.read_window(text)


def test_a_part_is_given_from_to() -> None:
    assert results.read_window("36h:2d") == (36 * HOUR_S, 48 * HOUR_S)
    assert results.read_window(None) is None


@pytest.mark.parametrize(
    ("waits_s", "finding"),
    [
        ([0.0] * 10, "nine of ten jobs start at once"),
        ([0.0] * 6 + [7200.0] * 4, "half of the jobs start at once, nine of ten wait up to 2.0 h"),
        ([90.0] * 10, "half of the jobs wait up to 1.5 min, nine of ten up to 1.5 min"),
        ([864_000.0] * 10, "half of the jobs wait up to 10 days, nine of ten up to 10 days"),
    ],
)
def test_the_title_is_the_finding(waits_s: list[float], finding: str) -> None:
    course = Course("easy", 1, [Life(0, wait, wait + 1, ((wait, wait + 1, 1),)) for wait in waits_s])
    assert overview.headline(course).endswith(finding)
    hint = overview.five_numbers(course)[2].hint
    assert ("at once" in hint) == ("at once" in finding)
    assert "0.0 s" not in hint


def test_a_short_part_of_a_long_run_is_named_exactly() -> None:
    course = Course("easy", 1, [Life(0, 0, 4423 * 24 * HOUR_S, ((0, 1, 1),))])
    day_s = 24 * HOUR_S
    assert "days 3143.25 to 3144.25" in overview.caption(course, Window(3143.25 * day_s, 3144.25 * day_s))
    assert "the busiest part, days 9.3125 to 9.5625" in overview.caption(
        course, Window(9.3125 * day_s, 9.5625 * day_s, True)
    )
    assert "days 100 to 3000" in overview.caption(course, Window(100 * day_s, 3000 * day_s))
    early = overview.caption(course, Window(90.75 * HOUR_S, 91.75 * HOUR_S))
    assert "hours 90.75 to 91.75" in early, "as the axis below the nodes, and as --window takes it"


@pytest.mark.parametrize(("to_s", "marked"), [(600.0, True), (1e9, False)])
def test_the_curves_mark_a_part_and_not_the_whole(to_s: float, marked: bool) -> None:
    shown = results.drawn_of(large(20, 100), (0.0, to_s))
    assert shown.whole is not None
    course, window = shown.whole
    figure = overview.draw(course, shown.record, window)
    spans = [patch for axes in figure.axes for patch in axes.patches if isinstance(patch, Rectangle)]
    assert len(spans) == (3 if marked else 0)
    assert len(figure.artists) == (2 if marked else 0)


def test_many_sizes_are_named_by_the_first_and_the_last() -> None:
    steps = [(float(at_s), at_s + 1.0, 0, 1 + at_s % 7) for at_s in range(100)]
    assert words.allocation(job(1, *steps[:3], malleable=True)) == "1→2→3"
    assert words.allocation(job(1, *steps, malleable=True)) == "1→2→3→4→5→6→7→1→...→2 (100 sizes)"


def test_records_and_lives_agree() -> None:
    record = large(30, 100)
    course = Course("avg", 100, lives_of(record))
    assert (course.jobs, course.shrinks, course.grows) == (30, 30, 0)
    held = sum((part.to_s - part.from_s) * len(part.nodes) for one in record.jobs for part in one.segments)
    assert course.utilization == pytest.approx(held / (100 * course.makespan_s))
    assert course.waits_s == pytest.approx((5 * 29 / 30, 5, 5))
    assert all(after > before for before, after in itertools.pairwise(course.edges_s.tolist()))
