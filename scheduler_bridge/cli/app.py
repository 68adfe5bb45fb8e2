"""Puts the commands together and turns errors into three lines: the culprit, why, what to do."""

from __future__ import annotations

import importlib
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from scheduler_bridge.cli.common import ChecksOptions, CliError, Commands, say, show


class Entry(NamedTuple):
    """A command: the module that has a function, or a group of commands, of its name, and its help in one line.

    The help is the first paragraph of its docstring, which a test compares.
    """

    module: str
    help: str


COMMANDS: Final = {
    "serve": Entry(
        "serve",
        "Run the scheduler until TERM, INT or shutdown ends it: with emulated nodes, hosts, or those of Slurm.",
    ),
    "submit": Entry("jobs", "Submit a job, given as a command after -- or as a TOML file, and print its id."),
    "queue": Entry("queue", "List the jobs that wait and run, with the reason why a job waits."),
    "explain": Entry(
        "jobs",
        "Say why a job waits, why it was resized and for whom, and what was decided about it before.",
    ),
    "nodes": Entry(
        "operations",
        "List the nodes and the job that each one works for; before that, add, resume, drain, take down or remove"
        " some.",
    ),
    "cancel": Entry("jobs", "End jobs, whether they wait or run."),
    "hold": Entry("jobs", "Keep waiting jobs from starting until they are released."),
    "release": Entry(
        "jobs",
        "Let held jobs start again, when it is their turn. What an operator holds only operators release.",
    ),
    "priority": Entry("jobs", "Have a waiting job considered before those with a lower priority."),
    "resize": Entry(
        "jobs",
        "Have a running malleable job grow or shrink within its bounds, as far as nodes are free.",
    ),
    "report": Entry("report", "Show what happened to every job so far, or in the last run if the scheduler has ended."),
    "history": Entry("report", "List the runs in the scheduler's log; `malleable report --run 1` shows one."),
    "policy": Entry("operations", "Say which policy decides, or let another one decide from now on."),
    "limits": Entry("operations", "Say what users may have at most, or let another limit hold from now on."),
    "simulate": Entry("simulate", "Replay a workload under a policy, on a simulated cluster."),
    "compare": Entry(
        "compare", "Simulate a workload under several policies, and say by how much they differ, seed by seed."
    ),
    "policies": Entry("policies", "List the scheduling policies, their parameters and sources."),
    "experiment": Entry("experiment", "Repeat an experiment of the papers and compare with what they print."),
    "doctor": Entry(
        "serve",
        "Check what works here (MPI, spawning, hosts, numba, Slurm) and say how to mend what does not.",
    ),
    "shutdown": Entry("operations", "End all jobs and the scheduler, and wait until they have ended."),
    "reserve": Entry("operations", "Keep nodes from a time on; jobs ask for them with submit --reservation NAME."),
    "workload": Entry("workload", "Look at, clean, convert and generate workloads."),
    "slurm": Entry("slurm", "Run malleable programs inside a Slurm allocation."),
}
"""By name, as the help lists them. A command's module is loaded when it is called: all together take half a second."""


def load(name: str) -> Any:
    """Load the command ``name``, one of ``COMMANDS``, as the option parser takes it."""
    found = getattr(importlib.import_module(f"scheduler_bridge.cli.{COMMANDS[name].module}"), name)
    commands = Commands()
    if isinstance(found, Commands):
        commands.add_typer(found, name=name)
    else:
        commands.command(name)(found)
    return typer.main.get_group(commands).commands[name]


class _CommandLine(ChecksOptions, TyperGroup):
    """All commands, each by its help alone until it is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in COMMANDS:
            self.add_command(load(args[0]), args[0])
        return super().resolve_command(ctx, args)


def command_line() -> Any:
    """Make the command ``malleable``, as the option parser takes it."""
    app = typer.Typer(
        name="malleable",
        cls=_CommandLine,
        help="Schedule jobs that grow and shrink while they run.\n\nExample: malleable serve --nodes 4",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    group = typer.main.get_group(app)
    for name, entry in COMMANDS.items():
        group.add_command(TyperCommand(name, help=entry.help))
    return group


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        say(f"malleable-apgas {metadata.version('malleable-apgas')}")
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
        command_line()(args=arguments, prog_name="malleable")
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if debug:
            raise
        return show(_worded(error))
    return 0


def _worded(error: Exception) -> CliError:
    match error:
        case CliError():
            return error
        case BrokenPipeError():
            return CliError("the reader of the output is gone", code=1)
        case MemoryError():
            return CliError("there is not enough memory", str(error), "ask for less", code=1)
        case OSError(strerror=str() as why):
            return CliError(f"{error.filename}: {why}" if error.filename else why, code=1)
        case _:
            return _worded_by_kind(error)


def _worded_by_kind(error: Exception) -> CliError:
    """Look at the errors of the parts that most commands do not load."""
    from scheduler_bridge.backends.slurm import ReadingError
    from scheduler_bridge.daemon import DaemonError, SubmitError
    from scheduler_bridge.daemon.config import HintedError
    from scheduler_bridge.policies import PolicyError, UnknownPolicyError
    from scheduler_bridge.sim import UnknownModelError
    from scheduler_bridge.workloads import TraceError

    match error:
        case SubmitError() | TraceError():
            return CliError(str(error), error.why, error.hint)
        case ReadingError():
            return CliError(str(error), "this version of Slurm says it in another way", "malleable doctor", 1)
        case HintedError():
            return CliError(str(error), hint=error.hint, code=2 if isinstance(error, DaemonError) else 1)
        case UnknownModelError():
            return CliError(str(error))
        case PolicyError():
            return CliError(str(error), hint="--debug shows the traceback", code=1)
        case UnknownPolicyError():
            return CliError(str(error), hint="malleable policies describes them; --load FILE.py knows others")
        case _:
            return CliError(
                f"{type(error).__name__}: {error}", "this should not happen", "repeat it with --debug and report it", 1
            )
