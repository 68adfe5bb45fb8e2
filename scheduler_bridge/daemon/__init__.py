"""The live scheduler: real jobs on real (or emulated) nodes.

Embedded in an asyncio program::

    config = DaemonConfig(nodes=("node1", "node2"), policy="malleable", state_dir=Path("state"))
    async with Daemon(config) as daemon:                       # serving when the body begins, all ended after it
        job_id = daemon.submit(JobRequest(name="uts", command=(sys.executable, "-m", "apgas.benchmarks.uts"),
                                          job_class="malleable", nodes=1, min_nodes=1, max_nodes=2, walltime_s=600))
        daemon.snapshot()                                      # Snapshot: nodes, jobs, utilization, at this moment
        await daemon.idle()                                    # until no job waits or runs
        daemon.record()                                        # scheduler_bridge.record.RunRecord

From a program without asyncio (every method may be called from any thread)::

    with DaemonThread(config) as daemon:                       # the same methods, blocking
        job_id = daemon.submit(JobRequest(...))                # SubmitError says what is wrong with a request
        daemon.snapshot(); daemon.resize(job_id, -1); daemon.cancel(job_id); daemon.idle(timeout_s=60); daemon.record()
        daemon.note(text); daemon.note_result(job_id, {...})   # remarks and results for the record
    # left: all jobs ended, state_dir/history.json written

A job's standard output and error are ``job-<id>.out`` and ``job-<id>.err`` in the state folder
(``daemon.output(job_id)`` and ``daemon.errors(job_id)`` are the paths). The job's command is run as
``python -m apgas.launch --hosts node1,node2 -n 2 COMMAND`` (``JobRequest.launch``: "auto", "mpiexec" or "direct"), so
``node1`` and so on need not exist: they are names that the places see (emulated nodes).

``runs(folder)``, ``read_run(folder, number)`` and ``read_runs(folder)`` read the log of a state folder.

A running daemon is also reached through ``state_dir`` by ``ControlClient`` and by the ``malleable`` command, and by
other users through ``DaemonConfig.doors``.
"""

from scheduler_bridge.core import JobStatus, NodeStatus, ReservationStatus, Snapshot
from scheduler_bridge.daemon.config import DaemonConfig, DaemonError, Limits
from scheduler_bridge.daemon.control.access import Door
from scheduler_bridge.daemon.control.client import ControlClient, ControlError, RefusedError
from scheduler_bridge.daemon.daemon import Daemon, DaemonThread
from scheduler_bridge.daemon.jobs.health import Standing
from scheduler_bridge.daemon.requests import JobRequest, SubmitError
from scheduler_bridge.daemon.storage.restore import Run, read_run, read_runs, runs

__all__ = [
    "ControlClient",
    "ControlError",
    "Daemon",
    "DaemonConfig",
    "DaemonError",
    "DaemonThread",
    "Door",
    "JobRequest",
    "JobStatus",
    "Limits",
    "NodeStatus",
    "RefusedError",
    "ReservationStatus",
    "Run",
    "Snapshot",
    "Standing",
    "SubmitError",
    "read_run",
    "read_runs",
    "runs",
]
