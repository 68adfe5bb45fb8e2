"""The state of the program that a newcomer takes over: working folder, warnings, ``setup`` and the main module.

The main module is loaded when something in it is first asked for by name.

Functions and classes of the main module travel by value. Some objects do not: a function with a cache, for one, goes by
its name in ``__main__``, which on a newcomer is another file. To load the program there at once would make every
newcomer wait for its imports, so its names are looked up in it on demand. As with ``multiprocessing``, the file is run
under another name: what stands under ``if __name__ == "__main__"`` is not.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from apgas.errors import UsageError

RUN_NAME: Final = "__mp_main__"


class FolderError(Exception):
    """A newcomer cannot enter the working folder of the program."""


class ProgramState(msgspec.Struct, frozen=True):
    """What a newcomer takes over from place 0.

    Attributes:
        cwd: The working folder.
        sys_path: Where modules are looked for.
        module: The name of the main module, if it was started by ``-m``; else empty.
        path: That of its file; empty if there is none.
        argv: The program's arguments.
        warnings: The filters of warnings, pickled one by one.
        setup: What ``apgas.run`` was given to run on every place, pickled; empty: nothing.
    """

    cwd: str
    sys_path: tuple[str, ...]
    module: str
    path: str
    argv: tuple[str, ...]
    warnings: tuple[bytes, ...]
    setup: tuple[bytes, ...]


def program_state(setup: Callable[[], object] | None) -> bytes:
    """Gather what newcomers take over from this process, pickled.

    Raises:
        TypeError: ``setup`` cannot be pickled.
    """
    from pathlib import Path

    from apgas.runtime import serialization

    main = sys.modules["__main__"]
    spec, path = getattr(main, "__spec__", None), str(getattr(main, "__file__", None) or "")
    name = "" if spec is None or spec.name is None else str(spec.name)
    packed = () if setup is None else tuple(map(bytes, serialization.dumps(setup)))
    cwd = str(Path.cwd())
    return pickle.dumps(ProgramState(cwd, tuple(sys.path), name, path, tuple(sys.argv), _filters(), packed))


def take_over(pickled: bytes) -> None:
    """(newcomer) Take over what ``program_state`` has gathered, and run ``setup``.

    Raises:
        FolderError: The folder cannot be entered, so ``setup`` has not run.
        BaseException: What ``setup`` raised.
    """
    ours: ProgramState = pickle.loads(pickled)
    try:
        os.chdir(ours.cwd)
    except OSError as error:
        raise FolderError(f"cannot enter the program's working folder {ours.cwd}: {error.strerror}") from error
    sys.path[:] = list(ours.sys_path)
    sys.argv[:] = list(ours.argv)
    if ours.module or ours.path:
        _look_up_in(ours)
    filters = []
    for one in ours.warnings:
        with suppress(Exception):  # a category of a module that is not here
            filters.append(pickle.loads(one))
    warnings.filters[:] = filters  # type: ignore[index]  # a list, whatever its stub says
    warnings._filters_mutated()  # type: ignore[attr-defined]  # noqa: SLF001 - what `catch_warnings` calls, too
    if ours.setup:
        from apgas.runtime import serialization

        serialization.loads(list(ours.setup))()


def _filters() -> tuple[bytes, ...]:
    """The filters of warnings; those of the program's own categories would load its main module, and are left out."""
    packed = []
    for one in warnings.filters:
        if one[2].__module__ != "__main__":
            with suppress(Exception):  # a class that goes by no name
                packed.append(pickle.dumps(one))
    return tuple(packed)


def _look_up_in(program: ProgramState) -> None:
    """Let names be looked up in ``program`` that ``__main__`` of this process lacks."""
    main = sys.modules["__main__"]
    loading = threading.RLock()
    loaded: dict[str, Any] = {}

    def look_up(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module '__main__' of a place that joined has no attribute {name!r}")
        with loading:
            if not loaded:
                loaded["__name__"] = RUN_NAME
                loaded.update(_load(program))
        if name not in loaded:
            raise AttributeError(f"{program.module or program.path} has no attribute {name!r}")
        return loaded[name]

    main.__getattr__ = look_up  # type: ignore[method-assign]  # a module may have one (PEP 562)


def _load(program: ProgramState) -> dict[str, Any]:
    import runpy

    try:
        if program.module:
            found = runpy.run_module(program.module, run_name=RUN_NAME, alter_sys=True)
        else:
            found = runpy.run_path(program.path, run_name=RUN_NAME)
    except BaseException as error:
        # no AttributeError: pickle would replace its text
        raise UsageError(
            f"{program.module or program.path} cannot be loaded on a place that joined: {type(error).__name__}: {error}"
            ' (apgas.run belongs under if __name__ == "__main__")'
        ) from error
    for value in found.values():
        if getattr(value, "__module__", None) == RUN_NAME:
            # so that it can be sent on from here, too
            with suppress(AttributeError, TypeError):
                value.__module__ = "__main__"
    return found
