"""State machines that check themselves after every change: tests name a module for that in ``APGAS_VALIDATE``."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Final, TypeVar

ENV_VALIDATE: Final = "APGAS_VALIDATE"

S = TypeVar("S")


def checked(machine: type[S]) -> type[S]:
    """Return the class to make a state machine of, a subclass of ``machine`` if the environment asks for it."""
    module = os.environ.get(ENV_VALIDATE)
    if not module:
        return machine
    found: type[S] = import_module(module).checked(machine)
    return found
