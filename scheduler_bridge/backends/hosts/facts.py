"""Says what a host has, as JSON: a program that is executed there by its path, and imports nothing of the package.

Called as ``facts.py FOLDER [ADDRESS:PORT WORD ...]``: this host is to reach the address, and the words are to run a
command on another host, as a place does that is about to grow.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib import metadata, util
from pathlib import Path

_CONNECT_S = 5.0
_RUN_S = 15.0


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "none"


def _reaches(address: str, port: str) -> str:
    """Return why a connection cannot be made; empty if it can."""
    try:
        socket.create_connection((address, int(port)), _CONNECT_S).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _runs(words: list[str]) -> str:
    """Return why the words cannot be run; empty if they can."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_RUN_S,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no answer within {_RUN_S:g} s"
    except OSError as error:
        return f"{words[0]}: {error.strerror}"
    return "" if done.returncode == 0 else " ".join(done.stderr.split()) or f"exit code {done.returncode}"


def main(arguments: list[str]) -> None:
    """Print it."""
    folder, address, *words = [*arguments, ""][: max(2, len(arguments))]
    project = util.find_spec("apgas")
    found = {
        "Python": sys.version.split()[0],
        "malleable-apgas": _version("malleable-apgas"),
        "mpi4py": _version("mpi4py"),
        "MPICH": _version("mpich"),
        "apgas": str(Path(project.origin).parent) if project is not None and project.origin else "none",
        "cores": str(len(os.sched_getaffinity(0))),
        "folder": str(os.access(folder, os.X_OK)),
        "reaches": _reaches(*address.rsplit(":", 1)) if address else "",
        "runs": _runs(words) if words else "",
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
