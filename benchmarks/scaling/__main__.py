"""How far it scales: ``python -m benchmarks.scaling``, and simulated ``python -m benchmarks.scaling model``."""

from __future__ import annotations

import sys


def main(arguments: list[str]) -> int:
    """Run the command that ``arguments`` name; return its exit code."""
    if arguments[:1] == ["model"]:
        from benchmarks.scaling.model import command as model

        return model.main(arguments[1:])
    from benchmarks.scaling import command

    return command.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
