"""The start of every benchmark: only place 0 reads the command line, and ``--help`` starts no MPI.

A benchmark's ``__main__`` is three lines::

    from ..harness.app import main

    if __name__ == "__main__":
        main(f"{__package__}.command")

and its module ``command`` holds a function ``command`` whose annotated parameters are its own options (as for typer)
and which returns a ``Benchmark``; the first sentence of its docstring, and an example, head the ``--help``. The common
options are added to it. ``command`` may raise ``BadUsage``.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from apgas.errors import extras_named

_RANKS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")


def main(module: str) -> None:
    """Run the benchmark whose command is ``module``.command, with the arguments of this process.

    Args:
        module: Dotted name of the module; imported on place 0 only, so it may import what it likes.

    Raises:
        SystemExit: With the exit code: 0 fine, 1 wrong result or failure, 2 bad usage.
    """
    arguments = sys.argv[1:]
    if "--help" in arguments:
        # the process that speaks, by what the MPI starter left in the environment
        if all(os.environ.get(name, "0") == "0" for name in _RANKS):
            with extras_named():
                from .cli import parse

            parse(module, ["--help"])
        raise SystemExit(0)
    _announce(arguments)
    import apgas

    apgas.run(start, module, arguments)


def start(module: str, arguments: list[str]) -> None:
    """Parse ``arguments`` and run the benchmark; the main activity on place 0.

    Raises:
        SystemExit: If the exit code is not 0; every place then ends with it.
    """
    with extras_named():
        from .cli import parse
        from .errors import BadUsage, room_for_compiled, show_error
        from .run import run_benchmark

    try:
        benchmark, options = parse(module, arguments)
        code = run_benchmark(benchmark, options)
    except BadUsage as error:
        show_error(error.culprit, error.why, error.remedy)
        code = 2
    except OSError as error:
        if not (remedy := room_for_compiled(error)):
            raise
        show_error("the kernels are not compiled", str(error), remedy)
        code = 1
    if code:
        raise SystemExit(code)


def _announce(arguments: list[str]) -> None:
    """Hand the runtime the options that it needs on every place, before anything else is parsed."""
    from .errors import BadUsage
    from .options import check_scheduler_loss, check_transport

    variables = {
        "--on-scheduler-loss": ("APGAS_ON_SCHEDULER_LOSS", check_scheduler_loss),
        "--transport": ("APGAS_TRANSPORT", check_transport),
    }
    if "--tag-output" in arguments:
        os.environ["APGAS_TAG_OUTPUT"] = "1"
    for option, value in zip(arguments, [*arguments, ""][1:], strict=True):
        name, equals, joined = option.partition("=")
        text = joined if equals else value
        if name in variables:
            variable, check = variables[name]
            with suppress(BadUsage):  # place 0 refuses it when it parses everything
                check(text)
                os.environ[variable] = text
