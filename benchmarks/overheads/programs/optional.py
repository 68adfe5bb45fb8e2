"""What a contender needs and this project does not: loaded by name, where it is used."""

from __future__ import annotations

import importlib
from typing import Any


def load(name: str) -> Any:
    """Import a module that may not be installed, and that has no types for us.

    Raises:
        ImportError: It is not installed.
    """
    return importlib.import_module(name)
