"""The scheduler's state machine: events in, effects out, no clock, no I/O."""
