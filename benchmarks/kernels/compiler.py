"""Compiles the C references, where gcc exists, into a folder that the caller removes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import Final

from .results import Absent

COMPILER: Final = "gcc"
FLAGS: Final = ("-O3", "-march=native", "-std=gnu11", "-shared", "-fPIC")
LIMIT_S: Final = 60.0


def load(name: str, folder: Path, *flags: str) -> ctypes.CDLL:
    """Compile ``c/NAME.c`` into ``folder``, with ``flags`` more, and return the library.

    Raises:
        Absent: There is no compiler, or it fails.
    """
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise Absent(f"{COMPILER} is not installed")
    library = folder / f"{name}{len(list(folder.iterdir()))}.so"
    with resources.as_file(resources.files(__package__) / "c" / f"{name}.c") as source:
        command = [compiler, *FLAGS, *flags, str(source), "-o", str(library)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Absent(f"{COMPILER} did not compile {name}.c: {error}") from None
    if done.returncode:
        first = next(iter(done.stderr.splitlines()), "no message")
        raise Absent(f"{COMPILER} did not compile {name}.c: {first}")
    return ctypes.CDLL(str(library))
