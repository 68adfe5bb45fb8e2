"""The jobs' side of the daemon: their processes, and the job protocol by which they are ordered to grow and shrink.

``template`` makes of a request what is executed, and ``executor`` starts and ends it by a runner of its own.
``server`` carries lines between a job's connection and its ``session`` (pure). ``orders`` sends the core's orders
there, and makes events of the answers; ``health`` knows the nodes and jobs that do not answer.
"""
