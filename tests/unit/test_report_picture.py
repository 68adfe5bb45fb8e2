from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from scheduler_bridge.record import JobRecord, Reserved, ResizeRecord, RunRecord, Segment
from scheduler_bridge.report import gantt
from scheduler_bridge.report.charts import png
from scheduler_bridge.report.gantt import (
    GROW_SPOTS,
    SHRINK_SPOTS,
    Block,
    _joined,
    _parts,
    _rectangle,
    free_spot,
    job_blocks,
)
from scheduler_bridge.report.looks import OKABE_ITO, looks, luma, runs_of
from scheduler_bridge.report.page import inline


def job(job_id: int, name: str, *segments: Segment, job_class: str = "malleable") -> JobRecord:
    return JobRecord(
        job_id=job_id,
        name=name,
        user="me",
        job_class=job_class,
        nodes=1,
        min_nodes=1,
        max_nodes=3,
        walltime_s=60.0,
        submit_s=5.0,
        start_s=segments[0].from_s,
        end_s=segments[-1].to_s,
        state="completed",
        segments=list(segments),
    )


def run(policy: str = "malleable") -> RunRecord:
    resized = job(1, "uts-1", Segment(5, 10, ("a",)), Segment(10, 20, ("a", "b")), Segment(20, 30, ("a",)))
    resized.resizes = [
        ResizeRecord(order=1, kind="grow", count=1, ordered_s=9, done_s=10, outcome="done", nodes=("b",)),
        ResizeRecord(order=2, kind="shrink", count=1, ordered_s=19, done_s=20, outcome="done", nodes=("b",)),
        ResizeRecord(order=3, kind="shrink", count=1, ordered_s=25, done_s=26, outcome="refused", nodes=("c",)),
    ]
    rigid = job(2, "pi-2", Segment(5, 25, ("c",)), job_class="rigid")
    return RunRecord(
        policy=policy,
        nodes=["a", "b", "c"],
        end_s=30.0,
        jobs=[resized, rigid],
        reserved=[Reserved("b", 9, 10, 1)],
        notes=["emulated on 2 cores"],
    )


def texts(*records: RunRecord) -> list[str]:
    figure = gantt.draw(records)
    found = [text.get_text() for text in figure.texts]
    for axes in figure.axes:
        found += [text.get_text() for text in axes.texts]
        found += [axes.get_title(loc="left")]
    return found


def test_the_title_says_the_finding_and_the_emulation_is_named() -> None:
    words = texts(run("easy"), run())
    assert "malleable: 25 s, 73 % busy (easy: 25 s, 73 %)" in words
    assert "emulated on 2 cores" in words
    assert "easy: 25 s, 73 % busy" in words


def test_bars_carry_names_marks_and_sizes_of_resizes() -> None:
    words = texts(run())
    assert "↔ uts-1" in words
    assert "pi-2" in words
    assert "+1" in words
    assert "\N{MINUS SIGN}1" in words
    assert words.count("\N{MINUS SIGN}1") == 1, "a refused shrink moved no boundary"
    assert "mean 73 %" in words


def test_sizes_say_what_came_at_each_boundary() -> None:
    record = run()
    record.nodes = ["a", "b", "c", "d"]
    record.jobs[0].segments[1] = Segment(10, 20, ("a", "b", "d"))
    record.jobs[0].resizes[0].nodes = ("b", "d")
    sizes = [word for word in texts(record) if word.startswith("+")]
    assert sizes == ["+1", "+1"], "one node at each of two places: the sum is what the job grew by"


def test_neither_names_nor_sizes_overlap() -> None:
    crowded = job(1, "uts-1", Segment(5, 15, ("a",)), Segment(15, 15.8, ("a", "b")), Segment(15.8, 30, ("a",)))
    crowded.resizes = [
        ResizeRecord(order=1, kind="grow", count=1, ordered_s=14.6, done_s=15, outcome="done", nodes=("b",)),
        ResizeRecord(order=2, kind="shrink", count=1, ordered_s=15.4, done_s=15.8, outcome="done", nodes=("b",)),
    ]
    late = job(3, "bc-3", Segment(15.9, 30, ("b",)))
    early = job(2, "a-name-that-fills-its-bar", Segment(5, 14.5, ("b",)))
    figure = gantt.draw([RunRecord(policy="malleable", nodes=["a", "b"], end_s=30.0, jobs=[crowded, early, late])])
    figure.canvas.draw()
    extents = {text.get_text(): text.get_window_extent() for text in figure.axes[1].texts}
    assert extents.keys() >= {"+1", "\N{MINUS SIGN}1", "↔ a-name-that-fills-its-bar"}
    for one, other in itertools.combinations(extents, 2):
        assert not extents[one].overlaps(extents[other]), (one, other)


def test_a_label_takes_the_first_free_spot() -> None:
    bar, area = (100.0, 0.0, 100.0, 50.0), (0.0, 0.0, 300.0, 50.0)
    spot, box, under = free_spot(GROW_SPOTS, bar, "+1", 1.0, np.array([bar]), area)
    assert (spot, box[0], box[3], under) == ((1, 1), 100, 50, 0), "to the right, at the upper end"
    spot, _, _ = free_spot(GROW_SPOTS, bar, "+1", 1.0, np.array([bar, box]), area)
    assert spot == (1, -1)
    near = (105.0, 0.0, 105.0, 50.0)
    spot, _, _ = free_spot(GROW_SPOTS, bar, "+1", 1.0, np.array([bar, near]), area)
    assert spot == (-1, 1)
    edge = (2.0, 0.0, 2.0, 50.0)
    spot, _, _ = free_spot(SHRINK_SPOTS, edge, "-1", 1.0, np.array([edge]), area)
    assert spot == (1, -1), "not outside the picture"


def test_an_instant_between_two_jobs_draws_no_spike() -> None:
    record = run("easy")
    record.jobs.append(job(3, "pi-3", Segment(25.003, 30, ("c",)), job_class="rigid"))
    busy = gantt.draw([record]).axes[0]
    levels = np.asarray(busy.lines[0].get_ydata())
    assert levels == pytest.approx([0, 200 / 3, 100, 200 / 3, 200 / 3, 0]), "three milliseconds of 33 % are no level"


def test_a_name_that_does_not_fit_is_left_out() -> None:
    record = run()
    record.jobs.append(job(3, "a-job-with-a-very-long-name-indeed", Segment(29.9, 30, ("b",))))
    assert not any("long-name" in word for word in texts(record))


def test_names_may_hold_anything() -> None:
    record = run("$policy$")
    record.notes = ["$\\frac{"]
    record.jobs[0].name = "$\\bad{ \n\u6f22"
    words = texts(record, run())
    assert "↔ $\\bad{ ?" in words
    assert "$policy$: 25 s, 73 % busy" in words
    assert png(gantt.draw([record])).startswith(b"\x89PNG")


def test_two_policies_share_the_time_axis() -> None:
    longer = run("easy")
    longer.jobs[1].segments = [Segment(5, 80, ("c",))]
    longer.jobs[1].end_s = 80
    axes = gantt.draw([longer, run()]).axes
    assert len(axes) == 6
    assert len({one.get_xlim() for one in axes}) == 1
    assert axes[0].get_xlim()[1] >= 75


def test_png_and_svg() -> None:
    assert png(gantt.draw([run()])).startswith(b"\x89PNG")
    svg = inline(gantt.draw([run()]), "A run.")
    assert svg.startswith("<svg")
    assert "metadata" not in svg
    assert not re.search(r"""(?:href|src)=["'](?!#)""", svg), "nothing to fetch"
    assert inline(gantt.draw([run()]), "A run.") == svg, "the same run gives the same picture"


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        gantt.draw([])
    with pytest.raises(ValueError, match="nothing to draw"):
        gantt.draw([RunRecord(policy="easy", nodes=["a"])])


def test_a_run_that_goes_on_is_not_said_to_be_over() -> None:
    record = run()
    assert "all done at 25 s" in texts(record)
    record.jobs[1].end_s, record.jobs[1].state = None, "running"
    said = texts(record)
    assert "1 job not over at 25 s" in said
    assert not [text for text in said if "all done" in text]
    assert "malleable: 25 s so far, 73 % busy" in said


@pytest.mark.parametrize(
    ("end_s", "label", "first"),
    [
        (30.0, "seconds since the first submission", ["0", "2.5", "5"]),
        (4505.0, "minutes since the first submission", ["0", "10", "20"]),
        (432_005.0, "days since the first submission", ["0", "0.5", "1"]),
    ],
)
def test_time_is_given_in_the_unit_of_the_title(end_s: float, label: str, first: list[str]) -> None:
    record = run()
    record.jobs[1].segments = [Segment(5, end_s, ("c",))]
    record.jobs[1].end_s = record.end_s = end_s
    axes = gantt.draw([record]).axes[-1]
    assert (axes.get_xlabel(), [text.get_text() for text in axes.get_xticklabels()][:3]) == (label, first)


def test_many_resizes_do_not_bury_the_picture() -> None:
    record = run()
    record.jobs[0].resizes = [
        ResizeRecord(order=n, kind="grow", count=1, ordered_s=10, done_s=10 + n / 20, outcome="done", nodes=("b",))
        for n in range(150)
    ]
    sizes = [text for text in texts(record) if text == "+1"]
    assert len(sizes) <= 2, "only where nothing else is written"


def test_hundreds_of_nodes_are_drawn() -> None:
    nodes = [f"n{index}" for index in range(300)]
    record = RunRecord(
        policy="easy", nodes=nodes, end_s=9, jobs=[job(1, "wide", Segment(5, 9, tuple(nodes)), job_class="rigid")]
    )
    figure = gantt.draw([record])
    assert len(figure.axes[1].get_yticks()) <= 24
    assert "wide" in [text.get_text() for text in figure.axes[1].texts]


def test_jobs_that_share_a_node_lie_side_by_side() -> None:
    host = job(1, "host", Segment(0, 50, ("a", "b"), 0.75))
    guest = job(2, "guest", Segment(0, 50, ("a", "b"), 0.25, is_guest=True))
    (above_both,), (below_both,) = job_blocks([host, guest], {"a": 0, "b": 1}, 0.0)
    for above, below in zip(above_both, below_both, strict=True):
        (_, top), _, height = _rectangle(above)
        (_, low_top), _, low_height = _rectangle(below)
        assert top + height == pytest.approx(low_top), "they meet"
        assert height == pytest.approx(3 * low_height)
        assert top < above.middle < low_top < below.middle < low_top + low_height
    found = texts(RunRecord(policy="sd-policy", nodes=["a", "b"], end_s=50.0, jobs=[host, guest]))
    assert any("host" in text for text in found)


def test_guests_of_one_node_do_not_cover_each_other() -> None:
    """The first guest stays when its host has ended, and is host to the next one."""
    jobs = [
        job(1, "host", Segment(0, 10, ("a", "b")), Segment(10, 20, ("a", "b"), 0.5)),
        job(2, "guest", Segment(10, 30, ("a", "b"), 0.5, is_guest=True), Segment(30, 40, ("a", "b"), is_guest=True)),
        job(3, "its guest", Segment(20, 30, ("b",), 0.5, is_guest=True)),
    ]
    assert drawn(jobs, "ab") == {
        1: [(0, 10, 0, 2), (10, 20, 0, 0.5), (10, 20, 1, 1.5)],
        2: [(10, 30, 0.5, 1), (10, 30, 1.5, 2), (30, 40, 0, 2)],
        3: [(20, 30, 1, 1.5)],
    }


def test_a_job_may_have_other_parts_on_other_nodes() -> None:
    jobs = [
        job(1, "host", Segment(0, 10, ("a", "b", "c"), 0.75, shares=(0.5, 1.0, 0.75))),
        job(2, "guest", Segment(0, 10, ("a", "c"), 0.375, is_guest=True, shares=(0.5, 0.25))),
    ]
    assert drawn(jobs, "abc") == {
        1: [(0, 10, 1, 2), (0, 10, 0, 0.5), (0, 10, 2, 2.75)],
        2: [(0, 10, 0.5, 1), (0, 10, 2.75, 3)],
    }


def drawn(jobs: list[JobRecord], nodes: str) -> dict[int, list[tuple[float, float, float, float]]]:
    """From when to when, and from where to where in rows, all bars of each job lie."""
    blocks = job_blocks(jobs, {node: index for index, node in enumerate(nodes)}, 0.0)
    return {
        jobs[index].job_id: [
            (block.from_s, block.to_s, block.first + block.top, block.first + block.top + block.rows * block.share)
            for segment in segments
            for block in segment
        ]
        for index, segments in enumerate(blocks)
    }


def test_jobs_look_different_and_neighbours_also_in_grey() -> None:
    record = RunRecord(policy="easy", nodes=["a"], jobs=[job(i, "j", Segment(5, 6, ("a",))) for i in range(28)])
    styles = looks([record, record])
    assert len(set(styles.values())) == 28
    assert {styles[index].color for index in range(7)} == set(OKABE_ITO)
    for before, after in itertools.pairwise(styles[index].color for index in range(28)):
        assert abs(luma(before) - luma(after)) > 0.04, (before, after)


def test_hatches_mean_reserved_and_nothing_else() -> None:
    many = RunRecord(policy="easy", nodes=["a", "b"], end_s=60.0)
    many.jobs = [job(i, "j", Segment(5 + i, 6 + i, ("a",)), job_class="rigid") for i in range(28)]
    many.reserved = [Reserved("b", 10, 20, 3), Reserved("b", 30, 40, None)]
    patches = gantt.draw([many]).axes[1].patches
    hatched = [patch for patch in patches if isinstance(patch, Rectangle) and patch.get_hatch()]
    assert [patch.get_x() + 5 for patch in hatched] == [10], "a node that is down is not reserved"
    keys = [text.get_text() for legend in gantt.draw([many]).legends for text in legend.get_texts()]
    assert "down" in keys
    assert "down" not in [text.get_text() for legend in gantt.draw([run()]).legends for text in legend.get_texts()]


def test_rows_are_grouped_into_runs() -> None:
    assert runs_of([3, 0, 1, 5, 4]) == [(0, 1), (3, 5)]
    assert runs_of([]) == []


def test_parts_hang_together_in_time_and_rows() -> None:
    low, high, far = Block(0, 5, 0, 0), Block(5, 9, 0, 1), Block(5, 9, 3, 3)
    assert sorted(len(part) for part in _parts([low, high, far])) == [1, 2]
    assert Block(0, 9, 0, 0) in _joined([low, high]), "the name may run on through the resize"
    later = Block(7, 9, 1, 1)
    assert len(_parts([low, later])) == 2, "neighbours in rows, but not in time"
