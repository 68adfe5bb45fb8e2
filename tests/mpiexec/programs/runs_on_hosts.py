"""Real runs on the hosts of an emulated cluster. Arguments: HOSTS LAUNCHER OUT. Prints how the jobs ended."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from scheduler_bridge.backends.hosts import HostsConfig, Rules, launcher_of
from scheduler_bridge.experiments.real_runs.campaign import Campaign, Site, alone_in, calibrate
from scheduler_bridge.experiments.real_runs.runner import Runner, run_all
from scheduler_bridge.experiments.real_runs.study import conclude


def main(hosts: str, launcher: str, out: str) -> None:
    site, folder = Site(HostsConfig(Path(hosts), launcher_of(launcher), Rules())), Path(out)
    campaign = Campaign(("malleable",), (100,), (45,), jobs=3, time=0.01).at(site)
    with alone_in(folder, site):
        problems = calibrate(campaign.problems(), folder)
        records = run_all(Runner(campaign, problems, folder, site=site))
    outcome = conclude(campaign, records, None, problems, site)
    (record,) = records.values()
    jobs = [[job.state, job.verified] for job in record.jobs]
    ran_on = sorted({node for job in record.jobs for segment in job.segments for node in segment.nodes})
    print(json.dumps({"passed": outcome.passed, "jobs": jobs, "nodes": ran_on, "said": " ".join(outcome.remarks)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
