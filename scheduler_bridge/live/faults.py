"""Where the scheduler can be made to die, for tests of what survives that.

``MALLEABLE_CRASH_AT=17`` has the process killed, as by ``kill -9``, when it passes the 17th such point.
"""

from __future__ import annotations

import itertools
import os
import signal
from typing import Final

ENV_CRASH_AT: Final = "MALLEABLE_CRASH_AT"

_counter = itertools.count(1)
_at = int(os.environ.get(ENV_CRASH_AT) or 0)


def point() -> None:
    """A point at which the scheduler may die."""
    if _at and next(_counter) == _at:
        os.kill(os.getpid(), signal.SIGKILL)
