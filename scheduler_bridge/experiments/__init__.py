"""The papers' experiments, repeated: each ends in tables beside the papers' numbers, in figures and in data.

A folder is a paper: ``cells`` has its workloads and one simulation, which travels to other places, or ``campaign`` what
is run for real; ``study`` has everything made of the results, and ``claims.toml`` what the paper prints. Simulations
run in a ``sweep``, on places by ``simulations``. Their rows, or the records of real runs, go to ``study.run``, which
takes means and judges claims by the engine in ``study`` and returns a ``study_report``: CSV, PNG and a page. A
``comparison`` is such a study of policies on a workload of the user's; ``merit`` holds the simulator against real runs,
those of ``published_runs`` and those of ``real_runs``.

``run`` of a paper whose simulations are a sweep is given the folder of the reference data, without which logs are left
out, and a ``Sweeping``. It raises ``SweepFileError`` where the folder of that holds rows of another kind,
``TraceError`` where a log cannot be read, ``OSError`` where files cannot.
"""
