"""A *keeper*: a shell that outlives this process, ends what it has started, and removes what that would leave.

It reads from a pipe, which ends with this process, however that comes: it may be killed. What is written there:
the number of each process that begins, which leads a group of its own; the negative number of each that has ended;
absolute paths, or patterns of such, to be removed; and ``bye`` if this process ends by itself: then the others have
time to do so, too.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

_PROGRAM: Final = """\
trap '' HUP INT TERM
said= looks=3 paths=0 begun= kept=
remove() { for file; do [ ! -e "$file" ] || rm -rf -- "$file"; done; }
while read -r word; do
    case $word in
        bye) said=bye looks=100 ;;
        /*) paths=$((paths + 1)); eval "path_$paths=\\$word" ;;
        -*) eval "ended_${word#-}=1" ;;
        *) begun="$begun $word"; unset "ended_$word"
    esac
done
for pid in $begun; do
    eval "[ \\${ended_$pid-} ]" || kept="$kept $pid"
done
while [ $looks -gt 0 ]; do
    left=
    for pid in $kept; do
        read -r stat </proc/"$pid"/stat || continue
        case ${stat##*) } in Z*) ;; *) left="$left $pid"; esac
    done
    [ "$left" ] || break
    sleep 0.1
    looks=$((looks - 1))
done
[ $said ] || left=$kept
for pid in $left; do
    kill -s KILL -- "-$pid"
    remove /dev/shm/"$pid":*
done
IFS=
while [ $paths -gt 0 ]; do
    eval "remove \\$path_$paths"
    paths=$((paths - 1))
done
"""
"""A variable for each process that has ended, and for each path: there may be thousands. ``/dev/shm/PID:*`` is what
libfabric keeps there for a process."""


def start() -> tuple[int, int]:
    """Start a keeper; returns its process id, and the descriptor for ``tell``."""
    reading, writing = os.pipe()
    streams = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (1, 2)]
    actions = [(os.POSIX_SPAWN_DUP2, reading, 0), *streams]
    # a signal to the group of this process is not for the keeper
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", _PROGRAM], os.environ, file_actions=actions, setsid=True)
    os.close(reading)
    return pid, writing


def tell(keeper: int, word: int | str) -> None:
    """Let a keeper know of something."""
    with suppress(OSError):  # it was killed
        os.write(keeper, f"{word}\n".encode(errors="surrogateescape"))
