"""Puts the commands together and turns errors into three lines: the culprit, why, what to do."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final

import typer

from scheduler_bridge.cli.errors import CliError, show

COMMANDS: Final = {
    "serve": "serve",
    "submit": "submit",
    "queue": "queue",
    "explain": "explain",
    "nodes": "nodes",
    "cancel": "cancel",
    "hold": "hold",
    "release": "hold",
    "priority": "hold",
    "reserve": "reserve",
    "resize": "resize",
    "report": "report",
    "history": "history",
    "policy": "policy",
    "limits": "limits",
    "simulate": "simulate",
    "policies": "policies",
    "workload": "workload",
    "experiment": "experiment",
    "doctor": "doctor",
    "load": "load",
    "slurm": "slurm",
    "shutdown": "shutdown",
}
"""Where each command is, as the help lists them. To load all of them takes longer than many a simulation."""


def application(words: Sequence[str]) -> typer.Typer:
    """Make the command line of the one command that ``words`` begin with; of all commands where that is none."""
    app = typer.Typer(
        name="malleable",
        help="Schedule jobs that grow and shrink while they run.\n\nExample: malleable serve --nodes 4",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    first = next((word for word in words if word != "--debug"), "")
    modules = [COMMANDS[first]] if first in COMMANDS else dict.fromkeys(COMMANDS.values())
    for name in modules:
        importlib.import_module(f"scheduler_bridge.cli.{name}").register(app)
    return app


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        typer.echo(f"malleable-apgas {metadata.version('malleable-apgas')}")
        raise typer.Exit


def _options(
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks."),
    version: bool = typer.Option(
        False, "--version", help="Say which version this is.", callback=_say_version, is_eager=True
    ),
) -> None:
    pass


def run(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    debug = "--debug" in ours
    if debug:
        arguments = ["--debug", *(word for word in ours if word != "--debug"), *arguments[len(ours) :]]
    try:
        command = typer.main.get_command(application(arguments))
        _take_once(command)
        command(args=arguments, prog_name="malleable")
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if debug:
            raise
        return show(_told(error))
    return 0


def _take_once(command: Any) -> None:
    """Let a command, and those in it, refuse options that take one value and are given twice.

    The option parser keeps the last value in silence. Flags that only switch something on may be repeated.

    Args:
        command: Of the option parser that typer brings along, which is not the same for all its versions.
    """
    for one in getattr(command, "commands", {}).values():
        _take_once(one)
    make = command.make_parser

    def make_strict(context: Any) -> Any:
        parser = make(context)
        parse = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            values, rest, order = parse(args)
            for option in order:
                if option.param_type_name != "option" or option.multiple or option.count:
                    continue
                if (not option.is_flag or option.secondary_opts) and order.count(option) > 1:
                    raise CliError(
                        f"{' or '.join(option.opts + option.secondary_opts)}: given {order.count(option)} times",
                        "it takes one value, and only the last one would count",
                        "give it once; to compare, run the command once for each value",
                    )
            return values, rest, order

        parser.parse_args = parse_once
        return parser

    command.make_parser = make_strict


def _told(error: Exception) -> CliError:
    match error:
        case CliError():
            return error
        case BrokenPipeError():
            return CliError("the reader of the output is gone", code=1)
        case OSError(strerror=str() as why):
            return CliError(f"{error.filename}: {why}" if error.filename else why, code=1)
        case _:
            return _told_by_kind(error)


def _told_by_kind(error: Exception) -> CliError:
    """Look at the errors of the parts that most commands do not load."""
    from scheduler_bridge.backends.slurm import ReadingError, SlurmError
    from scheduler_bridge.live import ControlError, DaemonError, SubmitError
    from scheduler_bridge.policies import UnknownPolicyError

    match error:
        case SubmitError():
            return CliError(str(error), error.why, error.hint)
        case DaemonError():
            return CliError(str(error), hint=error.hint)
        case SlurmError():
            return CliError(str(error), hint=error.hint, code=1)
        case ReadingError():
            return CliError(str(error), "this version of Slurm says it in another way", "malleable doctor", 1)
        case ControlError():
            return CliError(str(error), hint=error.hint, code=1)
        case UnknownPolicyError():
            return CliError(str(error), hint="malleable policies describes them")
        case _:
            return CliError(
                f"{type(error).__name__}: {error}", "this should not happen", "repeat it with --debug and report it", 1
            )
