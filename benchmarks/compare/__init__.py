"""The common part of the commands that compare: arrays, balance, executors, kernels, overheads and others.

Each has a catalogue of what is asked. ``engine`` asks everybody in turn and judges the answers; ``display`` shows them
as tables and pictures; ``command_line`` reads the options; ``child`` holds a contender's processes from outside, and
``contender`` is what these processes have in common. Contenders import nothing else from here, because their memory and
their start are measured.
"""
