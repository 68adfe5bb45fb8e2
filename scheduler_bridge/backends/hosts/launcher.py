"""How a command is started on a host: by ssh, or by a program of the site's, given as a template.

A template is split into words once; ``{host}`` and ``{command}`` are replaced within words, and no shell of ours reads
what they stand for. ``{command}`` is one word, the text that a shell on the host is to run, as ssh passes it on.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scheduler_bridge.live import DaemonError

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
