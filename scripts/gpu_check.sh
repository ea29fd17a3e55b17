#!/usr/bin/env bash
# What can only be shown on a GPU, in one go: the GPU's unit tests, the doctor, one rank over NCCL
# against several ranks on the same GPU over MPI, training in FP16 and BF16, and the speed of the seed
# article's LSTM beside PyTorch's.
#
# Usage: scripts/gpu_check.sh [--build] [CHECK]...
# --build            compiles first; else the binaries are taken
# CHECK              only these: unit-tests sanitizer doctor training speed inference loader
#                    tensor-cores overlap; and seeds, by name only: trainings of three seeds by
#                    either implementation of the LSTM
# BUILD, PYTHON      as scripts/gpu_setup.sh tells
# LONGSHIP_WEATHER   imported weather data for the demo (default demo/weather.h5 where it is)
# LONGSHIP_ETTH1     imported ETTh1 data, for seeds
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v nvidia-smi >/dev/null; then
  echo "gpu_check: there is no NVIDIA driver here" >&2
  exit 5
fi
if [ "${1:-}" = --build ]; then
  shift
  make build
fi
only=("$@")
. scripts/gpu_setup.sh
export LONGSHIP_COUNT_CUDA_WAITS=$PWD/$build/tests/multirank/train/liblongship_count_cuda_waits.so
[ -n "${LONGSHIP_WEATHER:-}" ] || [ ! -e demo/weather.h5 ] || export LONGSHIP_WEATHER=$PWD/demo/weather.h5

# Tests of the GPU skip themselves where there is none; here that is a failure.
gpu_tests() {
  local output
  output=$(timeout 120 "$@" --gtest_color=no --gtest_filter='*Gpu*:*Nccl*' 2>&1) || {
    printf '%s\n' "$output"
    return 1
  }
  if grep -q 'there is no GPU' <<<"$output" || ! grep -q '\[  PASSED  \] [1-9]' <<<"$output"; then
    printf '%s\n' "$output"
    return 1
  fi
  grep -h '\[  PASSED  \]' <<<"$output" | sort | uniq -c
}

unit_tests() {
  local ranks
  local folder
  for folder in comm data models runtime; do
    echo "$folder:"
    gpu_tests "$build/tests/longship_${folder}_tests" || return 1
  done
  for ranks in 1 2 3; do
    echo "$ranks ranks:"
    gpu_tests mpirun --allow-run-as-root --oversubscribe --bind-to none -q -n "$ranks" \
      "$build/tests/multirank/comm/longship_comm_multirank_tests" || return 1
  done
}

# The kernels of this tree under compute-sanitizer, where it is installed.
sanitized_tests() {
  local sanitizer tool folder output filter
  sanitizer=$(command -v compute-sanitizer || echo "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer")
  if [ ! -x "$sanitizer" ]; then
    echo "NOT RUN: there is no compute-sanitizer here"
    return 0
  fi
  for tool in memcheck racecheck; do
    filter='*WireScale*Gpu*:DeviceSeriesGpu*:DropoutGpu*:Fp8CastGpu*:*StepScalars*Gpu*'
    filter+=':HalfLinearGpu.Sums*:LayerNormGpu*:NarrowLinearGpu.Gradients*:OptimizerGpu*:StepLossGpu*'
    if [ "$tool" = memcheck ]; then
      filter+=':HalfLinearGpu*:NarrowLinearGpu*:LstmKernelsGpu.WeightsAreCast*'
      filter+=':LstmKernelsGpu.InferenceGives*:LstmKernelsGpu.BothGradients*'
    else
      # It fails inside on launches of thread block clusters ("failed to handle a hardware exception"),
      # which the LSTM kernels and products by cuBLAS are.
      echo "racecheck models: NOT RUN on the LSTM kernels, which it cannot run"
    fi
    for folder in comm data models runtime; do
      output=$(timeout 300 "$sanitizer" --tool "$tool" --error-exitcode 9 --kernel-name kns=longship \
        "$build/tests/longship_${folder}_tests" --gtest_color=no \
        --gtest_filter="$filter" 2>&1) || {
        printf '%s\n' "$output" | tail -40
        return 1
      }
      printf '%s %s: %s\n' "$tool" "$folder" \
        "$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY|PASSED' <<<"$output" | sed 's/=* *//' | paste -sd ' ')"
    done
  done
}

# Two ranks on this GPU, whose all-reduces go through the host.
overlap() {
  local preset
  for preset in seed-lstm patch-transformer; do
    timeout 60 "$LONGSHIP_BINARY" launch -n 2 -- bench train --preset "$preset" --steps 75 --warmup 25 \
      --set train.batch_size=64 --set train.micro_batch_size=32 --set precision.mode=bf16 \
      --set comm.backend=mpi --set train.graph=off 2>/dev/null | grep -E '^(model|step|exposed|all-reduces)' ||
      return 1
  done
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
check unit-tests unit_tests
check sanitizer sanitized_tests
check doctor timeout 60 "$LONGSHIP_BINARY" doctor
check training timeout 240 "$python" tests/multirank/train/gpu_test.py
check speed timeout 500 "$python" bench/compare.py train --rounds 1
check inference timeout 200 "$python" bench/compare.py infer --rounds 1
check loader timeout 100 "$python" bench/compare.py loader --rounds 1
check tensor-cores timeout 200 "$python" bench/compare.py counters
check overlap overlap
if [[ " ${only[*]} " == *" seeds "* ]]; then
  check seeds timeout 400 env LONGSHIP_SEEDS=1 "$python" tests/multirank/train/gpu_test.py \
    Gpu.test_own_kernels_end_where_cudnns_do_on_weather \
    Gpu.test_own_kernels_end_where_cudnns_do_on_etth1
fi
end_checks gpu_check
