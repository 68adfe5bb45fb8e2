"""Who takes a signal once the program has ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from apgas.runtime import process


@pytest.fixture
def before() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def heard_and_not_any_more() -> None:
    process.handle_signals(lambda *_: None)()


@pytest.mark.usefixtures("before")
def test_without_mpiexec_term_does_what_it_always_did(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PMI")]:
        monkeypatch.delenv(name)
    heard_and_not_any_more()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.usefixtures("before")
def test_under_mpiexec_term_gives_the_code_of_shells_but_not_to_forked_children(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PMI_RANK", "0")
    heard_and_not_any_more()
    for forked, code in ((False, 143), (True, -signal.SIGTERM)):
        child = os.fork()
        if child == 0:
            if not forked:  # as if it were the place itself
                signal.signal(signal.SIGTERM, process._default(signal.SIGTERM))
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code


@pytest.mark.usefixtures("before")
def test_a_handler_of_the_program_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def own(*_: object) -> None:
        """What the program does."""

    monkeypatch.setenv("PMI_RANK", "0")
    signal.signal(signal.SIGTERM, own)
    heard_and_not_any_more()
    assert signal.getsignal(signal.SIGTERM) is own
