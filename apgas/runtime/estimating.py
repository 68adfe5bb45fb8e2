"""``apgas.estimate``: how long an order would take."""

from __future__ import annotations

from apgas.core.estimate import Estimate, samples_of
from apgas.core.estimate import estimate as estimate_from
from apgas.core.resize import Kind
from apgas.errors import UsageError
from apgas.runtime.program import program


def estimate(*, grow: int = 0, shrink: int = 0) -> Estimate | None:
    """(place 0) Estimate how long an order would take, from the resizes of this run and a calibration.

    Each phase is taken to last ``a + b n`` seconds for ``n`` places, fitted so that outliers do not matter. As long as
    this run has seen less than three resizes of that kind, those of earlier runs count as well, if
    ``APGAS_CALIBRATION`` names a file to keep them in.

    Args:
        grow: By how many nodes; or
        shrink: by how many.

    Returns:
        The estimate; None if no resize of that kind is known.

    Raises:
        UsageError: Not on place 0, or not exactly one of the numbers is given and at least 1.

    Example:
        >>> import time
        >>> from apgas.testing.handlers import ReleaseNewest
        >>> apgas.define_malleable_handler(ReleaseNewest())
        >>> apgas.estimate(grow=4) is None  # nothing is known before the first one
        True
        >>> apgas.schedule_orders("0:+1")
        >>> while not apgas.resizes():
        ...     time.sleep(0.01)
        >>> expected = apgas.estimate(grow=4)
        >>> expected.nodes, expected.samples, expected.seconds > 0
        (4, 1, True)
    """
    if min(grow, shrink) != 0 or max(grow, shrink) < 1:
        raise UsageError(f"estimate(grow=N) or estimate(shrink=N) with N of at least 1, not {grow} and {shrink}")
    resizing = program().resizing
    kind: Kind = "grow" if grow else "shrink"
    nodes = grow or shrink
    earlier = resizing.calibration.samples() if resizing.calibration is not None else []
    places = nodes * resizing.places_per_node
    return estimate_from(kind, nodes, places, samples_of(resizing.records), earlier)
