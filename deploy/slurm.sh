#!/bin/bash
# savemark run --emit slurm acceptance /lustre/mine
# 4 nodes with 8 ranks each. Submit it from a directory that every node sees: sbatch slurm.sh
#SBATCH --job-name=savemark-acceptance
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --exclusive
# Twice what a dry run forecasts for a storage of 1 GB/s. What is unfinished then goes on in the next allocation.
#SBATCH --time=03:30:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=savemark-acceptance-%j.log
##SBATCH --account=
##SBATCH --partition=
set -euo pipefail

# The job keeps its number when it is requeued, so it finds its run again.
run=$SLURM_SUBMIT_DIR/savemark-runs/acceptance-$SLURM_JOB_ID
words=(acceptance /lustre/mine --out "$run")
if [ -f "$run/run.json" ]; then
    words=(--resume "$run")
fi

finished() {
    if [ -f "$run/records.jsonl" ]; then wc -l <"$run/records.jsonl"; else echo 0; fi
}
before=$(finished)

# Two minutes before the time is over: savemark ends the trial in flight, and keeps those that are finished.
stopped=
stop() {
    stopped=yes
    kill -TERM "$step" 2>/dev/null || true
}

srun --kill-on-bad-exit=1 savemark run "${words[@]}" &
step=$!
trap stop TERM
code=0
wait "$step" || code=$?
if [ -n "$stopped" ]; then
    # The signal ended the waiting, not the step.
    code=0
    wait "$step" || code=$?
fi

if [ -n "$stopped" ] && [ "$code" -ne 0 ]; then
    if [ "$(finished)" -gt "$before" ]; then
        scontrol requeue "$SLURM_JOB_ID"
        exit 0
    fi
    echo "error: no trial ended within the time limit, so another one would not help" >&2
    echo "hint: sbatch --time=… with more than one trial takes" >&2
fi
exit "$code"
