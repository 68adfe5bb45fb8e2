"""Transports, which deliver frames between places: in order, once, or with a report that the peer is gone.

``base`` is the contract. ``tcp`` keeps it over connections (``channel``) that begin with a handshake (``auth``) and
carry frames (``wire``); places of one machine meet at a ``unix_socket`` and lend each other memory (``shared``).
``mpi`` has large buffers travel by MPI beside it, on ``communicators``, with an ``engine`` that looks after transfers.
Each has an event ``loop``, the io thread.
"""
