"""What a job or a user says reaches no terminal, log, table or page of others but as printable text."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path

import msgspec
import pytest
from rich.console import Group
from rich.text import Text
from support import hostile

from apgas.malleability import orders as wire
from scheduler_bridge.cli import terminal
from scheduler_bridge.cli.common import CliError, print_json, print_pieces, print_rich, say, show
from scheduler_bridge.cli.queue import changes, picture, queue_lines
from scheduler_bridge.cli.results import explained
from scheduler_bridge.core import Explanation, JobState, JobStatus, Snapshot
from scheduler_bridge.core.history import Moment
from scheduler_bridge.daemon.config import Limits
from scheduler_bridge.daemon.jobs.session import Heard, JobLink, OpenOrder, Session
from scheduler_bridge.daemon.jobs.template import check_command, result_of
from scheduler_bridge.daemon.requests import JobRequest, SubmitError
from scheduler_bridge.daemon.storage.state import StateFolder
from scheduler_bridge.printable import lines_of, one_line, printable
from scheduler_bridge.report.page import escape

TOKEN = "t" * 32
ROW = JobStatus(
    job=1, name="a", user="u", job_class="rigid", state="running", nodes=("n",), wanted_nodes=1, min_nodes=1,
    max_nodes=1, walltime_s=1.0, submit_s=0.0, start_s=0.0, end_s=None, grows=0, shrinks=0,
)  # fmt: skip


@pytest.mark.parametrize("character", hostile.CHARACTERS, ids=lambda each: f"{ord(each):04x}")
def test_each_character_is_escaped(character: str) -> None:
    assert printable(f"a{character}b").isprintable()
    assert one_line(f"a{character}b").isprintable()
    assert lines_of({f"{character}a": [f"{character}b", 1, None, True]}).keys() <= {one_line(f"{character}a")}


def test_what_can_be_shown_stays() -> None:
    assert printable("größer 日本 ↔ 😀 ~") == "größer 日本 ↔ 😀 ~"
    assert printable("\x1b[31m\udc80\u202e") == r"\x1b[31m\udc80\u202e"
    assert one_line(" a\n\tb\x1bc ") == r"a b\x1bc"


@pytest.mark.parametrize(
    "message",
    [
        wire.Progress(done=1.0, unit="\x1b]0;\n\x9b\u202e"),
        wire.Deferred(order=1, reason=hostile.text()[:3000]),
        wire.Outcome(order=1, kind="shrink", outcome="refused", reason=hostile.text()[:3000]),
        wire.Outcome(order=1, kind="shrink", outcome="done", nodes=("b",), phases={"\x1b[2J\n": 1.0}),
        wire.Lost(loss=1, nodes=("b",), reason=hostile.text()[:3000]),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_a_job_says_is_one_line(message: wire.Message) -> None:
    link = JobLink(0, TOKEN, frozenset({"a", "b"}), phase="ready", open=OpenOrder(1, "shrink", 1, ()))
    session = Session({0: link}, Limits(), 0.0)
    session.receive(wire.encode(wire.Hello(version=2, job=0, token=TOKEN)), 0.0)
    [heard] = session.receive(wire.encode(message), 0.0)
    assert isinstance(heard, Heard)
    assert not _unprintable(msgspec.to_builtins(heard.message))


@pytest.mark.parametrize("field", ["name", "user", "reservation"])
def test_a_name_that_is_no_line_is_refused(field: str) -> None:
    request = msgspec.structs.replace(JobRequest(name="a", command=("/bin/true",)), **{field: "a\x1b[2J"})
    with pytest.raises(SubmitError, match="cannot be printed") as caught:
        check_command(request)
    assert caught.value.field == field
    assert str(caught.value).isprintable()


def test_a_result_is_one_line(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    document = {"result": {"\x1b[2J": "\n\x9b"}, "verified": True, "error": hostile.text()[:200]}
    folder.result("1.1").write_text(json.dumps(document))
    found = result_of("1.1", folder)
    folder.close()
    assert found
    assert not _unprintable(found)


def test_a_terminal_is_given_nothing_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    text = hostile.text() + "[red][/nothing]:smile:"
    job = msgspec.structs.replace(ROW, name=text, user=text, reason=text, progress_unit=text, progress=1.0)
    idle = msgspec.structs.replace(job, progress=None)
    snapshot = Snapshot(now_s=1.0, policy="p", utilization=0.0, nodes=(), jobs=(job, idle))
    print_rich(Group(*queue_lines([idle], 1.0, None).jobs[0], picture(snapshot, lambda _: True, 80, 50)))
    for line in changes(None, snapshot):
        print_rich(Text(line))
    explanation = Explanation(1, "a", JobState.QUEUED, 0.0, text, (), None, (), (Moment(0.0, 1, text, ()),))
    print_pieces(explained(explanation))
    show(CliError(one_line(text), one_line(text), one_line(text)))
    say(one_line(text))
    captured = capsys.readouterr()
    hostile.assert_harmless(captured.out)
    hostile.assert_harmless(captured.err)
    print_json({"text": text})
    shown = capsys.readouterr().out
    hostile.assert_harmless(shown)
    assert json.loads(shown)["text"] == text
    assert "[/nothing]:smile:" in captured.out


def test_a_terminal_gets_its_own_codes_only() -> None:
    file = io.StringIO()
    console = terminal.Terminal(file=file, force_terminal=True, color_system="standard")
    console.print(Text("\x1b]0;title\x07\x9b2J", style="bold red"))
    assert file.getvalue() == "\x1b[1;31m" + r"\x1b]0;title\x9b2J" + "\x1b[0m\n"


def test_a_log_is_given_nothing_of_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    terminal.log_to_stderr("%(message)s", quiet=False)
    logging.getLogger("x").warning("job is ended: %s", hostile.text())
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        logging.getLogger("x").exception("a job")
    written = capsys.readouterr().err
    hostile.assert_harmless(written)
    assert written.splitlines()[0].startswith("job is ended: ")
    assert written.endswith("ValueError: \\x1b[2J\n")


def test_a_page_is_given_nothing_of_it() -> None:
    shown = escape(one_line(hostile.text()) + "\x1b<b>")
    hostile.assert_harmless(shown)
    assert shown.endswith(r"\x1b&lt;b&gt;")


def _unprintable(value: object) -> set[str]:
    """The texts in a value that are no printable line."""
    match value:
        case str():
            return set() if value.isprintable() else {value}
        case dict():
            return set().union(*map(_unprintable, value), *map(_unprintable, value.values()))
        case list() | tuple():
            return set().union(*map(_unprintable, value))
        case _:
            return set()
