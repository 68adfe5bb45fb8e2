"""Runs the tests that CPython has of its executors, or mpi4py of its own, on ours; prints how many, or what failed.

The arguments: whose tests, and the name of the module that has them. Those in EXEMPT are left out.
"""

from __future__ import annotations

import os
import sys
import time
import unittest
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

import mpi4py.futures

from apgas.futures import MalleableExecutor

OTHER_IMPORT = "the script that it starts imports the executor from concurrent.futures"
INTERNALS = "it looks at private attributes of the other pools"
OF_PROCESSES = "it is about the start of processes by multiprocessing, and what is made for that"
HARMLESS = "what breaks a process pool fails one task here: see futures_trouble.py"
REMOTE_TRACEBACK = "the remote traceback is a note of the error, not a private class"
UNPICKLABLE = "what cannot be pickled raises a TypeError that says which argument it is"
NAMES = "the argument is called places, and messages say so"
EXEMPT = {
    "cpython": {
        "ExecutorShutdownTest.test_interpreter_shutdown": OTHER_IMPORT,
        "ExecutorShutdownTest.test_submit_after_interpreter_shutdown": OTHER_IMPORT,
        "ExecutorShutdownTest.test_hang_gh83386": OTHER_IMPORT,
        "ExecutorShutdownTest.test_hang_gh94440": OTHER_IMPORT,
        "ExecutorShutdownTest.test_cancel_futures": "it assumes that some tasks have begun by its next statement",
        "FailingInitializerMixin.test_initializer": INTERNALS,
        "ProcessPoolExecutorTest.test_force_shutdown_workers": INTERNALS,
        "ProcessPoolExecutorTest.test_idle_process_reuse_multiple": INTERNALS,
        "ProcessPoolExecutorTest.test_idle_process_reuse_one": INTERNALS,
        "ProcessPoolExecutorTest.test_killed_child": HARMLESS,
        "ProcessPoolExecutorTest.test_max_tasks_early_shutdown": OF_PROCESSES,
        "ProcessPoolExecutorTest.test_max_tasks_per_child": OF_PROCESSES,
        "ProcessPoolExecutorTest.test_max_tasks_per_child_defaults_to_spawn_context": OF_PROCESSES,
        "ProcessPoolExecutorTest.test_max_workers_negative": NAMES,
        "ProcessPoolExecutorTest.test_process_pool_executor_terminate_workers": INTERNALS,
        "ProcessPoolExecutorTest.test_python_finalization_error": INTERNALS,
        "ProcessPoolExecutorTest.test_ressources_gced_in_workers": OF_PROCESSES,
        "ProcessPoolExecutorTest.test_saturation": INTERNALS,
        "ProcessPoolExecutorTest.test_traceback": REMOTE_TRACEBACK,
    },
    "mpi4py": {
        "ProcessPoolInitTest.test_initializer_error": "places stay there after an initializer has failed",
        "ProcessPoolInitTest.test_max_workers": INTERNALS,
        "ProcessPoolPickleTest.test_bad_pickle": UNPICKLABLE,
        "ProcessPoolPickleTest.test_exc_pickle": UNPICKLABLE,
        "ProcessPoolPickleTest.test_exc_unpickle": REMOTE_TRACEBACK,
        **dict.fromkeys(
            [
                "ProcessPoolInitTest.test_get_comm_workers",
                "ProcessPoolInitTest.test_init_globals",
                "ProcessPoolInitTest.test_init_kwargs",
                "ProcessPoolInitTest.test_init_pyargs",
                "ProcessPoolInitTest.test_init_sys_flags",
                "ProcessPoolInitTest.test_max_workers_environ",
                "ProcessPoolInitTest.test_run_name",
                "ProcessPoolInitTest.test_use_pkl5_environ",
                "ProcessPoolInitTest.test_use_pkl5_kwarg",
                "ProcessPoolSubmitTest.test_mpi_serialized_support",
            ],
            "it is about MPI, or about settings of the processes that this executor does not have",
        ),
        **dict.fromkeys(
            [
                "ProcessPoolInitTest.test_initializer_error_del",
                "ProcessPoolInitTest.test_initializer_error_del_nowait",
                "ProcessPoolShutdownTest.test_init_bootup_shutdown",
                "ProcessPoolExecutorTest.test_map_buffersize",
                "ProcessPoolExecutorTest.test_map_unordered",
                "ProcessPoolExecutorTest.test_map_unordered_chunksize",
                "ProcessPoolExecutorTest.test_map_unordered_exception",
                "ProcessPoolExecutorTest.test_map_unordered_timeout",
                "ProcessPoolExecutorTest.test_map_unordered_timeout_one",
                "ProcessPoolExecutorTest.test_starmap",
                "ProcessPoolExecutorTest.test_starmap_chunksize",
            ],
            "it uses bootup, starmap or the argument unordered of map, which only mpi4py has",
        ),
        **dict.fromkeys(
            [
                "ProcessPoolShutdownTest.test_context_manager_shutdown",
                "ProcessPoolShutdownTest.test_del_shutdown",
                "ProcessPoolShutdownTest.test_shutdown",
                "ProcessPoolShutdownTest.test_shutdown_cancel",
                "ProcessPoolShutdownTest.test_submit_shutdown_cancel",
                "ProcessPoolShutdownTest.test_submit_shutdown_cancel_wait",
                "ProcessPoolSubmitTest.test_multiple_executors",
                "ProcessPoolSubmitTest.test_shared_executors",
            ],
            "it opens an executor beside another one: here a program has one at a time, and says so",
        ),
    },
}
"""Tests that do not apply, with the reasons."""
CLASSES = {
    "cpython": {
        "test_init": ["InitializerMixin", "FailingInitializerMixin"],
        "test_shutdown": ["ExecutorShutdownTest"],
        "test_wait": ["WaitTests"],
        "test_as_completed": ["AsCompletedTests"],
        "test_process_pool": ["ProcessPoolExecutorTest"],
    },
    "mpi4py": {
        "": [
            "ProcessPoolInitTest",
            "ProcessPoolShutdownTest",
            "ProcessPoolWaitTest",
            "ProcessPoolAsCompletedTest",
            "ProcessPoolExecutorTest",
            "ProcessPoolSubmitTest",
            "ProcessPoolPickleTest",
        ]
    },
}
"""Classes with tests of any executor, or of one with processes, by the module in which a package has them."""


class Ours(MalleableExecutor):
    """Takes the arguments that the others have."""

    tests: ClassVar[str | None] = None
    """The module whose tests begin when all places have loaded it: they may count on less than that takes."""

    def __init__(self, max_workers: int | None = None, *, mp_context: object = None, **settings: Any) -> None:
        super().__init__(max_workers, **settings)
        ready: set[int] = set()
        while self.tests is not None and len(ready) < len(self.places):
            ready.update(self.map(loaded, [self.tests] * 2 * len(self.places)))

    @property
    def num_workers(self) -> int:
        """What mpi4py calls the number of places."""
        return len(self.places)


def loaded(module: str) -> int:
    """Load the module; return where."""
    import_module(module)
    time.sleep(0.01)
    return os.getpid()


def tests(whose: str, module: ModuleType) -> unittest.TestSuite:
    """Those of a module or package, on our executor."""
    found = unittest.TestSuite()
    for part, names in CLASSES[whose].items():
        inner = import_module(f"{module.__name__}.{part}") if hasattr(module, "__path__") else module
        for name in names:
            their = getattr(inner, name)
            bases = (their,) if issubclass(their, unittest.TestCase) else (their, mixin(module), unittest.TestCase)
            exempt = {test.partition(".")[2]: None for test in EXEMPT[whose] if test.partition(".")[0] == name}
            case = type(name, bases, {"executor_type": Ours, **exempt})
            found.addTest(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    return found


def mixin(module: ModuleType) -> type:
    """What opens CPython's executor before a test."""
    found: type = (import_module(f"{module.__name__}.util") if hasattr(module, "__path__") else module).ExecutorMixin
    return found


if __name__ == "__main__":
    whose, name = sys.argv[1:3]
    if whose == "mpi4py":  # its tests open it by this name, too
        mpi4py.futures.MPIPoolExecutor = Ours  # type: ignore[assignment, misc]
    suite = tests(whose, import_module(name))
    ran, failed = 0, []
    for _ in range(3):  # some are decided by how long a task sleeps, and a busy machine may upset that once
        result = unittest.TextTestRunner(sys.stdout, verbosity=2).run(suite)
        ran = ran or result.testsRun - len(result.skipped)
        failed = [test for test, _ in [*result.failures, *result.errors]]
        if not failed:
            break
        suite = unittest.TestSuite(type(test)(test.id().rpartition(".")[2]) for test in failed)
        Ours.tests = name
    print(f"{ran} of theirs ran, {len(EXEMPT[whose])} are exempt")
    sys.exit(bool(failed))
