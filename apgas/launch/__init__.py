"""``python -m apgas.launch -n 4 prog.py``: start a job that only its user can reach, in the place of mpiexec."""

from typing import Final

ENV_REACHED: Final = "MALLEABLE_REACHED"
"""What starts an agent may set this: all that came of the agent can be found by it."""
