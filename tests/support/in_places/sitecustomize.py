"""Python imports this at its start when its folder is on the path.

A job that hangs can be asked what it is doing, and newcomers can be made slow to load what they need.
"""

import faulthandler
import os
import signal
import sys
import time

if "MALLEABLE_TEST_STACKS" in os.environ:
    # a file, for what is written to the standard error goes through launchers, which may hang, too
    stacks = open(os.environ["MALLEABLE_TEST_STACKS"], "a")  # noqa: PTH123, SIM115 - stays open, and has to be quick
    faulthandler.register(signal.SIGRTMIN + 5, stacks, all_threads=True)

if "MALLEABLE_TEST_SLOW_NEWCOMERS" in os.environ and "PMI_SPAWNED" in os.environ:

    class Slow:
        """Finds nothing, and takes its time to look for what a newcomer loads when it has reported."""

        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            """See ``importlib.abc.MetaPathFinder``."""
            if name == "apgas.runtime.process":
                time.sleep(float(os.environ["MALLEABLE_TEST_SLOW_NEWCOMERS"]))

    sys.meta_path.insert(0, Slow)
