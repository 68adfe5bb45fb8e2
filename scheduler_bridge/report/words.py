"""The sentences and numbers of a report, worded once for the terminal, the picture and the page."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from scheduler_bridge.printable import one_line
from scheduler_bridge.record import (
    UTILIZATION_DENOMINATOR,
    makespan_s,
    metrics,
    nodes_over_time,
    open_jobs,
    utilization,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler_bridge.record import JobRecord, ResizeRecord, RunRecord

NOTHING = "-"
_MOST_SIZES = 16
OUTSIDE = "outside the job"
"""The part of a resize that is none of the job's phases."""
_UNITS = ((4 * 86_400.0, 86_400.0, "days"), (36_000.0, 3600.0, "hours"), (600.0, 60.0, "minutes"))
_TIME: Final = re.compile(r"\b(at|before|until) (\d+(?:\.\d+)?) s\b")
_SHORT = {"days": "days", "hours": "h", "minutes": "min"}


def unit(value_s: float) -> tuple[float, str]:
    """The unit in which a duration is worded, in seconds, and its name."""
    return next(((size_s, name) for least_s, size_s, name in _UNITS if value_s >= least_s), (1.0, "seconds"))


def seconds(value_s: float | None) -> str:
    """Word a duration: tenths below 10 s, whole seconds below 10 min, minutes, hours and days above."""
    if value_s is None:
        return NOTHING
    if round(value_s, 1) < 10:
        return f"{value_s:.1f} s"
    size_s, name = unit(value_s)
    return f"{value_s:.0f} s" if name == "seconds" else f"{value_s / size_s:.1f} {_SHORT[name]}"


def percent(share: float) -> str:
    """Word a share of 1 as a percentage."""
    return f"{100 * share:.0f} %"


def large(value: float) -> str:
    """Word a large number with a prefix: ``143 M``; the unit follows."""
    for limit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * limit:  # else three digits would round it up to 1e+03
            return f"{value / limit:.3g} {letter}"
    return f"{value:.3g}"


def plural(count: int, noun: str) -> str:
    """Word a count: ``1 grow``, ``2 grows``, ``1,000 grows``."""
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"


def from_now(reason: str, now_s: float) -> str:
    """Word the times in a reason, which are on the scheduler's clock, as durations from ``now_s`` on."""
    return _TIME.sub(lambda found: _away(found[1], float(found[2]) - now_s), reason)


def _away(word: str, left_s: float) -> str:
    if left_s < 0:
        ago = f"{seconds(-left_s)} ago"
        return ago if word == "at" else f"{word} {ago}"
    left = seconds(left_s)
    return {"at": f"in {left}", "before": f"within {left}", "until": f"for {left} more"}[word]


def some(names: Sequence[str], most: int = 4) -> str:
    """Word names, the first ones if there are many."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def summary(record: RunRecord) -> str:
    """Word makespan and utilization: ``61 s, 92 % busy``; ``61 s so far, ...`` while jobs wait or run."""
    return f"{_short(record)} busy"


def headline(records: Sequence[RunRecord]) -> str:
    """The finding: the last record first, the others in brackets.

    Example: ``malleable: 61 s, 92 % busy (easy: 74 s, 77 %)``.
    """
    *others, shown = records
    text = f"{shown.policy}: {summary(shown)}"
    if others:
        text += " (" + "; ".join(f"{other.policy}: {_short(other)}" for other in others) + ")"
    return text


def _short(record: RunRecord) -> str:
    so_far = " so far" if open_jobs(record) else ""
    return f"{seconds(makespan_s(record))}{so_far}, {percent(utilization(record))}"


def end(record: RunRecord) -> str:
    """Say that all is done, or how many jobs are not over, and when that was."""
    if still := open_jobs(record):
        return f"{plural(still, 'job')} not over at {seconds(makespan_s(record))}"
    return f"all done at {seconds(makespan_s(record))}"


def claim(records: Sequence[RunRecord]) -> str:
    """One sentence that a stranger understands: what the last record shows against the first."""
    shown = records[-1]
    batch = f"{plural(len(shown.jobs), 'job')} on {plural(len(shown.nodes), 'node')}"
    if len(records) == 1 and (still := open_jobs(shown)):
        return (
            f"{batch} under {shown.policy}, {seconds(makespan_s(shown))} after the first submission: "
            f"{plural(still, 'job')} not over yet; the nodes were {_busy(shown)} so far."
        )
    if len(records) == 1:
        return f"{batch} under {shown.policy} took {seconds(makespan_s(shown))}; the nodes were {_busy(shown)}."
    base = records[0]
    before_s, after_s = makespan_s(base), makespan_s(shown)
    if before_s <= 0:
        return f"{batch}, {base.policy} and {shown.policy} compared."
    change = (after_s - before_s) / before_s
    verdict = "as long" if abs(change) < 0.005 else f"{percent(abs(change))} {'less' if change < 0 else 'more'} time"
    return (
        f"The same {batch}: {shown.policy} took {seconds(after_s)}, {verdict}"
        f"{' as' if abs(change) < 0.005 else ' than'} {base.policy} ({seconds(before_s)}); "
        f"its nodes were {_busy(shown)}, under {base.policy} {_busy(base)}."
    )


def _busy(record: RunRecord) -> str:
    return f"{percent(utilization(record))} busy"


def notes(records: Sequence[RunRecord]) -> list[str]:
    """Return each remark once; one that only some of the records carry says whose it is."""
    found = []
    for note in dict.fromkeys(note for record in records for note in record.notes):
        owners = [record.policy for record in records if note in record.notes]
        found.append(note if len(owners) == len(records) else f"{', '.join(owners)}: {note}")
    return found


def allocation(job: JobRecord) -> str:
    """Word the job's nodes over time: ``2→4→2``; the first ones and the last one, if there are many."""
    sizes = [str(count) for _, count in nodes_over_time(job)]
    if len(sizes) > _MOST_SIZES:
        return f"{'→'.join(sizes[: _MOST_SIZES // 2])}→...→{sizes[-1]} ({len(sizes)} sizes)"
    return "→".join(sizes) or NOTHING


def bounds(job: JobRecord) -> str:
    """Word the sizes that the job accepts: ``1-4`` or ``2``."""
    return f"{job.min_nodes}-{job.max_nodes}" if job.malleable else str(job.nodes)


def state(job: JobRecord) -> str:
    """Word the job's state with its reason, which often begins with it: ``cancelled while it waited``."""
    reason = one_line(job.reason)
    if not reason or reason.startswith(job.state):
        return reason or job.state
    return f"{job.state}: {reason}"


def verified(job: JobRecord) -> str:
    """Word the check of the job's result, as far as there is one to be checked."""
    unknown = NOTHING if job.result is None or "error" in job.result else "not checked"
    return {True: "yes", False: "NO", None: unknown}[job.verified]


def resize_times(resize: ResizeRecord) -> tuple[float | None, dict[str, float]]:
    """What a resize took, and its parts, in hundredths of a second that add up.

    It took what the scheduler saw, from the order to the outcome. The parts are the phases that the job measured, the
    program's own method at the end (``post``) included, and the rest: the order waits its turn, messages are under way.

    Returns:
        Seconds, None while it is under way; and the seconds of each part that took any, none if the job reported none.
    """
    if resize.done_s is None:
        return None, {}
    parts = {name: round(value_s, 2) for name, value_s in resize.phases.items()}
    inside_s = round(sum(parts.values()), 2)
    took_s = max(round(resize.done_s - resize.ordered_s, 2), inside_s)
    if parts:
        parts[OUTSIDE] = round(took_s - inside_s, 2)
    return took_s, {name: value_s for name, value_s in parts.items() if value_s > 0}


def phases(resize: ResizeRecord) -> str:
    """Word the seconds of the parts of a resize: ``spawn 0.21 + join 0.30``."""
    return " + ".join(f"{name} {value:.2f}" for name, value in resize_times(resize)[1].items()) or NOTHING


@dataclass(frozen=True)
class Number:
    """One of the five numbers of a report; ``before`` is the same under the policy compared with."""

    label: str
    value: str
    before: str = ""
    hint: str = ""


def five_numbers(records: Sequence[RunRecord]) -> list[Number]:
    """Makespan, utilization, mean wait, mean turnaround and resizes of the last record, against the first."""
    numbers = _five(records[-1])
    if len(records) == 1:
        return numbers
    policy = records[0].policy
    return [
        replace(one, before=f"{policy}: {base.value}") for one, base in zip(numbers, _five(records[0]), strict=True)
    ]


def _five(record: RunRecord) -> list[Number]:
    total = metrics(record)
    span = "first submission to now" if open_jobs(record) else "first submission to last end"
    return [
        Number("Makespan", seconds(total.makespan_s), hint=span),
        Number("Utilization", percent(total.utilization), hint=f"held by jobs, of {UTILIZATION_DENOMINATOR}"),
        Number("Mean wait", seconds(total.mean_wait_s), hint="submission to start"),
        Number("Mean turnaround", seconds(total.mean_turnaround_s), hint="submission to end"),
        Number("Resizes carried out", f"{total.grows} + {total.shrinks}", hint="grows + shrinks of running jobs"),
    ]


def result(job: JobRecord) -> str:
    """Word what the job computed: ``4,230,646,601``, ``3.14159``; its error where it failed."""
    if job.result is None:
        return NOTHING
    if "error" in job.result:
        return f"error: {job.result['error']}"
    value = job.result.get("result")
    if isinstance(value, dict):
        return ", ".join(f"{name} {_figure(part)}" for name, part in value.items())
    return NOTHING if value is None else _figure(value)


def _figure(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.10g}" if abs(value) < 10_000 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
