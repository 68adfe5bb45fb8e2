"""How far it scales: ``python -m benchmarks.scaling``; simulated: ``… model``; what balancing costs: ``… balance``."""

from __future__ import annotations

import sys

from apgas.errors import extras_named


def main(arguments: list[str]) -> int:
    """Run the command that ``arguments`` name; return its exit code."""
    with extras_named():
        from . import command
        from .model import command as model
    if arguments[:1] == ["model"]:
        return model.main(arguments[1:])
    if arguments[:1] == ["balance"]:
        from ..balance import command as balance

        return balance.main(arguments[1:])
    return command.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
