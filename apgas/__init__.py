"""Places, async and finish over dynamically spawned processes, with programs that grow and shrink while they run.

Example:
    >>> import apgas
    >>> def main():
    ...     with apgas.finish():
    ...         for place in apgas.places():
    ...             apgas.async_at(place, print, "hello from", place)
    >>> apgas.run(main)  # doctest: +SKIP

The module of a public name is loaded when that name is first used: what a program does not use before it runs, it does
not wait for. ``apgas._public`` has all of them, for those who read types.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apgas._public import *  # noqa: F403 - every public name, and no other
    from apgas._public import __all__ as __all__
else:
    _NAMES = {
        "core.identity": "Place",
        "core.resize": "Deadlines Estimate ResizeRecord",
        "errors": "ApgasError CancelledError DeadlineError DeadPlaceError PlaceGoneError SlowPeerError UsageError",
        "malleability.core_ids": "CoreIds",
        "malleability.handler": "MalleableHandler",
        "malleability.sizing": "Measured Sizing",
        "runtime.api": "async_ async_at at attach cancel cancelled capture deadline finish FinishScope here immediate "
        "place places Statistics statistics uncounted",
        "runtime.collectives": "broadcast comm gather reduce",
        "runtime.context": "Future",
        "runtime.driver": "PlaceState",
        "runtime.logs": "configure_logging",
        "runtime.malleable": "at_safe_point core_ids define_malleable_handler disable_malleable_handler "
        "drain_orders estimate nodes offer_shrink on_place_failure progress request_grow resilient resizes safe_point "
        "schedule_orders shrink_wish",
        "runtime.program": "run trace",
        "runtime.refs": "GlobalRef PlaceLocal",
        "runtime.sizing": "SelfSizing hold_efficiency",
        "runtime.trace": "trace_between trace_instant trace_span",
    }
    _NAMES_THERE = {"trace_between": "between", "trace_instant": "instant", "trace_span": "span"}
    _HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

    __all__ = list(_HOMES)

    def __getattr__(name):
        """Load a public name.

        Raises:
            AttributeError: There is no such name.
        """
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module 'apgas' has no attribute {name!r}")
        from apgas.runtime import at_once

        with at_once():
            module = import_module(f"apgas.{_HOMES[name]}")
        globals()[name] = found = getattr(module, _NAMES_THERE.get(name, name))
        return found

    def __dir__():
        """List the public names, too."""
        return sorted({*globals(), *__all__})
