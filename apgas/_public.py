"""The public names of ``apgas``, all of them loaded."""

from apgas.core.identity import Place
from apgas.core.resize import Deadlines, Estimate, ResizeRecord
from apgas.errors import (
    ApgasError,
    CancelledError,
    DeadlineError,
    DeadPlaceError,
    PlaceGoneError,
    SlowPeerError,
    UsageError,
)
from apgas.malleability.core_ids import CoreIds
from apgas.malleability.handler import MalleableHandler
from apgas.malleability.sizing import Measured, Sizing
from apgas.runtime.api import (
    FinishScope,
    Statistics,
    async_,
    async_at,
    at,
    attach,
    cancel,
    cancelled,
    capture,
    deadline,
    finish,
    here,
    immediate,
    place,
    places,
    statistics,
    uncounted,
)
from apgas.runtime.collectives import broadcast, comm, gather, reduce
from apgas.runtime.context import Future
from apgas.runtime.driver import PlaceState
from apgas.runtime.logs import configure_logging
from apgas.runtime.malleable import (
    at_safe_point,
    core_ids,
    define_malleable_handler,
    disable_malleable_handler,
    drain_orders,
    estimate,
    nodes,
    offer_shrink,
    on_place_failure,
    progress,
    request_grow,
    resilient,
    resizes,
    safe_point,
    schedule_orders,
    shrink_wish,
)
from apgas.runtime.program import run, trace
from apgas.runtime.refs import GlobalRef, PlaceLocal
from apgas.runtime.sizing import SelfSizing, hold_efficiency
from apgas.runtime.trace import between as trace_between
from apgas.runtime.trace import instant as trace_instant
from apgas.runtime.trace import span as trace_span

__all__ = [
    "ApgasError",
    "CancelledError",
    "CoreIds",
    "DeadPlaceError",
    "DeadlineError",
    "Deadlines",
    "Estimate",
    "FinishScope",
    "Future",
    "GlobalRef",
    "MalleableHandler",
    "Measured",
    "Place",
    "PlaceGoneError",
    "PlaceLocal",
    "PlaceState",
    "ResizeRecord",
    "SelfSizing",
    "Sizing",
    "SlowPeerError",
    "Statistics",
    "UsageError",
    "async_",
    "async_at",
    "at",
    "at_safe_point",
    "attach",
    "broadcast",
    "cancel",
    "cancelled",
    "capture",
    "comm",
    "configure_logging",
    "core_ids",
    "deadline",
    "define_malleable_handler",
    "disable_malleable_handler",
    "drain_orders",
    "estimate",
    "finish",
    "gather",
    "here",
    "hold_efficiency",
    "immediate",
    "nodes",
    "offer_shrink",
    "on_place_failure",
    "place",
    "places",
    "progress",
    "reduce",
    "request_grow",
    "resilient",
    "resizes",
    "run",
    "safe_point",
    "schedule_orders",
    "shrink_wish",
    "statistics",
    "trace",
    "trace_between",
    "trace_instant",
    "trace_span",
    "uncounted",
]
