"""A link between two programs, which can be cut: relays the streams of the rest of its arguments until SIGUSR1.

Then it carries nothing more, and closes nothing, as a cable that was pulled out.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

cut = threading.Event()


def carry(reading: int, writing: int) -> None:
    while data := os.read(reading, 1 << 16):
        if cut.is_set():
            threading.Event().wait()
        while data:
            data = data[os.write(writing, data) :]
    if cut.is_set():
        threading.Event().wait()
    os.close(writing)


signal.signal(signal.SIGUSR1, lambda *_: cut.set())
program = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
assert program.stdin is not None
assert program.stdout is not None
threading.Thread(target=carry, args=(0, program.stdin.fileno()), daemon=True).start()
threading.Thread(target=carry, args=(program.stdout.fileno(), 1), daemon=True).start()
program.wait()
if cut.is_set():
    threading.Event().wait()
