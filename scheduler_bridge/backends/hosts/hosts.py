"""Hosts, the file that names them, and the launchers by which they are reached.

The file has a host a line, as ``mpiexec -f`` reads them, with what else there is to say of each::

    # name[:cores]  [cores=N]  [address=ADDRESS]
    alpha:16
    beta:16
    gamma  cores=8  address=10.0.0.7

Commands, launchers of jobs among them, reach a host by ssh, or by a launcher of the site's, given as a template.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from apgas.launch import ENV_REACHED
from scheduler_bridge.backends.standin import StandIn
from scheduler_bridge.daemon import DaemonError
from scheduler_bridge.jobrunner import processes

_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.\-]{0,254})")
_ADDRESS: Final = re.compile(r"[A-Za-z0-9_\[](?:[A-Za-z0-9_.:@\-\]]{0,254})")
_MOST_CORES: Final = 1024
_FORM: Final = "a line is NAME, NAME:CORES, or NAME cores=CORES address=ADDRESS"


@dataclass(frozen=True, slots=True)
class Host:
    """One host.

    Attributes:
        name: Its name, as the scheduler and jobs use it.
        address: The launcher's name for it; by default its name.
        cores: How many cores it has for jobs; None: it is not said.
    """

    name: str
    address: str
    cores: int | None = None


def read_hosts(path: Path) -> tuple[Host, ...]:
    """Read a file of hosts.

    Raises:
        DaemonError: It cannot be read, or a line is wrong; the text names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise DaemonError(f"{path}: {reason}", "give a file with one host a line") from None
    return parse_hosts(text, str(path))


def parse_hosts(text: str, where: str) -> tuple[Host, ...]:
    """Return the hosts that ``text`` names, in its order; ``where`` is what errors call it.

    Raises:
        DaemonError: A line is wrong, or there is none.
    """
    hosts: dict[str, tuple[Host, int]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        host = _host(words, f"{where}:{number}")
        if host.name in hosts:
            raise DaemonError(
                f"{where}:{number}: host {host.name} is named twice, first on line {hosts[host.name][1]}",
                "give every host one line",
            )
        hosts[host.name] = (host, number)
    if not hosts:
        raise DaemonError(f"{where}: it names no host", _FORM)
    return tuple(host for host, _ in hosts.values())


def _host(words: list[str], at: str) -> Host:
    name, colon, count = words[0].partition(":")
    if not _HOST_NAME.fullmatch(name):
        raise DaemonError(f"{at}: {name!r} is not a name of a host", "use letters, digits, '.', '_' and '-'")
    cores = _cores(count, at) if colon else None
    address = name
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if key == "address" and equals:
            if not _ADDRESS.fullmatch(value):
                raise DaemonError(f"{at}: {value!r} is not an address", "give a name, an IP address, or user@name")
            address = value
        elif key in ("cores", "slots") and equals:
            if cores is not None:
                raise DaemonError(f"{at}: the cores of {name} are given twice", _FORM)
            cores = _cores(value, at)
        else:
            raise DaemonError(f"{at}: {word!r} is not understood", _FORM)
    return Host(name, address, cores)


def _cores(text: str, at: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= _MOST_CORES:
        raise DaemonError(f"{at}: {text!r} is not a number of cores", f"give a number from 1 to {_MOST_CORES}")
    return int(text)


def fewest_cores(hosts: Iterable[Host]) -> int | None:
    """Return how many cores each of the hosts has at least; None if one does not say."""
    counts = [host.cores for host in hosts]
    known = [count for count in counts if count is not None]
    return min(known) if known and len(known) == len(counts) else None


# Launchers -----------------------------------------------------------------------------------------------------------
#
# A template is split into words once. ``{host}`` and ``{command}`` are replaced within words, and no shell of ours
# reads their values. ``{command}`` is one word, the text that a shell on the host is to run, as ssh passes it on.

_HOST: Final = "{host}"
_COMMAND: Final = "{command}"
_SSH: Final = (
    "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4",
    "-o", "LogLevel=ERROR",
)  # fmt: skip
"""A question for a password would wait for ever, and so would ssh for a host that goes without a word."""
_EXAMPLE: Final = "for example: --launcher 'docker exec -i {host} sh -c {command}'"


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


# The programs that launchers reach hosts with, and that end there what a job leaves --------------------------------
#
# The first is called like ssh and starts a command through the launcher. The second runs there around every command of
# a job: when that has ended, because it was done or the job's launcher is gone, it ends all processes that came of it.
# So every host cleans up after itself, whichever process was killed with -9. They are found by a mark in their
# environment that every call has for itself, for a job may come back to a host before all of it has left.

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


class Reach(StandIn):
    """Both programs and the table of hosts.

    Args:
        folder: Where they are written; on a file system that all hosts see.
        launcher: How hosts are reached.
    """

    def __init__(self, folder: Path, launcher: Launcher) -> None:
        there = folder / f"{_NAME}-there"
        body = _BODY.format(
            mark=processes.ENV_MARK,
            there=shlex.quote(shlex.quote(str(there))),
            launch=launcher.in_shell("found", "command"),
        )
        super().__init__(folder, _NAME, "of this scheduler", body)
        self.programs[there] = _THERE.format(mark=processes.ENV_MARK, env=ENV_REACHED)

    def know_hosts(self, hosts: Iterable[Host]) -> None:
        """Write down where each host is."""
        self.know((host.name, host.address) for host in hosts)
