"""Launchers: commands, mpiexec among them, reach a host by ssh, or by a program of the site's, given as a template.

A template is split into words once; ``{host}`` and ``{command}`` are replaced within words, and no shell of ours reads
what they stand for. ``{command}`` is one word, the text that a shell on the host is to run, as ssh passes it on.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scheduler_bridge.backends.hosts.hostfile import Host
from scheduler_bridge.backends.standin import StandIn, replace_file
from scheduler_bridge.daemon import DaemonError
from scheduler_bridge.jobrunner import marks

_HOST: Final = "{host}"
_COMMAND: Final = "{command}"
_SSH: Final = tuple(
    word
    for option in (
        "BatchMode=yes",
        "ConnectTimeout=10",
        "ServerAliveInterval=15",
        "ServerAliveCountMax=4",
        "LogLevel=ERROR",
    )
    for word in ("-o", option)
)
"""A question for a password would wait for ever, and so would ssh for a host that goes without a word."""
_EXAMPLE: Final = "for example: --launcher 'docker exec {host} sh -c {command}'"


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts commands on hosts; made by ``launcher_of``.

    Attributes:
        words: What is executed, with placeholders.
    """

    words: tuple[str, ...]

    def command(self, address: str, command: str) -> tuple[str, ...]:
        """Return the words that run ``command`` in a shell at ``address``."""
        return tuple(command if word == _COMMAND else word.replace(_HOST, address) for word in self.words)

    def in_shell(self, address: str, command: str) -> str:
        """Return the same as text of a shell; ``address`` and ``command`` are names of its variables."""
        return " ".join(_for_shell(word, address, command) for word in self.words)


def launcher_of(text: str) -> Launcher:
    """Read a template, or the name of a program that is called like ssh.

    Raises:
        DaemonError: It cannot be one; says why.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise DaemonError(f"the launcher {text!r} cannot be read: {str(error).lower()}", _EXAMPLE) from None
    if not words:
        raise DaemonError("the launcher is empty", _EXAMPLE)
    if not any(_HOST in word or _COMMAND in word for word in words):
        options = _SSH if Path(words[0]).name == "ssh" else ()
        return Launcher((*words, *options, _HOST, _COMMAND))
    if not any(_HOST in word for word in words):
        raise DaemonError(f"the launcher {text!r} has no {{host}}", _EXAMPLE)
    if words.count(_COMMAND) != 1 or any(_COMMAND in word and word != _COMMAND for word in words):
        raise DaemonError(f"the launcher {text!r} needs {{command}} once, as a word of its own", _EXAMPLE)
    return Launcher(words)


def is_here(name: str) -> bool:
    """Whether the host of this name is this machine, which nothing has to be started to reach."""
    return name in ("localhost", os.uname().nodename)


def _for_shell(word: str, address: str, command: str) -> str:
    if word == _COMMAND:
        return f'"${command}"'
    return f'"${address}"'.join(shlex.quote(part) if part else "" for part in word.split(_HOST))


# The programs that mpiexec reaches hosts with, and that end there what a job leaves ----------------------------------
#
# The first is called like ssh and starts a command through the launcher. The second runs there around every command of
# a job: when that has ended, because it was done or because mpiexec is gone, it ends all processes that came of it. So
# every host cleans up after itself, whoever was killed with -9. They are found by a mark in their environment that
# every call has for itself, for a job may come back to a host before all of it has left.

ENV_REACHED: Final = "MALLEABLE_REACHED"

_NAME: Final = "hosts"

_BODY: Final = """\
here=$(uname -n)
if [ -n "${mark}" ]; then
  set -- {there} "${mark}" "${mark}.$here.$$" "$*"
fi
case $host in
  "$here"|localhost) exec /bin/sh -c "$*" ;;
esac
command=$*
exec {launch}"""

_THERE: Final = """\
#!/bin/sh
# Runs a command of a job on this host; when it ends, nothing that came of it stays.
mark=$1
reached=$2
shift 2
trap : HUP INT TERM
{mark}=$mark {env}=$reached "$@"
code=$?
left() {{ grep -lsz "^{env}=$reached\\$" /proc/[0-9]*/environ; }}
end() {{
  for file in $(left); do
    pid=${{file#/proc/}}
    kill "-$1" "${{pid%/environ}}" 2> /dev/null
  done
}}
for number in TERM 0 0 0 0 KILL KILL; do
  [ -n "$(left)" ] || exit "$code"
  end "$number"
  sleep 0.1
done
exit "$code"
"""


class Reach:
    """Both programs and the table of hosts.

    Args:
        folder: Where they are written; on a file system that all hosts see.
        launcher: How hosts are reached.
    """

    def __init__(self, folder: Path, launcher: Launcher) -> None:
        self._there = folder / f"{_NAME}-there"
        body = _BODY.format(
            mark=marks.ENV_MARK,
            there=shlex.quote(shlex.quote(str(self._there))),
            launch=launcher.in_shell("found", "command"),
        )
        self._stand_in = StandIn(folder, _NAME, "of this scheduler", body)
        self.options = self._stand_in.options
        self.needed = (self._stand_in.program, self._there)

    def write(self) -> None:
        """Write the programs."""
        replace_file(self._there, _THERE.format(mark=marks.ENV_MARK, env=ENV_REACHED), 0o700)
        self._stand_in.write()

    def know(self, hosts: Iterable[Host]) -> None:
        """Write down where each host is."""
        self._stand_in.know((host.name, host.address) for host in hosts)

    def forget(self) -> None:
        """Remove everything."""
        self._stand_in.forget()
        self._there.unlink(missing_ok=True)
