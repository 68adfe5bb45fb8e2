#!/bin/bash
# The embedded scheduler as a Slurm job, which drives the nodes of its allocation:
#
#   sbatch --nodes=4 --exclusive --no-kill --time=120 launch/slurm/serve.sh --policy malleable
#   malleable slurm at JOB submit --min 1 --max 4 -- python -m benchmarks.uts --depth 15
#   malleable slurm at JOB queue
#
# Submit it from the checkout, whose .venv it uses, or name another environment with MALLEABLE_VENV. The arguments are
# options of `malleable serve`.
set -euo pipefail
cd "$SLURM_SUBMIT_DIR"
# shellcheck disable=SC1091 # it is made by launch/setup_venv.py
source "${MALLEABLE_VENV:-.venv}/bin/activate"
# in the place of the shell, so that it hears of the end of the job at once
exec malleable serve --backend slurm "$@"
