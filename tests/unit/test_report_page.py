from __future__ import annotations

import io
import re
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from support.outlines import fetches, outline

from scheduler_bridge.record import JobRecord, JobState, ResizeRecord, RunRecord, Segment
from scheduler_bridge.report import gantt, page, tables, words
from scheduler_bridge.report.page import part

HOSTILE = "<script>alert(1)</script>&\"'"


def run(policy: str, end_s: float, *, name: str = "uts-1") -> RunRecord:
    resize = ResizeRecord(
        order=1,
        kind="grow",
        count=1,
        ordered_s=9,
        done_s=10,
        seconds=0.5,
        phases={"spawn": 0.25},
        outcome="done",
        nodes=("b",),
    )
    job = JobRecord(
        job_id=1,
        name=name,
        user="me",
        job_class="malleable",
        nodes=1,
        min_nodes=1,
        max_nodes=2,
        walltime_s=60.0,
        submit_s=0.0,
        command=("python", "-m", "benchmarks.uts", HOSTILE),
        start_s=1.0,
        end_s=end_s,
        state="completed",
        segments=[Segment(1, 10, ("a",)), Segment(10, end_s, ("a", "b"))],
        resizes=[resize] if policy == "malleable" else [],
        result={"result": 4230646601, "verified": True},
        verified=True,
    )
    return RunRecord(
        policy=policy,
        nodes=["a", "b"],
        end_s=end_s,
        jobs=[job],
        notes=["emulated"],
        provenance={"cpu": HOSTILE, "seed": 42},
    )


@pytest.mark.parametrize(("state", "end_s", "alarms"), [("running", None, False), ("failed", 100.0, True)])
def test_only_a_bad_end_is_red(state: JobState, end_s: float | None, alarms: bool) -> None:
    record = run("malleable", 100.0)
    record.jobs[0].state, record.jobs[0].end_s = state, end_s
    console = Console(width=100, file=io.StringIO(), force_terminal=True, color_system="standard", record=True)
    console.print(tables.job_table(record))
    assert ("\x1b[1;31m" + state in console.export_text(styles=True)) is alarms
    assert (f'class="bad">{state}' in page.render([record])) is alarms


@pytest.mark.parametrize(
    ("reason", "said", "cells"),
    [
        ("", "cancelled", ["cancelled"]),
        ("cancelled while it waited", "cancelled while it waited", ["cancelled while it waited"]),
        ("a reason", "cancelled: a reason", ["cancelled", "a reason; 4,230,646,601"]),
    ],
)
def test_a_state_is_not_said_twice(reason: str, said: str, cells: list[str]) -> None:
    record = run("malleable", 100.0)
    record.jobs[0].state, record.jobs[0].reason = "cancelled", reason
    assert words.state(record.jobs[0]) == said
    text = page.render([record])
    assert all(f">{cell}</td>" in text for cell in cells)
    assert text.count(">cancelled") == 1


def test_the_page_says_its_title_once() -> None:
    for records in ([run("malleable", 100.0)], [run("easy", 120.0), run("malleable", 100.0)]):
        text = page.render(records)
        body = text[text.index("<body>") :]
        assert body.count(words.headline(records)) == 1
        assert len(gantt.draw(records).texts) == len(gantt.draw(records, titled=False).texts) + 2


@pytest.mark.parametrize(
    ("result", "verified", "said"),
    [
        ({"result": 7, "verified": True}, True, "yes"),
        ({"result": 7, "verified": False}, False, "NO"),
        ({"result": 7, "verified": None}, None, "not checked"),
        ({"error": "it broke"}, None, "-"),
        (None, None, "-"),
    ],
)
def test_what_was_never_reported_is_not_called_unchecked(
    result: dict[str, object] | None, verified: bool | None, said: str
) -> None:
    record = run("malleable", 100.0)
    record.jobs[0].result, record.jobs[0].verified = result, verified
    assert words.verified(record.jobs[0]) == said


def test_the_parts_of_a_resize_add_up_to_what_it_took() -> None:
    took_s, parts = words.resize_times(ResizeRecord(1, "grow", 1, 9.0, 10.004, 0.4, {"spawn": 0.352, "post": 0.628}))
    assert (took_s, parts) == (1.0, {"spawn": 0.35, "post": 0.63, words.OUTSIDE: 0.02})
    early = ResizeRecord(1, "grow", 1, 9.0, 9.4, 0.4, {"spawn": 0.35, "post": 0.1})
    assert words.resize_times(early) == (0.45, {"spawn": 0.35, "post": 0.1}), "two clocks may differ a little"
    assert words.resize_times(ResizeRecord(1, "grow", 1, 9.0)) == (None, {})
    assert words.resize_times(ResizeRecord(1, "grow", 1, 9.0, 10.0)) == (1.0, {}), "the job reported no phases"


def test_the_policy_has_a_column_only_where_there_are_several() -> None:
    assert ">Policy</th>" not in page.render([run("malleable", 100.0)])
    assert page.render([run("easy", 120.0), run("malleable", 100.0)]).count(">Policy</th>") == 2


def test_names_are_whole_on_a_narrow_terminal() -> None:
    console = Console(width=80, file=io.StringIO(), record=True)
    records = [run("malleable", 100.0, name="nqueens17-10"), run("easy", 120.0)]
    records[0].jobs.append(msgspec.structs.replace(records[0].jobs[0], job_class="rigid"))
    console.print(tables.job_table(records[0]))
    console.print(tables.comparison_table(records))
    lines = console.export_text().splitlines()
    assert any("↔ nqueens17-10" in line for line in lines)
    assert any(line.split()[:3] == ["malleable", "2", "all"] for line in lines)
    assert not any("…" in line for line in lines)


def test_the_page_is_well_formed_and_fetches_nothing() -> None:
    text = page.render([run("easy", 40), run("malleable", 30)], reproduce=["./launch/demo --seed 42"])
    parsed = outline(text)
    assert [tag for tag, _ in parsed.tags].count("h1") == 1
    assert fetches(text) == []
    assert "./launch/demo --seed 42" in text


def test_the_page_can_be_read_without_seeing_it() -> None:
    parsed = outline(page.render([run("easy", 40), run("malleable", 30)]))
    pictures = [attributes for tag, attributes in parsed.tags if tag == "svg"]
    assert len(pictures) == 1
    assert pictures[0]["role"] == "img"
    assert "malleable took 30 s, 25 % less time than easy (40 s)" in (pictures[0]["aria-label"] or "")
    assert all(attributes.get("scope") == "col" for tag, attributes in parsed.tags if tag == "th")
    assert ("html", {"lang": "en"}) in parsed.tags


def test_what_jobs_say_is_escaped() -> None:
    record = run("malleable", 30, name=HOSTILE)
    record.policy = HOSTILE
    record.jobs[0].reason = HOSTILE
    record.jobs[0].resizes[0].reason = HOSTILE
    record.notes = [HOSTILE]
    text = page.render([record], reproduce=[HOSTILE])
    assert "<script>alert" not in text
    assert text.count("<script>") == 1
    outline(text)


def test_five_numbers_and_the_claim_compare_the_policies() -> None:
    records = [run("easy", 40), run("malleable", 30)]
    numbers = words.five_numbers(records)
    assert [number.label for number in numbers][:2] == ["Makespan", "Utilization"]
    assert (numbers[0].value, numbers[0].before) == ("30 s", "easy: 40 s")
    assert (numbers[4].value, numbers[4].before) == ("1 + 0", "easy: 0 + 0")
    assert len(numbers) == 5
    assert "25 % less time than easy" in words.claim(records)
    assert "33 % more time than malleable" in words.claim(records[::-1])
    assert "as long as" in words.claim([records[0], records[0]])


def test_what_is_said_of_a_run_that_goes_on() -> None:
    record = run("malleable", 30)
    record.jobs[0].end_s, record.jobs[0].state = None, "running"
    jobs = f"{len(record.jobs)} job{'s' if len(record.jobs) > 1 else ''}"
    said = words.claim([record])
    assert said.startswith(f"{jobs} on ")
    assert "30 s after the first submission: 1 job not over yet; the nodes were" in said
    assert "took" not in said
    assert words.five_numbers([record])[0].hint == "first submission to now"
    assert words.headline([record]).startswith("malleable: 30 s so far, ")


def test_a_page_about_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        page.write_page([], tmp_path / "index.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        (None, "-"),
        (0.04, "0.0 s"),
        (9.96, "10 s"),
        (61.4, "61 s"),
        (600, "10.0 min"),
        (36_000, "10.0 h"),
        (345_600, "4.0 days"),
    ],
)
def test_durations(value_s: float | None, text: str) -> None:
    assert words.seconds(value_s) == text


def test_allocations_bounds_and_results_in_words() -> None:
    job = run("malleable", 30).jobs[0]
    assert words.allocation(job) == "1→2"
    assert words.bounds(job) == "1-2"
    assert words.result(job) == "4,230,646,601"
    job.result = {"result": {"sum": 1.5, "maximum": 2}}
    assert words.result(job) == "sum 1.5, maximum 2"
    job.result = {"error": "boom"}
    assert words.result(job) == "error: boom"


def test_tables_show_wrong_results_and_failures() -> None:
    record = run("malleable", 30)
    wrong = run("malleable", 30, name="wrong").jobs[0]
    wrong.verified = False
    failed = run("malleable", 30, name="failed").jobs[0]
    failed.state, failed.reason = "failed", "exit status 1"
    record.jobs += [wrong, failed]
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(tables.job_table(record))
    console.print(tables.comparison_table([run("easy", 40), record]))
    text = console.export_text()
    assert re.search(r"↔ uts-1 .* 1→2 .* yes", text)
    assert re.search(r"↔ wrong .* NO", text)
    assert "failed: exit status 1" in text
    assert "busy: node-seconds held by jobs / nodes x makespan" in text


def test_the_sizes_of_a_job_may_wrap() -> None:
    """The style keeps all cells but wide ones on one line; a job of many sizes made the table wider than the page."""
    assert '<td class="wide">1→2</td>' in page.render([run("malleable", 30)])
    assert "#job-table td:not(.wide)" in part("run.css")


@pytest.mark.parametrize(
    ("value", "text"),
    [(7.0, "7"), (999.4, "999"), (999.7, "1 k"), (143e6, "143 M"), (999_700.0, "1 M"), (1.5e12, "1.5 T")],
)
def test_large_numbers_have_three_digits_and_a_prefix(value: float, text: str) -> None:
    assert words.large(value) == text
