"""How mpiexec reaches hosts, and how what a job leaves there is ended: two small programs, seen by all hosts.

The first is called like ssh and starts a command through the launcher. The second runs there around every command of a
job: when that has ended, because it was done or because mpiexec is gone, it ends all processes that came of it. So
every host cleans up after itself, whoever was killed with -9. They are found by a mark in their environment that every
call has for itself, for a job may come back to a host before all of it has left.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from scheduler_bridge.backends.hosts.hostfile import Host
from scheduler_bridge.backends.hosts.launcher import Launcher
from scheduler_bridge.backends.standin import StandIn, replace_file
from scheduler_bridge.jobrunner import marks

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
