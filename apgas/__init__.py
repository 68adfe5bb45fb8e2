"""Places, async and finish over dynamically spawned processes, with programs that grow and shrink while they run.

Example:
    >>> import apgas
    >>> def main():
    ...     with apgas.finish():
    ...         for place in apgas.places():
    ...             apgas.async_at(place, print, "hello from", place)
    >>> apgas.run(main)  # doctest: +SKIP

The public names (``apgas._public``) are loaded when the first of them is used: a place that joins a running program
needs none of them for that, and is waited for.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apgas._public import *  # noqa: F403 - every public name, and no other
    from apgas._public import __all__ as __all__
else:

    def __getattr__(name):
        """Load the public names.

        Raises:
            AttributeError: There is no such name.
        """
        from importlib import import_module

        public = import_module("apgas._public")
        if name != "__all__" and name not in public.__all__:
            raise AttributeError(f"module 'apgas' has no attribute {name!r}")
        globals().update({known: getattr(public, known) for known in public.__all__}, __all__=public.__all__)
        return globals()[name]

    def __dir__():
        """List the public names, too."""
        return sorted({*globals(), *__getattr__("__all__")})
