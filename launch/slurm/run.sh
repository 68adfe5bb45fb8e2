#!/bin/bash
# A malleable program as a Slurm job, which grows and shrinks together with its allocation:
#
#   sbatch --nodes=2 --exclusive --time=60 launch/slurm/run.sh --max-nodes 4 -- python -m benchmarks.uts --depth 16
#   malleable slurm resize JOB --grow 2
#
# Submit it from the checkout, whose .venv it uses, or name another environment with MALLEABLE_VENV. What stands before
# -- are options of `malleable slurm run`.
set -euo pipefail
cd "$SLURM_SUBMIT_DIR"
# shellcheck disable=SC1091 # it is made by launch/setup_venv.py
source "${MALLEABLE_VENV:-.venv}/bin/activate"
# in the place of the shell, so that it hears of the end of the job at once
exec malleable slurm run "$@"
