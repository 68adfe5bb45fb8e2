"""What ``malleable queue --watch`` shows."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.cells import cell_len
from support.clusters import Cluster

from scheduler_bridge.cli import queue
from scheduler_bridge.cli.terminal import Terminal
from scheduler_bridge.daemon import ControlError, Snapshot


def shown(snapshot: Snapshot, height: int = 24, width: int = 150) -> str:
    console = Terminal(file=io.StringIO(), width=width)
    with console.capture() as captured:
        console.print(queue.picture(snapshot, lambda job: job.end_s is None, width, height))
    return captured.get()


def busy() -> Cluster:
    cluster = Cluster()
    cluster.submit("first", 4, 4, reason="it needs 4 nodes, 2 are free")
    grower = cluster.submit("grower", 1, 3)
    cluster.now_s = 10.0
    cluster.start(grower, "node1", "node2")
    cluster.now_s = 20.0
    return cluster


def test_the_summary_counts_nodes_and_jobs() -> None:
    cluster = busy()
    cluster.fail("node4")
    assert queue.summary(cluster.snapshot()) == (
        "malleable: 2 busy, 1 idle, 1 down; 1 running, 1 waiting; 67 % busy now, 25 % since the start"
    )


def test_running_jobs_come_first_and_the_reasons_are_there() -> None:
    lines = shown(busy().snapshot()).splitlines()
    assert [line.split()[1] for line in lines[3:5]] == ["grower", "first"]
    assert "it needs 4 nodes, 2 are free" in lines[4]


def test_what_does_not_fit_is_counted() -> None:
    cluster = Cluster()
    for _ in range(50):
        cluster.submit()
    lines = shown(cluster.snapshot(), height=20).splitlines()
    assert len(lines) <= 20
    assert lines[-1].strip() == "and 34 more jobs"


@pytest.mark.parametrize("width", [70, 80, 100, 140])
def test_narrow_terminals_show_who_and_the_whole_reason(width: int) -> None:
    cluster = busy()
    for number in range(20):
        name = "a-job-with-a-name-of-many-words" if number % 2 else "\u957f\u540d\u5b57" * 8
        cluster.submit(name, 4, 4, reason="it would delay job 1: 4 nodes are reserved for job 1, none is spare")
    lines = shown(cluster.snapshot(), height=24, width=width).splitlines()
    assert len(lines) <= 24
    assert all(cell_len(line) <= width for line in lines)
    text = " ".join(" ".join(lines).split())
    for words in ("it needs 4 nodes, 2 are free", "4 nodes are reserved for job 1, none is spare", "NODES", "WAIT s"):
        assert words in text
    first = next(line for line in lines if line.split()[:2] == ["1", "first"])
    assert "waiting" in first
    listed = [line for line in lines if line.lstrip()[:1].isdigit() and ("waiting" in line or "running" in line)]
    assert len(listed) + int(lines[-1].split()[1]) == 22, "every job is shown or counted"


def test_a_job_without_a_remark_takes_one_line() -> None:
    cluster = Cluster()
    for _ in range(5):
        cluster.submit("a-job-with-a-name-of-many-words", reason="")
    cluster.submit("first", 4, 4, reason="it needs 4 nodes, 2 are free")
    lines = shown(cluster.snapshot(), width=80).splitlines()
    assert len(lines[lines.index("") :]) == 2 + 5 + 2


def test_an_empty_queue_says_so() -> None:
    assert "no job waits or runs" in shown(Cluster().snapshot())


def test_changes_are_printed_once() -> None:
    cluster = busy()
    first = cluster.snapshot()
    assert queue.changes(None, first) == [
        "20.0 s: job 1 first: waiting: it needs 4 nodes, 2 are free",
        "20.0 s: job 2 grower: running on 2 nodes",
    ]
    assert queue.changes(first, first) == []
    cluster.now_s = 25.0
    cluster.grow(2, "node3")
    grown = cluster.snapshot()
    assert queue.changes(first, grown) == ["25.0 s: job 2 grower: running on 3 nodes"]
    cluster.end(2)
    assert queue.changes(grown, cluster.snapshot()) == ["25.0 s: job 2 grower: completed"]
    assert len(queue.changes(None, cluster.snapshot())) == 1, "who comes late hears of open jobs only"


class Client:
    """Answers in turn; then the user presses Ctrl-C."""

    def __init__(self, *answers: Snapshot | ControlError) -> None:
        self._answers = list(answers)

    def snapshot(self) -> Snapshot:
        if not self._answers:
            raise KeyboardInterrupt
        answer = self._answers.pop(0)
        if isinstance(answer, ControlError):
            raise answer
        return answer


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], io.StringIO]:
    def made(real: bool) -> io.StringIO:
        file = io.StringIO()
        monkeypatch.setattr(queue, "INTERVAL_S", 0.0)
        monkeypatch.setattr(
            queue, "Terminal", lambda **_: Terminal(file=file, force_terminal=real, width=150, height=24)
        )
        return file

    return made


def watched(client: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        queue.watch_queue(client, lambda job: job.end_s is None)


def test_it_waits_for_a_scheduler_that_is_gone(terminal: Callable[[bool], io.StringIO]) -> None:
    file = terminal(True)
    cluster = busy()
    watched(Client(cluster.snapshot(), ControlError("no scheduler serves here"), Cluster().snapshot()))
    text = file.getvalue()
    assert text.index("grower") < text.index("no scheduler serves here") < text.index("no job waits or runs")
    assert text.rindex("grower") < text.index("no scheduler serves here"), "what it said last is not shown once more"


def test_off_a_terminal_it_waits_as_well(
    terminal: Callable[[bool], io.StringIO], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(False)
    cluster = busy()
    first, gone = cluster.snapshot(), ControlError("no scheduler serves here")
    cluster.end(2)
    watched(Client(first, gone, gone, cluster.snapshot(), gone))
    said = "no scheduler serves here; waiting for it to come back (Ctrl-C ends this)"
    assert capsys.readouterr().out.splitlines()[2:] == [said, "20.0 s: job 2 grower: completed", said]


def test_off_a_terminal_there_are_plain_lines(
    terminal: Callable[[bool], io.StringIO], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(False)
    cluster = busy()
    first = cluster.snapshot()
    cluster.end(2)
    watched(Client(first, first, cluster.snapshot()))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.splitlines()[-1] == "20.0 s: job 2 grower: completed"
    assert len(out.splitlines()) == 3
