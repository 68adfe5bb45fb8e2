"""Wire protocol v1, the text lines of the published Java system, for jobs and schedulers that speak nothing else.

``communicator``: a job of ours under such a scheduler. ``gate``: such a job under a scheduler of ours. Both are thin
drivers of a pure machine each (``JobSide``, ``Translator``) that share the words and the port in ``lines``. There is no
authentication in v1: nothing of it is used unless asked for. The start of a program (``apgas.runtime.program``) chooses
it by a variable; no other module imports it. The lines for administrators are ``scheduler_bridge.daemon.v1``.
"""
