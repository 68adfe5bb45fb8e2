"""Log records that tell their activity, and output whose lines stay whole."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator

import pytest

import apgas
from apgas.runtime import logs, naming
from apgas.runtime.outputs import TaggedOutput


@pytest.fixture(autouse=True)
def _logging_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    root = logging.getLogger()
    factory, handlers, level = logging.getLogRecordFactory(), root.handlers[:], root.level
    monkeypatch.setattr(logs, "_settings", None)
    yield
    logging.setLogRecordFactory(factory)
    root.handlers[:] = handlers
    root.setLevel(level)


@naming.runs("fn")
def run(fn: object) -> str:
    return naming.activity() if fn else ""


def test_the_innermost_activity_is_found() -> None:
    assert naming.activity() == "-"
    assert run(run) == "run"
    assert run("a text") == "a text"


def test_records_tell_place_and_activity_once_installed() -> None:
    logs.install()
    logs.install()
    record = logging.getLogRecordFactory()("name", logging.INFO, "path", 1, "text", (), None)
    assert vars(record)["place"] == vars(record)["activity"] == "-"


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


def test_an_unknown_level_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(apgas.UsageError, match="LOUD"):
        apgas.configure_logging("LOUD")
    with pytest.raises(apgas.UsageError, match="logging cannot"):
        apgas.configure_logging("INFO", format="no record in it")
    monkeypatch.setenv(logs.ENV_LEVEL, "loud")
    with pytest.raises(apgas.UsageError, match=r"APGAS_LOG_LEVEL.*LOUD"):
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
            together.wait(20)
            tagged.write(f"{word}\n")

    threads = [threading.Thread(target=say, args=(word,)) for word in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(out.getvalue().split()) == ["aa"] * 50 + ["bb"] * 50
