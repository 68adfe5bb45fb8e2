"""``concurrent.futures`` over places: an executor whose pool grows and shrinks while it works.

``executor.py`` is what programs call. It hands all that happens to one thread (``pool.py``), which asks the state
machine (``core.py``) what is to be done, and sends tasks to the places, where ``worker.py`` runs them: these load
nothing of the others.
"""

from typing import TYPE_CHECKING

__all__ = ["MalleableExecutor"]

if TYPE_CHECKING:
    from apgas.futures.executor import MalleableExecutor
else:

    def __getattr__(name):
        """Load the public name.

        Raises:
            AttributeError: There is no such name.
        """
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from apgas.futures.executor import MalleableExecutor

        globals()[name] = MalleableExecutor
        return MalleableExecutor
