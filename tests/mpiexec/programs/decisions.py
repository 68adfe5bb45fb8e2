"""Prints where the scheduler's core comes from, and a digest of all that each policy decides and brings about."""

from __future__ import annotations

import hashlib
import json
import sys

from scheduler_bridge import policies
from scheduler_bridge.core import Settings, scheduler
from scheduler_bridge.sim import ReplayOptions, engine, replay
from scheduler_bridge.workloads import convert
from scheduler_bridge.workloads.generate import generate


def digest(policy: str) -> str:
    """What happens to jobs half of which are malleable; walltimes scaled, and as submitted at intervals."""
    found = hashlib.sha256()
    workload = convert(generate("lublin", seed=7, jobs=300, load=1.0), 0.5, 3)
    cores = 4 if policy == "sd-policy" else 1
    for tick_s, settings in (
        (0.0, Settings(walltime="scaled", cores_per_node=cores)),
        (60.0, Settings(pass_interval_s=300.0, cooldown_s=60.0, cores_per_node=cores)),
    ):
        done = replay(
            workload,
            policies.get(policy),
            options=ReplayOptions(settings=settings, tick_s=tick_s),
            observer=lambda now, events, effects: found.update(repr((now, events, effects)).encode()),
        )
        for record in done.result.records.values():
            found.update(repr(record).encode())
    return found.hexdigest()


if __name__ == "__main__":
    files = [str(scheduler.__file__), str(engine.__file__)]
    json.dump({"files": files, "digests": {name: digest(name) for name in policies.names()}}, sys.stdout)
