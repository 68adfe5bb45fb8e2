"""Log records that name their activity, and output whose lines stay whole."""

from __future__ import annotations

import gc
import io
import logging
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import PATIENCE_S

import apgas
from apgas.runtime import context, logs
from apgas.runtime.logs import TaggedOutput


@pytest.fixture(autouse=True)
def _logging_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    root = logging.getLogger()
    factory, handlers, level = logging.getLogRecordFactory(), root.handlers[:], root.level
    monkeypatch.setattr(logs, "settings", None)
    yield
    logging.setLogRecordFactory(factory)
    root.handlers[:] = handlers
    root.setLevel(level)


@context.runs("fn")
def run(fn: object) -> str:
    return context.activity() if fn else ""


def test_the_innermost_activity_is_found() -> None:
    assert context.activity() == "-"
    assert run(run) == "run"
    assert run("a text") == "a text"


def test_records_tell_place_and_activity_once_installed() -> None:
    logs.install()
    logs.install()
    record = logging.getLogRecordFactory()("name", logging.INFO, "path", 1, "text", (), None)
    assert vars(record)["place"] == vars(record)["activity"] == "-"


def test_a_library_may_say_place_and_activity_itself(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.install()
    monkeypatch.setattr(caplog.handler, "formatter", logging.Formatter("%(place)s|%(activity)s|%(message)s"))
    logging.getLogger("library").warning("one", extra={"activity": "download"})
    logging.getLogger("library").warning("two", extra={"place": "home", "size": 3})
    assert caplog.text == "-|download|one\nhome|-|two\n"
    with pytest.raises(KeyError, match="lineno"):
        logging.getLogger("library").warning("three", extra={"lineno": 3})
    assert type(vars(pickle.loads(pickle.dumps(caplog.records[0])))) is dict


def test_another_factory_is_kept() -> None:
    class Record(logging.LogRecord):
        pass

    logging.setLogRecordFactory(Record)
    logs.install()
    assert isinstance(logging.getLogRecordFactory()("name", logging.INFO, "path", 1, "text", (), None), Record)


@pytest.mark.parametrize(("text", "level"), [("debug", logging.DEBUG), ("15", 15), ("", logging.WARNING)])
def test_the_environment_sets_the_level(text: str, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    logging.getLogger().setLevel(logging.WARNING)
    monkeypatch.setenv(logs.ENV_LEVEL, text)
    logs.install()
    assert logging.getLogger().level == level


def test_what_was_configured_counts_more_than_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(logs.ENV_LEVEL, "debug")
    apgas.configure_logging("ERROR")
    logs.install()
    assert logging.getLogger().level == logging.ERROR


@pytest.mark.parametrize("level", ["debug", "DEBUG", logging.DEBUG])
def test_a_level_may_be_written_as_one_likes(level: int | str) -> None:
    apgas.configure_logging(level)
    assert logging.getLogger().level == logging.DEBUG


def test_an_unknown_level_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers = logging.getLogger().handlers[:]
    with pytest.raises(apgas.UsageError, match="LOUD"):
        apgas.configure_logging("LOUD")
    with pytest.raises(apgas.UsageError, match="logging cannot"):
        apgas.configure_logging("INFO", format="no record in it")
    assert logging.getLogger().handlers == handlers
    monkeypatch.setenv(logs.ENV_LEVEL, "loud")
    with pytest.raises(apgas.UsageError, match=r"APGAS_LOG_LEVEL.*loud"):
        logs.install()


def test_lines_are_tagged_when_they_are_complete() -> None:
    out = io.StringIO()
    tagged = TaggedOutput(out, "[place 3] ")
    print("one", 2, end="", file=tagged, flush=True)
    assert out.getvalue() == ""
    print(" three\nfour\n\nfi", end="", file=tagged)
    assert out.getvalue() == "[place 3] one 2 three\n[place 3] four\n[place 3] \n"
    tagged.finish()
    tagged.finish()
    assert out.getvalue().endswith("\n[place 3] fi\n")


def test_threads_do_not_tear_lines_apart() -> None:
    out = io.StringIO()
    tagged = TaggedOutput(out, "")
    together = threading.Barrier(2)

    def say(word: str) -> None:
        for _ in range(50):
            tagged.write(word)
            together.wait(PATIENCE_S)
            tagged.write(f"{word}\n")

    threads = [threading.Thread(target=say, args=(word,)) for word in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(out.getvalue().split()) == ["aa"] * 50 + ["bb"] * 50


class _Saying:
    """Says so when the collector finds it."""

    def __init__(self, where: TaggedOutput) -> None:
        self._where = where
        self._me = self

    def __del__(self) -> None:
        self._where.write("collected\n")


class _Collecting(io.StringIO):
    """Has the collector run within a write."""

    def write(self, text: str) -> int:
        gc.collect()
        return super().write(text)


def test_a_finalizer_may_print_within_a_write() -> None:
    out = _Collecting()
    tagged = TaggedOutput(out, "[place 3] ")

    def say() -> None:
        _Saying(tagged)
        tagged.write("one\n")

    thread = threading.Thread(target=say, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert sorted(out.getvalue().splitlines()) == ["[place 3] collected", "[place 3] one"]


_FORKS = """
import os, signal, sys, threading
from apgas.runtime import logs

def hold():
    with sys.stdout._lock:
        held.set()
        forked.wait()

logs.tag_output(3)
print("the parent", end=" ")
held, forked = threading.Event(), threading.Event()
threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    print("the child")
    os._exit(0)
forked.set()
os.waitpid(child, 0)
print("goes on")
"""


def test_a_forked_child_may_print_whatever_other_threads_did() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FORKS],
        env=os.environ | {"APGAS_TAG_OUTPUT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[place 3] the child\n[place 3] the parent goes on\n", done.stderr


def test_tagged_output_is_like_the_stream(tmp_path: Path) -> None:
    with (tmp_path / "said").open("w", encoding="ascii", errors="replace") as stream:
        tagged = TaggedOutput(stream, "")
        tagged.reconfigure(errors="ignore")
        assert (tagged.name, tagged.mode, tagged.errors) == (stream.name, "w", "ignore")
        assert not hasattr(tagged, "colour")
