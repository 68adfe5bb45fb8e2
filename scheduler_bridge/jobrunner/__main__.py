"""Entry point of a runner: the launch comes on standard input, news go to standard output while the daemon listens."""

from __future__ import annotations

import contextlib
import os
import sys

from scheduler_bridge.jobrunner.run import JobRun, Launch

OTHER_RUNNER = 3
"""Exit status: another runner has taken the attempt."""


def _report(word: str) -> None:
    with contextlib.suppress(OSError):  # The scheduler may be gone; it reads the notes when it is back.
        os.write(1, f"{word}\n".encode())


def main() -> int:
    """Run the job that standard input describes."""
    launch = Launch.decode(sys.stdin.buffer.read())
    try:
        return 0 if JobRun(launch, _report).run() else OTHER_RUNNER
    except OSError as error:  # The claim or the end could not be noted.
        _report(f"failed {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
