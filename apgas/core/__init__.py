"""Pure state machines of the runtime: events in, effects out; no I/O, time or threads.

``place`` is one place: it composes ``finish`` (when a finish fires, what is cancelled, what is referred to) and
``membership`` (who belongs to the job, how a place leaves), and says by ``effects`` what its driver has to do;
``resilient`` is a place that survives the loss of others. ``messages`` are what places send each other. On place 0,
``order`` is the life of an order to grow or to shrink, in the vocabulary of ``resize``.
"""
