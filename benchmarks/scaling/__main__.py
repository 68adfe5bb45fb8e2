"""How far it scales: ``python -m benchmarks.scaling``; simulated: ``… model``; what balancing costs: ``… balance``."""

from __future__ import annotations

import sys


def main(arguments: list[str]) -> int:
    """Run the command that ``arguments`` name; return its exit code."""
    if arguments[:1] == ["model"]:
        from benchmarks.scaling.model import command as model

        return model.main(arguments[1:])
    if arguments[:1] == ["balance"]:
        from benchmarks.balance import command as balance

        return balance.main(arguments[1:])
    from benchmarks.scaling import command

    return command.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
