"""The program that launchers call like ssh: it looks a node up in a table and reaches it in the way of a back-end.

Written, not installed, because it has to start fast: as a script of the shell it needs 2 ms.
"""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from scheduler_bridge.atomic_write import write_whole

_SCRIPT: Final = """\
#!/bin/sh
# Called like ssh: starts a command on a node.
while [ "${{1#-}}" != "$1" ]; do
  case $1 in -[bceiloFJLmpSW]) shift 2 ;; *) shift ;; esac
done
host=$1
shift
found=
while read -r node entry; do
  [ "$node" = "$host" ] && found=$entry
done < {table}
if [ -z "$found" ]; then
  echo "$host is not a node {of_what}" >&2
  exit 255
fi
{body}
"""


class StandIn:
    """The program and its table. Nothing is written, and nothing removed, before ``write`` is called.

    Args:
        folder: Where both are written; on a file system that all hosts see.
        name: What their names begin with.
        of_what: Whose the nodes are, for its message about a stranger.
        body: What the script does in the end: ``$host`` is the node, ``$found`` its entry in the table, ``$*`` the
            command.

    Attributes:
        program: What is called like ssh.
        programs: The texts of all programs that are written: of this one, and of such that it calls.
    """

    def __init__(self, folder: Path, name: str, of_what: str, body: str) -> None:
        self.program = folder / f"{name}-reach"
        self._table = folder / f"{name}-nodes"
        self._written = False
        self._entries = ""
        text = _SCRIPT.format(table=shlex.quote(str(self._table)), of_what=of_what, body=body)
        self.programs = {self.program: text}

    def write(self) -> None:
        """Write the programs, and the table as far as it is known."""
        self._written = True
        for path, text in self.programs.items():
            write_whole(path, text.encode(), 0o700)
        write_whole(self._table, self._entries.encode(), 0o600)

    def know(self, entries: Iterable[tuple[str, object]]) -> None:
        """Take these nodes and their entries for the table."""
        self._entries = "".join(f"{node} {entry}\n" for node, entry in entries)
        if self._written:
            write_whole(self._table, self._entries.encode(), 0o600)

    def forget(self) -> None:
        """Remove all files."""
        for path in (*self.programs, self._table) if self._written else ():
            path.unlink(missing_ok=True)


def address(nodes: Iterable[str]) -> str:
    """Return the address of this host at which the other ``nodes`` reach it."""
    for node in nodes:
        if node == os.uname().nodename:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards:
            try:
                towards.connect((node, 9))  # sends nothing
            except OSError:
                continue  # no way to it: maybe to the next
            return str(towards.getsockname()[0])
    return socket.gethostbyname(os.uname().nodename)
