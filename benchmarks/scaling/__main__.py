"""How far it scales: ``python -m benchmarks.scaling``; on real cores, ``... cores``.

``... model`` simulates it, from what ``... per-place`` measures; ``... balance`` is another name.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Final

from apgas.errors import extras_named

with extras_named():
    import typer

    from ..compare import command_line
    from ..compare.engine import carry_out
    from ..harness.errors import BadUsage
    from ..harness.measurement import cores as cores_of_machine
    from .catalogue import (
        LEAST_S,
        MOST_SHARE,
        NODES,
        PROGRAMS,
        QUICK_LEAST_S,
        QUICK_NODES,
        read_published,
    )
    from .cores import OnCores, on_cores
    from .emulated import Scaling

_MOST_NODES: Final = 64
_ELSEWHERE: Final = {"model": ".sweep", "per-place": ".per_place", "balance": "..balance.__main__"}
"""The commands of other modules, which are loaded when they are asked for."""


def main(arguments: list[str]) -> int:
    """Run the command that ``arguments`` name.

    Returns:
        The exit code: 0 measured, 1 a benchmark failed or was wrong, 2 bad usage, 128 + N ended by signal N.
    """
    if arguments and (module := _ELSEWHERE.get(arguments[0])) is not None:
        code: int = import_module(module, __package__).main(arguments[1:])
        return code
    if arguments[:1] == ["cores"]:
        return command_line.main(f"python -m {__package__} cores", _cores, arguments[1:])
    return command_line.main(f"python -m {__package__}", _command, arguments)


def _command(
    benchmarks: Annotated[str, typer.Option(help="Which benchmarks, as a,b.", show_default=",".join(PROGRAMS))] = "",
    nodes: Annotated[
        str, typer.Option(help="On how many emulated nodes, as 1,2.", show_default=",".join(map(str, NODES)))
    ] = "",
    rounds: command_line.Rounds = 1,
    share: Annotated[float, typer.Option(help="How much of the cores the nodes may use in all.")] = MOST_SHARE,
    quick: Annotated[bool, typer.Option("--quick", help="Small problems on 1 and 4 nodes: a look.")] = False,
    json: command_line.Json = None,
    figure: command_line.Figure = None,
    quiet: command_line.Quiet = False,
) -> int:
    """Run every benchmark on 1 to 16 emulated nodes of this machine, and compare with one node.

    On the cores of this machine, at full speed: python -m benchmarks.scaling cores --help

    Simulate many more: python -m benchmarks.scaling model --help

    What a place more costs place 0, of which that makes use: python -m benchmarks.scaling per-place --help

    What balancing costs beside bare kernels: python -m benchmarks.scaling balance --help

    Example: python -m benchmarks.scaling --benchmarks uts,pi --figure scaling.png
    """
    if not 0 < share <= MOST_SHARE:
        raise BadUsage(
            f"--share {share:g}",
            f"the nodes together may use up to {MOST_SHARE:g} of the cores, or they would not be emulated honestly",
            f"give --share {MOST_SHARE:g} or less",
        )
    names = command_line.chosen("--benchmarks", benchmarks, PROGRAMS) or PROGRAMS
    asked = Scaling(
        rounds=rounds,
        programs=[PROGRAMS[name] for name in names],
        nodes=parse_nodes(nodes) if nodes.strip() else QUICK_NODES if quick else NODES,
        share=share,
        least_s=QUICK_LEAST_S if quick else LEAST_S,
        quick=quick,
        published=read_published(),
    )
    return carry_out(asked, json, quiet, figure)


def _cores(
    benchmarks: Annotated[str, typer.Option(help="Which benchmarks, as a,b.", show_default=",".join(PROGRAMS))] = "",
    cores: Annotated[str, typer.Option(help="On how many cores, as 1,2.", show_default="1,2,4,... to all")] = "",
    rounds: command_line.Rounds = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Small problems: a look.")] = False,
    json: command_line.Json = None,
    figure: command_line.Figure = None,
    quiet: command_line.Quiet = False,
) -> int:
    """Run every benchmark on 1 to all cores of this machine, in turn with as many copies that compute alone.

    Example: python -m benchmarks.scaling cores --benchmarks uts,pi --figure cores.png
    """
    names = command_line.chosen("--benchmarks", benchmarks, PROGRAMS) or PROGRAMS
    asked = OnCores(
        rounds=rounds,
        programs=[PROGRAMS[name] for name in names],
        nodes=parse_nodes(cores, "--cores") if cores.strip() else on_cores(cores_of_machine()),
        quick=quick,
    )
    return carry_out(asked, json, quiet, figure)


def parse_nodes(text: str, option: str = "--nodes") -> tuple[int, ...]:
    """Return the numbers of nodes, or what else ``option`` counts, ascending; 1 is always among them.

    Raises:
        BadUsage: They are no such numbers.
    """
    try:
        counts = {int(part) for part in text.split(",")}
    except ValueError:
        counts = {0}
    if min(counts) < 1 or max(counts) > _MOST_NODES:
        raise BadUsage(
            f"{option} {text}", f"these are no numbers from 1 to {_MOST_NODES}", f"give them like {option} 1,2,4"
        )
    return tuple(sorted(counts | {1}))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
