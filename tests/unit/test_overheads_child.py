"""A contender as the parent sees it: answers, deadlines, last words, and that nothing of it is left."""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import PATIENCE_S

from benchmarks.compare.child import MARK, Child, ContenderFailed, cpu_s
from benchmarks.compare.contender import Config, memory
from benchmarks.overheads.catalogue import keep_bytecode
from scheduler_bridge.jobrunner.processes import marked_processes

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
STUBBORN = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
said = "import time; print('{}', flush=True); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", said], start_new_session=True)
while True: signal.pause()
"""
Start = Callable[[str], Child]


@pytest.fixture
def start() -> Iterator[Start]:
    children: list[Child] = []

    def begin(program: str) -> Child:
        child = Child([sys.executable, "-c", program], os.environ, uuid.uuid4().hex)
        children.append(child)
        return child

    yield begin
    for child in children:
        child.end(0)
        assert child.processes() == []


def test_a_command_is_answered(start: Start) -> None:
    child = start(ECHO)
    child.send({"measure": "rtt", "n": 5})
    assert child.answer(PATIENCE_S) == {"measure": "rtt", "n": 5}
    child.finish()
    with pytest.raises(ContenderFailed, match="it has ended"):
        child.answer(PATIENCE_S)


def test_lines_that_are_no_answer_are_passed_over(start: Start) -> None:
    assert start("print('hello'); print('{\"t_s\": 1}')").answer(PATIENCE_S) == {"t_s": 1}


def test_an_error_is_a_failure(start: Start) -> None:
    with pytest.raises(ContenderFailed, match="no such thing"):
        start('print(\'{"error": "no such thing"}\')').answer(PATIENCE_S)


def test_one_that_does_not_answer_has_failed(start: Start) -> None:
    with pytest.raises(ContenderFailed, match="no answer in time"):
        start("import time; time.sleep(600)").answer(0.01)


def test_the_end_comes_with_its_last_words(start: Start) -> None:
    child = start("import missing_module")
    for _ in range(2):
        with pytest.raises(
            ContenderFailed, match="it has ended: ModuleNotFoundError: No module named 'missing_module'"
        ):
            child.answer(PATIENCE_S)


def test_one_that_will_not_end_is_killed_with_all_that_it_started(start: Start) -> None:
    child = start(STUBBORN)
    child.answer(PATIENCE_S)
    assert len(child.processes()) == 2
    child.terminate()
    child.end(0)
    assert child.processes() == []


def test_what_ends_a_little_later_is_let_to(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.compare.child.TERM_S", PATIENCE_S)  # on a busy machine it may be much later
    goodbye = tmp_path / "goodbye"
    # slow to end on purpose: it must be waited for, however long it takes within the limit
    script = f"echo '{{}}'; while kill -0 $PPID 2>/dev/null; do sleep 0.01; done; sleep 0.3 && : > {goodbye}"
    child = start(f"import subprocess; subprocess.Popen(['sh', '-c', {script!r}]); input()")
    child.answer(PATIENCE_S)
    child.end()
    assert goodbye.exists()


def test_a_mark_covers_the_marks_that_begin_with_it() -> None:
    run = uuid.uuid4().hex
    child = Child([sys.executable, "-c", ECHO], os.environ, f"{run}.1.")
    try:
        child.send({})
        assert child.answer(PATIENCE_S) == {}
        assert marked_processes(run, MARK) == child.processes() != []
        assert marked_processes(f"{run}.2.", MARK) == []
    finally:
        child.end()


def test_cpu_time_and_memory_of_a_process_are_seen() -> None:
    before_s = cpu_s([os.getpid()])
    sum(range(1_000_000))
    assert cpu_s([os.getpid()]) > before_s
    found = memory()
    assert 0 < found["pss_bytes"] <= found["rss_bytes"]


def test_the_config_survives_the_command_line() -> None:
    assert Config(*json.loads(json.dumps(Config(8, [0, 1])))) == Config(8, [0, 1])


def test_our_packages_are_compiled_as_those_of_the_others_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    keep_bytecode(["apgas.malleability"])
    assert [path.name.split(".")[0] for path in tmp_path.rglob("orders.*.pyc")] == ["orders"]
