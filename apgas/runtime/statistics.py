"""What a place has done so far, in numbers."""

from __future__ import annotations

import msgspec

from apgas.runtime import current


class Statistics(msgspec.Struct, frozen=True):
    """Counts of one place since the program began there.

    Attributes:
        messages_sent: Messages to other places, the runtime's own included.
        activities_run: Activities that ended well here; about, for it is counted without a lock.
    """

    messages_sent: int
    activities_run: int


def statistics() -> Statistics:
    """Tell what this place has done so far: ``apgas.gather(apgas.statistics)`` asks all of them.

    Returns:
        Its counts.

    Raises:
        UsageError: Called outside of ``apgas.run``.

    Example:
        >>> counts = apgas.gather(apgas.statistics)
        >>> sum(each.messages_sent for each in counts.values()) >= 2 * (len(counts) - 1)
        True
    """
    driver = current.required()
    return Statistics(driver.messages_sent, driver.activities_run)
