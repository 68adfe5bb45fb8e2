"""``mpiexec -n 4 python -m apgas.futures script.py``: runs a script on place 0, whose executor has all the places."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from apgas.runtime.program import run


def main() -> None:
    """Run the script that the command line names, with the arguments behind it."""
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: mpiexec -n 4 python -m apgas.futures script.py [arguments]")
    script = sys.argv[1]
    if not Path(script).is_file():
        sys.exit(f"python -m apgas.futures: {script} is no file")
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(script).resolve().parent)
    run(runpy.run_path, script, run_name="__main__")


if __name__ == "__main__":
    main()
