"""Wire protocol v1, the text lines of the published Java system, for jobs and schedulers that speak nothing else.

``communicator``: a job of ours under such a scheduler. ``gate``: such a job under a scheduler of ours. Both are thin
drivers of pure machines (``jobside``, ``translator``) that share the words in ``lines``. There is no authentication in
v1: nothing of it is used unless asked for.
"""
