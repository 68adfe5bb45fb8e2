"""The contenders' loops, and the conversation."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from types import SimpleNamespace

import pytest
from support import PATIENCE_S

import apgas
from benchmarks.compare.child import Child, ContenderFailed
from benchmarks.compare.command_line import RunProgress
from benchmarks.compare.contender import WARM_UP, Ends, per_second, timed
from benchmarks.compare.engine import Contenders, Stage
from benchmarks.overheads.__main__ import plan
from benchmarks.overheads.catalogue import MEASURES
from benchmarks.overheads.ours import LIMIT_S, PERIOD_S, Resizer, share_done

SERVE = """
from benchmarks.compare.contender import Channel
import subprocess

def broken(command):
    raise ValueError("broken")

channel = Channel()
print("said by the way", flush=True)
subprocess.run(["sh", "-c", "cat; echo by a child"])  # neither takes a command away nor mixes with the answers
channel.serve({"twice": lambda command: {"value": 2 * command["n"]}, "broken": broken})
"""


def test_calls_are_timed_so_many_times_after_a_warm_up() -> None:
    calls: list[None] = []
    assert len(timed(lambda: calls.append(None), 5, 60.0)) == 5
    assert len(calls) == 5 + WARM_UP


def test_slow_calls_are_timed_at_least_once() -> None:
    calls: list[None] = []
    assert len(timed(lambda: calls.append(None), 5, 0.0)) == 1
    assert len(calls) == 2


def test_throughput_is_that_of_a_batch_as_large_as_time_allows() -> None:
    batches: list[int] = []
    assert per_second(batches.append, 5000, 60.0) > 0
    assert batches == [100, 100, 5000]
    batches.clear()
    assert per_second(batches.append, 5000, 0.0) > 0
    assert batches == [100, 100, 100]


def test_units_in_the_spans_are_counted() -> None:
    done = [n * PERIOD_S for n in range(100) if not 20 <= n < 30]
    half = PERIOD_S / 2
    assert share_done(done, [(0 - half, 20 * PERIOD_S - half)]) == pytest.approx(1)
    assert share_done(done, [(20 * PERIOD_S - half, 30 * PERIOD_S - half)]) == 0
    spans = [(10 * PERIOD_S - half, 30 * PERIOD_S - half), (40 * PERIOD_S - half, 60 * PERIOD_S - half)]
    assert share_done(done, spans) == pytest.approx(0.75)


def test_an_order_that_is_refused_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[object] = []
    monkeypatch.setattr(apgas, "define_malleable_handler", lambda _: None)
    monkeypatch.setattr(apgas, "resizes", lambda: records)
    refused = SimpleNamespace(outcome="refused", reason="there is no room")
    monkeypatch.setattr(apgas, "schedule_orders", lambda _: records.append(refused))
    began_s = time.monotonic()
    with pytest.raises(RuntimeError, match=r"\+1 was not carried out, refused: there is no room"):
        Resizer().grow(1)
    assert time.monotonic() - began_s < LIMIT_S / 2


def test_the_end_of_processes_is_waited_for() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process, Ends([process.pid]) as ends:
        with pytest.raises(TimeoutError):
            ends.wait(0.01)
        process.kill()
        ends.wait(PATIENCE_S)


def test_the_conversation_is_not_disturbed_by_what_else_is_printed() -> None:
    commands = (
        '{"measure": "twice", "n": 4}\n{"measure": "broken"}\n{"measure": "other"}\n{"measure": "twice", "n": 5}\n'
    )
    done = subprocess.run(
        [sys.executable, "-c", SERVE],
        input=commands,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert done.stdout.splitlines() == [
        '{"ready": true}',
        '{"value": 8}',
        '{"error": "ValueError: broken"}',
        '{"error": "KeyError: \'other\'"}',
        '{"value": 10}',
    ]
    assert "said by the way\nby a child\n" in done.stderr


def test_progress_elsewhere_is_a_line_per_measure(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    with RunProgress(4, quiet=False, clock=lambda: now[0]) as display:
        display.begin("rtt", "ours, rounds: 1")
        display.step("round 1 of 1, ours")
        display.step("round 1 of 1, raw socket")
        now[0] = 3.0
        display.begin("echo", "ours, rounds: 1")
    assert capsys.readouterr().err.splitlines() == [
        "rtt: ours, rounds: 1 · 0 s",
        "echo: ours, rounds: 1 · 3 s · 50 %, about 3 s left",
    ]


def test_quiet_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with RunProgress(4, quiet=True) as display:
        display.begin("rtt", "ours, rounds: 1")
        display.step("round 1 of 1, ours")
    assert capsys.readouterr() == ("", "")


def test_the_idle_program_of_the_mpi_transport_gets_it_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str | None] = []

    def start(_: object, __: object, env: Mapping[str, str], ___: object) -> Child:
        started.append(env.get("APGAS_TRANSPORT"))
        raise ContenderFailed("it was not to be started")

    monkeypatch.setattr(Contenders, "start", start)
    chosen = plan(1, "idle,idle-mpi", "")
    with Stage("overheads", RunProgress(1, quiet=True)) as stage:
        monkeypatch.setattr(time, "sleep", lambda _: None)
        chosen.measure(stage)
    assert started == [None, "mpi"]


def test_growing_with_numba_is_measured_as_often_as_growing() -> None:
    sizes = {name: [case.command["n"] for case in MEASURES[name].cases] for name in ("resize", "numba")}
    assert sizes["numba"] == sizes["resize"] == [1, 2, 4, 8]
