"""How far it scales, simulated: ``python -m benchmarks.scaling model``."""

from __future__ import annotations

import sys


def main(arguments: list[str]) -> int:
    """Run the command that ``arguments`` name; return its exit code."""
    from benchmarks.harness.errors import show_error
    from benchmarks.scaling.model import command

    if arguments[:1] == ["model"]:
        return command.main(arguments[1:])
    show_error(" ".join(arguments), "there is no such command", f"try {command.PROGRAM} --help")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
