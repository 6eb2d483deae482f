#!/usr/bin/env bash
# Train a recipe with a launch file: bash launch/train.sh launch/accelerate/zero2.yaml RECIPE [key=value ...]
#
#   NUM_PROCESSES, NUM_MACHINES, MACHINE_RANK, MAIN_ADDRESS, MAIN_PORT  replace what the launch file says
#   SIF_COMMAND   train (default) or adapt
#
# On CPUs the mixed precision of the GPU files is off: MIXED_PRECISION=no. Stop and call again: it goes on.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/quiet.sh"

if [ $# -lt 2 ]; then
  echo "usage: bash launch/train.sh LAUNCH_FILE RECIPE [key=value ...]" >&2
  exit 2
fi
LAUNCH_FILE=$1
shift

NUM_PROCESSES=${NUM_PROCESSES:-$(sif resolve "$LAUNCH_FILE" --key num_processes)}
NUM_MACHINES=${NUM_MACHINES:-$(sif resolve "$LAUNCH_FILE" --key num_machines)}
MIXED_PRECISION=${MIXED_PRECISION:-$(sif resolve "$LAUNCH_FILE" --key mixed_precision)}
export SIF_WORLD_SIZE=$NUM_PROCESSES # a launch that starts another number stops at once

options=(--config_file "$LAUNCH_FILE" --num_processes "$NUM_PROCESSES" --mixed_precision "$MIXED_PRECISION")
if [ "$NUM_MACHINES" -gt 1 ]; then
  options+=(--num_machines "$NUM_MACHINES" --machine_rank "${MACHINE_RANK:?the rank of this machine, from 0}"
    --main_process_ip "${MAIN_ADDRESS:?the address of machine 0}" --main_process_port "${MAIN_PORT:-29500}")
elif [ -n "${MAIN_PORT:-}" ]; then
  options+=(--main_process_port "$MAIN_PORT")
fi

SIF_ERROR_FILE=$(mktemp) # where a process says why it ends; the launcher prints pages behind that
export SIF_ERROR_FILE
trap 'rm -f "$SIF_ERROR_FILE"' EXIT

status=0
accelerate launch "${options[@]}" -m sif_trainer.cli.main "${SIF_COMMAND:-train}" "$@" || status=$?
if [ -s "$SIF_ERROR_FILE" ]; then
  head -n 1 "$SIF_ERROR_FILE" >&2
  status=2 # as without a launcher: something that its user can mend
elif [ "$status" -ne 0 ]; then
  echo "launch/train.sh: the run ended with status $status: a process failed or was killed; the first error above is" \
    "the cause. The same command goes on from the last complete checkpoint." >&2
fi
exit "$status"
