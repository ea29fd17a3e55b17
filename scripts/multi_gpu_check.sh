#!/usr/bin/env bash
# What needs several GPUs of one host: the same training on 1 to 8 of them, resumes on other numbers,
# faults, all-reduce by size, and samples/s by the number of GPUs.
#
# BUILD and PYTHON: as scripts/gpu_setup.sh tells.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/gpu_setup.sh
gpus=$( { nvidia-smi -L 2>/dev/null || true; } | grep -c '^GPU' || true)
if [ "$gpus" -lt 2 ]; then
  echo "multi_gpu_check: $gpus GPU here, and at least 2 are needed" >&2
  exit 5
fi

# Weak scaling: 256 windows a rank.
scaling() {
  local ranks preset batch
  for preset in seed-lstm:256 patch-transformer:32; do
    batch=${preset#*:}
    for ranks in 1 2 4 8; do
      [ "$ranks" -le "$gpus" ] || break
      echo "${preset%:*} on $ranks:"
      timeout 90 "$LONGSHIP_BINARY" launch -n "$ranks" -- bench train --preset "${preset%:*}" \
        --set comm.backend=nccl --set precision.mode=bf16 \
        --set train.batch_size=$((batch * ranks)) --set train.micro_batch_size="$batch" \
        2>/dev/null | grep -E '^(graph|step|samples|exposed)' || return 1
    done
  done
}

check correctness timeout 300 "$python" tests/multirank/train/multi_gpu_test.py
check scaling scaling
check all-reduce timeout 120 "$LONGSHIP_BINARY" launch -n "$gpus" -- bench allreduce
end_checks multi_gpu_check
