"""The benchmarks, by a name that no folder of a user's own can hide: ``python -m apgas.benchmarks.uts``.

A wheel has their modules in this folder. In a checkout they stand in the folder ``benchmarks`` at its root, where they
have the short name ``benchmarks``, too; they import one another relatively, so a process knows them by one name only.
"""

import os.path

_here = os.path.dirname(__file__)
_in_checkout = os.path.join(os.path.dirname(os.path.dirname(_here)), "benchmarks")
if not os.path.isdir(os.path.join(_here, "harness")):
    __path__.append(_in_checkout)
