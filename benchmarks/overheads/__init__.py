"""The runtime's costs, beside the machine's floor and beside other runtimes: ``python -m benchmarks.overheads``."""
