"""How places that ``apgas.launch`` starts find each other: through the launcher, without MPI.

All that the tcp plane needs of MPI is to exchange a few words at the start, and to start newcomers. The launcher can do
both, and is proven to all. Between hosts, MPI would listen on an address of the network in each place, and obey every
caller. On one machine a start with it takes twice the CPU time (32 places: 4.9 s, without it 2.4 s), and
MPICH 5.0 ends a job whose processes have numbers of unequal length, such as 9,999 and 10,000, for these are in its
addresses there ("Message truncated" in ``MPIDI_OFI_comm_addr_exchange``).
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from apgas.runtime import environment

FIRST: Final = 0
"""The launcher's number of place 0."""
_PIECE_BYTES: Final = 4096
"""A line with so much goes through a socket as a whole, whatever other threads say there."""


def usable() -> bool:
    """Whether the first places of this job begin without MPI."""
    return (
        environment.launched_by(os.environ).kind == "launch"
        and environment.transport() == "tcp"
        and "mpi4py.MPI" not in sys.modules  # then it listens already, by the program's own wish
    )


class Line:
    """The stream to the launcher."""

    def __init__(self) -> None:
        self._fd = int(os.environ["PMI_FD"])
        self._unread = b""
        self._lock = threading.Lock()
        self._ask("cmd=init pmi_version=1 pmi_subversion=1")

    def tell(self, number: int, what: object) -> None:
        """Send something to the process of this number; what one that is gone would get is lost."""
        words = pickle.dumps(what)
        for begin in range(0, len(words), _PIECE_BYTES):
            end = begin + _PIECE_BYTES
            self._write(f"cmd=tell to={number} more={int(end < len(words))} words={words[begin:end].hex()}\n")

    def hear(self, number: int) -> Any:
        """Wait for what the process of this number has sent us.

        Raises:
            EOFError: It is gone.
        """
        words, more = b"", "1"
        while more == "1":
            answer = self._ask(f"cmd=hear of={number}")
            if answer.get("rc") != "0":
                raise EOFError
            words, more = words + bytes.fromhex(answer["words"]), answer["more"]
        return pickle.loads(words)

    def exchange(self, mine: Any) -> list[Any]:
        """Return what each process of the first world gives, in their order.

        Raises:
            EOFError: One of them is gone.
        """
        others = range(1, int(os.environ["PMI_SIZE"]))
        if int(os.environ["PMI_RANK"]) != FIRST:
            self.tell(FIRST, mine)
            everyone: list[Any] = self.hear(FIRST)
            return everyone
        everyone = [mine, *(self.hear(number) for number in others)]
        for number in others:
            self.tell(number, everyone)
        return everyone

    def spawn(self, words: Sequence[str], nodes: Sequence[str], folder: str, loads: str) -> range | None:
        """Start a process for each of ``nodes``; return their numbers, None if the launcher cannot: it has said why.

        What a fork server has to load, to do what ``words`` say, is in ``loads``.
        """
        for place, node in enumerate(nodes, start=1):
            hints = {"wdir": folder} | ({"host": node} if node else {}) | ({"apgas_loads": loads} if place == 1 else {})
            lines = ["mcmd=spawn", "nprocs=1", f"execname={words[0]}"]
            lines += [f"totspawns={len(nodes)}", f"spawnssofar={place}"]
            lines += [f"arg{index}={word}" for index, word in enumerate(words[1:], start=1)]
            lines += [f"argcnt={len(words) - 1}", "preput_num=0", f"info_num={len(hints)}"]
            for index, (name, value) in enumerate(hints.items()):
                lines += [f"info_key_{index}={name}", f"info_val_{index}={value}"]
            self._write("\n".join([*lines, "endcmd\n"]))
        answer = self._read()
        if answer.get("rc") != "0":
            return None
        first = int(answer["first"])
        return range(first, first + len(nodes))

    def _ask(self, request: str) -> dict[str, str]:
        self._write(f"{request}\n")
        return self._read()

    def _write(self, text: str) -> None:
        unsent = text.encode(errors="surrogateescape")
        with self._lock:
            while unsent:
                unsent = unsent[os.write(self._fd, unsent) :]

    def _read(self) -> dict[str, str]:
        while b"\n" not in self._unread:
            data = os.read(self._fd, 65_536)
            if not data:
                raise EOFError("apgas.launch has ended")
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return dict(word.partition("=")[::2] for word in line.decode(errors="surrogateescape").split(" "))


begun: Line | None = None
"""The stream of this process, if it has begun without MPI."""


def line() -> Line:
    """Return the stream of this process, which is one that begins without MPI."""
    global begun  # noqa: PLW0603 - one place a process
    if begun is None:
        with suppress(ImportError):  # not needed
            import mpi4py

            mpi4py.rc.initialize = False  # it would wait until all places load it, for ever perhaps
        begun = Line()
    return begun
