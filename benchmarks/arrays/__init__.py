"""Programs with arrays beside their rigid twins, and how fast rows move: ``python -m benchmarks.arrays``.

``contenders.py`` is the processes that are measured: the examples of the documentation, ours and the twins with mpi4py.
"""
