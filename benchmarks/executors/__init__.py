"""The executor beside other pools of processes: ``python -m benchmarks.executors``."""
