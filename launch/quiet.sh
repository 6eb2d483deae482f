# shellcheck shell=bash
# Sourced by the launch scripts: nothing is sent to anybody, and a hang ends with stacks instead of silence.
export HF_HUB_DISABLE_TELEMETRY=1                  # TRL would announce every trainer that is made
export DO_NOT_TRACK=1 VLLM_NO_USAGE_STATS=1        # vLLM's usage statistics
export WANDB_MODE=${WANDB_MODE:-offline}           # only if report_to names wandb at all; online: WANDB_MODE=online
export TRACKIO_DISABLE_TELEMETRY=1
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive} # threads that wait for work leave the core to others
export TORCH_NCCL_ASYNC_ERROR_HANDLING=1 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_BUFFER_SIZE=2000
