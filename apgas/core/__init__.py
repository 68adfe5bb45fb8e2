"""Pure state machines of the runtime: no I/O, time or threads."""
