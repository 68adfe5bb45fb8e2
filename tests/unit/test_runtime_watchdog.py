"""What the second of a place says, and when it keeps quiet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SAID = "apgas: place 7 (node, pid 1) died{}; the job ends\n"
BEGIN = "import os, sys; from apgas.runtime import watchdog; watchdog.start_second('place 7 (node, pid 1)')\n"


def ended(code: str, tmp_path: Path, environ: dict[str, str] | None = None) -> tuple[str, str]:
    """What a process that runs ``code`` and its second have said, and what the process manager got."""
    ours, theirs = os.pipe()
    said = tmp_path / "said"
    with said.open("wb") as err:
        place = subprocess.Popen(
            [sys.executable, "-c", BEGIN + code],
            env={**os.environ, "PMI_FD": str(theirs), **(environ or {})},
            pass_fds=[theirs],
            stderr=err,
        )
    os.close(theirs)
    with os.fdopen(ours, encoding="utf-8") as manager:
        heard = manager.read()  # until the second has ended; only then is the process asked how it ended
    place.wait()
    return said.read_text(encoding="utf-8"), heard


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("os._exit(0)", ": exit code 0"),
        ("os._exit(3)", ": exit code 3"),
        ("os.kill(os.getpid(), 9)", ": signal 9"),
        ("os.kill(os.getpid(), 11)", ": signal 11"),
        ("if not os.fork(): os._exit(5)\nos.wait(); os._exit(4)", ": exit code 4"),
    ],
)
def test_the_end_of_a_place_without_a_word_aborts_the_job(code: str, how: str, tmp_path: Path) -> None:
    assert ended(code, tmp_path) == (SAID.format(how), "cmd=abort exitcode=1\n")


@pytest.mark.parametrize(
    ("code", "environ"),
    [
        ("watchdog.dismiss_second()", {}),
        ("watchdog.dismiss_second(); watchdog.dismiss_second(); os._exit(3)", {}),
        ("os._exit(3)", {"PMI_FD": ""}),
        ("if not os.fork(): os._exit(5)\nos.wait(); watchdog.dismiss_second()", {}),
    ],
)
def test_a_second_keeps_quiet(code: str, environ: dict[str, str], tmp_path: Path) -> None:
    assert ended(code, tmp_path, environ) == ("", "")
