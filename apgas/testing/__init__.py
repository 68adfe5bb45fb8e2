"""Tests of malleable programs without MPI: simulated jobs, a fixture of pytest, and a plain handler.

``job`` runs a program on places that are threads of one process, and lets the test give orders as a scheduler;
``pytest_plugin`` has the fixture ``apgas_job`` for it.
"""
