"""The problems of the demo, sized so that their results are known, and the speed of an emulated node.

A node's speed is one fixed rate per problem, at most 40 % of what one core does, so that four nodes fit on two cores.
The rates below are 40 % (BC: 20 %, which makes the small graph last) of the rates measured on an AMD EPYC core; a
slower core gets slower nodes, a faster one is paced to the same node.
"""

from __future__ import annotations

from typing import Final

from scheduler_bridge.demo.batch import Configuration, Shape

SHARE: Final = 0.40
"""Most of a core that an emulated node may use."""

NODE_RATES: Final = {"uts": 143e6, "nqueens": 184e6, "bc": 460.0, "pi": 416e6}
"""Tasks per second of one emulated node, by benchmark (units: ``UNITS``)."""

UNITS: Final = {"uts": "nodes", "nqueens": "tree nodes", "bc": "sources", "pi": "samples"}

CALIBRATION: Final = {
    "uts": ("--depth", "13"),
    "nqueens": ("-n", "16"),
    "pi": ("--samples", "1e9"),
}
"""What is run once at full speed to learn what a core does, where the batch's own problem is not ``COMPARED``."""

TRIFLES: Final = {
    "uts": ("--depth", "6"),
    "nqueens": ("-n", "6"),
    "bc": ("--scale", "4"),
    "pi": ("--samples", "1e4"),
}
"""Problems that take no time: what remains is the start of the program, which does not count."""

COMPARED: Final = frozenset({"bc"})
"""Benchmarks without recorded results: they are calibrated with the batch's own problem, and the jobs' results are then
compared with that of the calibration, which a sequential run verified.
"""

_UTS_14 = Configuration("uts", ("--depth", "14"), "14", 7.4, ((1, 1.5), (2, 0.5)), (1, 2))
_UTS_15 = Configuration("uts", ("--depth", "15"), "15", 29.6, ((2, 1.0), (4, 0.5)), (1, 4))
_QUEENS_17 = Configuration("nqueens", ("-n", "17"), "17", 7.5, ((1, 1.0), (2, 1.0)), (1, 3))
_BC_13 = Configuration("bc", ("--scale", "13"), "13", 17.8, ((2, 2.0), (3, 1.5)), (1, 4))
_PI_10 = Configuration("pi", ("--samples", "1e10"), "10", 24.0, ((2, 2.0), (4, 1.5)), (1, 4))

_UTS_13 = Configuration("uts", ("--depth", "13"), "13", 1.9, ((1, 1.0),), (1, 2))
_QUEENS_16 = Configuration("nqueens", ("-n", "16"), "16", 1.1, ((1, 1.0), (2, 1.0)), (1, 2))
_BC_11 = Configuration("bc", ("--scale", "11"), "11", 4.5, ((1, 1.0), (2, 1.0)), (1, 3))
_PI_9 = Configuration("pi", ("--samples", "1e9"), "9", 2.4, ((1, 1.0), (2, 1.0)), (1, 2))

MAIN: Final = Shape(
    mix=(_UTS_14, _UTS_15, _QUEENS_17, _BC_13, _PI_10), jobs=(10, 12), work_node_s=(150.0, 190.0), malleable=6
)
QUICK: Final = Shape(
    mix=(_UTS_13, _UTS_14, _QUEENS_16, _BC_11, _PI_9),
    jobs=(6, 6),
    work_node_s=(22.0, 32.0),
    malleable=3,
    window_s=6.0,
    at_once=3,
)
