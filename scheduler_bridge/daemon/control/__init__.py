"""The users' side of the daemon: the control protocol's server and client, who may do what, and what requests become.

A request comes in at ``server``, which asks ``access`` who calls and what that caller may ask for. ``submission`` makes
events of it, which the daemon's ``driver`` gives to the scheduler core; ``status`` makes the answers. ``client`` is the
other end, of the command line and of programs.
"""
