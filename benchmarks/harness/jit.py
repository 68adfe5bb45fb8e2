"""Where compiled kernels are kept, so that a place that joins loads them instead of compiling them."""

from __future__ import annotations

import importlib
import importlib.util
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def has_numba() -> bool:
    """Return whether compiled kernels are available and wanted, without importing numba (half a second).

    With ``NUMBA_DISABLE_JIT=1``, which is for looking into kernels, the plain ones run.
    """
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0") and importlib.util.find_spec("numba") is not None


def compiled(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator of a kernel, which is compiled, and runs without the GIL, where compiled kernels are wanted.

    Elsewhere it stays as it is; NumPy's whole numbers wrap in it without a warning, as they do in compiled code.
    """
    if has_numba():
        from numba import njit

        kept: Callable[[Callable[..., Any]], Any] = njit(signature, nogil=True, cache=True)
        return kept
    import numpy as np

    return np.errstate(over="ignore")


def setup_cache() -> None:
    """Make sure that numba finds a folder that it can write; call it before the first import of a kernel.

    numba keeps compiled code beside the source, or else in the user's cache folder. Where neither can be written (a
    read-only installation without a home) every place would compile anew, and some versions of numba refuse: then a
    private folder below the system's temporary folder is used. A user's own ``NUMBA_CACHE_DIR`` is left alone.

    Compiled code names the modules that it was made of. In a checkout they have two names, and ``apgas.benchmarks`` has
    a cache of its own: loading what ``benchmarks`` has compiled would import whatever bears that name.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    package = importlib.import_module(__package__.rpartition(".")[0])
    known_as = Path(str(package.__file__)).parent
    if known_as != Path(__file__).parents[1] and is_writable(known_as):
        os.environ["NUMBA_CACHE_DIR"] = str(known_as / "__pycache__")
        return
    if is_writable(Path(__file__).parent) or is_writable(user_cache()):
        return
    folder = Path(tempfile.gettempdir()) / f"malleable-apgas-numba-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid == os.getuid():  # never load code that someone else could have put there
        os.environ["NUMBA_CACHE_DIR"] = str(folder)


def user_cache() -> Path:
    """Return the folder for what can be made anew."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())


def is_writable(folder: Path) -> bool:
    """Return whether files can be made in ``folder``, or in what would become its parents."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
