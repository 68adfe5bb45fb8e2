"""``malleable policies``, and the policies that a file of the user registers."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import structs

from scheduler_bridge.cli.common import CliError, Outcome
from scheduler_bridge.cli.options import described
from scheduler_bridge.policies import PolicyInfo, describe, names

if TYPE_CHECKING:
    from rich.console import RenderableType

# Policies that a user's own file registers, for the commands that simulate with them or describe them ----------------

LoadOption = Annotated[
    list[Path] | None,
    described("--load", "A Python file that registers policies; may be repeated.", "FILE"),
]


def load_policies(files: list[Path] | None) -> None:
    """Execute the files, so that the policies that they register are known by name.

    They are not executed as ``__main__``; what lies beside a file can be imported, as in a program.
    """
    for file in files or []:
        before = names()
        try:
            code = compile(file.read_bytes(), str(file), "exec")
        except OSError as error:
            raise CliError(f"--load {file}: {error.strerror}", hint="give a Python file", code=1) from None
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            raise CliError(f"{file}{f':{line}' if line else ''}: {error}", "it is no Python file") from None
        module = ModuleType(f"loaded_{file.stem}")
        module.__file__ = str(file)
        sys.modules[module.__name__] = module  # where dataclasses and pickle look for what it defines
        sys.path.insert(0, str(file.absolute().parent))
        try:
            exec(code, vars(module))
        except (Exception, SystemExit) as error:
            lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
            where = f"{file}:{lines[-1]}" if lines else str(file)
            raise CliError(f"{where}: {type(error).__name__}: {error}", "the file could not be executed") from error
        finally:
            sys.path.remove(str(file.absolute().parent))
        if names() == before:
            raise CliError(
                f"--load {file}: it registers no policy",
                "a function that makes one is decorated with @policies.register",
                "see: how to write a policy",
            )


# ``malleable policies`` ----------------------------------------------------------------------------------------------


def policies(
    name: Annotated[str | None, typer.Argument(help="Describe this policy fully.", show_default=False)] = None,
    load: LoadOption = None,
) -> Outcome:
    """List the scheduling policies, their parameters and sources.

    Example: malleable policies malleable
    """
    load_policies(load)
    infos = [describe(policy) for policy in ([name] if name is not None else names())]
    reprs = ({key: repr(value) for key, value in info.parameters.items()} for info in infos)
    document = [structs.replace(info, parameters=shown) for info, shown in zip(infos, reprs, strict=True)]
    return Outcome(document, [infos[0].description] if name is not None else _listed(infos))


def _listed(infos: Sequence[PolicyInfo]) -> Iterator[RenderableType]:
    from scheduler_bridge.report.tables import sources_table

    heads = "POLICY", "WHAT IT DOES, AND FROM WHERE IT IS"
    rows = ((info.name, info.summary, info.parameters, info.source) for info in infos)
    yield sources_table(*heads, settings="parameters", rows=rows)
