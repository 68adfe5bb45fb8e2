"""The ``malleable`` command.

Exit codes: 0 fine, 1 something failed, 2 the command was used wrongly.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Args:
        arguments: The words after the program's name; None: those of the process.
    """
    from scheduler_bridge.cli.app import run

    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


__all__ = ["main"]
