"""The ``malleable`` command.

Exit codes: 0 fine, 1 something failed, 2 the command was used wrongly.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

_EXTRA: Final = ("typer", "rich", "platformdirs")
"""What the extra `bridge` installs."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Args:
        arguments: The words after the program's name; None: those of the process.
    """
    missing = [name for name in _EXTRA if find_spec(name) is None]
    if missing:
        sys.exit(
            f"malleable: {missing[0]} is missing: this is an installation without the extra 'bridge'\n"
            f'install it: {shlex.quote(sys.executable)} -m pip install "malleable-apgas[all]"'
        )
    from scheduler_bridge.cli.app import run

    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


__all__ = ["main"]
