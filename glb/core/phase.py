"""What a place is about.

| phase      | meaning                                  | left by                                              |
|------------|------------------------------------------|------------------------------------------------------|
| JOINING    | no worker yet; asks nobody               | receive -> WORKING; begin -> STEALING                |
| WAITING    | no worker; lifelines asked; silent       | receive -> WORKING                                   |
| STEALING   | no worker; one random victim asked       | receive -> WORKING; refused (last try) -> WAITING    |
| WORKING    | workers alive                            | last worker dry -> STEALING; evacuate -> EVACUATING  |
| EVACUATING | workers hand out their bags as they stop | last worker and attendant stopped -> EVACUATED       |
| EVACUATED  | no worker; passes on what still arrives  | readmit -> JOINING                                   |
| ABORTED    | the computation failed; drops everything | -                                                    |

``evacuate`` takes an idle place to EVACUATED at once; ``abort`` takes every phase to ABORTED.
"""

from __future__ import annotations

import enum


class Phase(enum.Enum):
    """See the table of the module."""

    JOINING = enum.auto()
    WAITING = enum.auto()
    STEALING = enum.auto()
    WORKING = enum.auto()
    EVACUATING = enum.auto()
    EVACUATED = enum.auto()
    ABORTED = enum.auto()
