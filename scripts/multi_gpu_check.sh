#!/usr/bin/env bash
# What needs several GPUs of one host: the same training on 1 to 8 of them, resumes on other numbers,
# faults, all-reduce by size, and samples/s by the number of GPUs.
#
# Usage: scripts/multi_gpu_check.sh [CHECK]...
# CHECK              only these: correctness scaling all-reduce buckets
# BUILD and PYTHON: as scripts/gpu_setup.sh tells.
set -euo pipefail
cd "$(dirname "$0")/.."

only=("$@")
. scripts/gpu_setup.sh
gpus=$( { nvidia-smi -L 2>/dev/null || true; } | grep -c '^GPU' || true)
if [ "$gpus" -lt 2 ]; then
  echo "multi_gpu_check: $gpus GPU here, and at least 2 are needed" >&2
  exit 5
fi

check correctness timeout 420 "$python" tests/multirank/train/multi_gpu_test.py
check scaling timeout 400 "$python" bench/compare.py scaling --rounds 1
check all-reduce timeout 120 "$LONGSHIP_BINARY" launch -n "$gpus" -- bench allreduce
check buckets timeout 200 "$python" bench/compare.py buckets --rounds 1

end_checks multi_gpu_check
