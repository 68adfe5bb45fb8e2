"""The process that runs one job, apart from the scheduler, so that the job survives the scheduler's death.

``python -m scheduler_bridge.jobrunner`` reads a ``Launch`` (JSON) from its standard input, runs it in a session of its
own and writes what a scheduler has to know, now or after its restart, as notes (``notes.Notes``) into the state folder.
TERM ends the job; USR1 has it note the shared memory that the job uses. It needs nothing but the standard library, so
that it is there quickly.
"""
