"""Measures a scheduler under load: many waiting jobs, many connected malleable ones, and many messages a second.

The daemon is a real one, in a process of its own (``daemon``): its log, its sockets, its decisions. The jobs are
stand-ins: none has a process, and one process of the measurement speaks the wire protocol for all of them (``stage``).
"""
