"""The papers' experiments, repeated: each ends in tables beside the papers' numbers, in figures and in data.

A folder is a paper: ``cells`` has its workloads and one simulation, which travels to other places, or ``plan`` what is
run for real; ``study`` has everything made of the results, and ``claims.toml`` what the paper prints. Simulations run
in a ``sweep``, on places by ``simulations``; their rows, or the records of real runs, go to ``study.run``, which takes
means and judges claims by the engine in ``study`` and returns an ``outcome``, which is written as CSV, PNG and a page.
"""
