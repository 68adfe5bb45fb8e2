"""Python imports this at its start when its folder is on the path: a job that hangs can be asked what it is doing."""

import faulthandler
import os
import signal

if "MALLEABLE_TEST_STACKS" in os.environ:
    # a file, for what is written to the standard error goes through launchers, which may hang, too
    stacks = open(os.environ["MALLEABLE_TEST_STACKS"], "a")  # noqa: PTH123, SIM115 - stays open, and has to be quick
    faulthandler.register(signal.SIGRTMIN + 5, stacks, all_threads=True)
