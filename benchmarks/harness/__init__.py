"""The common part of the benchmarks: options, the run, verification, progress, the summary table and the JSON result.

Nothing heavy is imported here: every place imports the benchmark's ``__main__``, but only place 0 parses and reports.
"""
