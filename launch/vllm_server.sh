#!/usr/bin/env bash
# Serve a recipe's model to its trainer, on GPUs of its own: bash launch/vllm_server.sh RECIPE [key=value ...]
#
#   NUM_GPUS  tensor parallel size (default 1);   HOST, PORT  where it listens (default: any address, the recipe's port)
#
# The recipe has use_vllm: true and vllm_mode: server; vllm_server_host names this machine. Needs CUDA: the trainer sends
# its weights over NCCL.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/quiet.sh"

RECIPE=${1:?usage: bash launch/vllm_server.sh RECIPE [key=value ...]}
shift
values=$(sif resolve "$RECIPE" "$@" --key vllm_mode --key model --key vllm_server_port --key vllm_max_model_length)
{ read -r mode && read -r model && read -r port && read -r length || true; } <<<"$values"
if [ "$mode" != server ]; then
  echo "launch/vllm_server.sh: vllm_mode of $RECIPE is '$mode'; only 'server' wants one" >&2
  exit 2
fi
options=(--model "$model" --tensor_parallel_size "${NUM_GPUS:-1}" --host "${HOST:-0.0.0.0}" --port "${PORT:-$port}")
if [ -n "$length" ]; then
  options+=(--max_model_len "$length")
fi
exec trl vllm-serve "${options[@]}"
