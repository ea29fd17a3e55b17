// The end of a step: norm and finiteness of all gradients, then the scalars that follow from them.
//
// Every block sums the squares of its share, in float64, and writes its sum to a place
// of its own. The block that takes the last ticket knows that all sums are there and adds them up
// in an order that depends on nothing but the grid, so equal gradients give equal bits in every
// run, in a graph or without. No block waits for another.

#include <algorithm>
#include <stdexcept>
#include <string>

#include "runtime/step_decision.h"
#include "runtime/step_finish.h"

namespace longship::runtime {
namespace {

constexpr int kThreads = 256;
constexpr int kMostBlocks = 528;  // four for each multiprocessor of an H200

// The block's sum in a fixed order; valid in thread 0.
__device__ double sum_of_block(double value) {
  __shared__ double of_threads[kThreads];
  of_threads[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half)
      of_threads[threadIdx.x] += of_threads[threadIdx.x + half];
    __syncthreads();
  }
  return of_threads[0];
}

__device__ int64_t now() {
  unsigned long long nanoseconds = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds));
  return static_cast<int64_t>(nanoseconds);
}

__global__ void __launch_bounds__(kThreads) finish(StepFinish f) {
  const float inverse = 1.0F / *f.loss_scale;
  double sum = 0;
  bool finite = true;
  const auto take = [&](float gradient) {
    const float unscaled = gradient * inverse;
    finite = finite && isfinite(unscaled);
    sum += static_cast<double>(unscaled) * static_cast<double>(unscaled);
  };
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  const int64_t first = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t fours = f.elements / 4;
  for (int64_t i = first; i < fours; i += stride) {
    const float4 g = reinterpret_cast<const float4*>(f.gradients)[i];
    take(g.x);
    take(g.y);
    take(g.z);
    take(g.w);
  }
  for (int64_t i = fours * 4 + first; i < f.elements; i += stride) take(f.gradients[i]);

  __shared__ bool is_last;
  const bool all_finite = __syncthreads_and(finite) != 0;
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) {
    f.partial_sums[blockIdx.x] = sum;
    if (!all_finite) atomicOr(&f.scratch[0], 1U);
    __threadfence();
    is_last = atomicInc(&f.scratch[1], gridDim.x - 1) == gridDim.x - 1;  // wraps to zero
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  sum = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) {
    sum += __ldcg(&f.partial_sums[i]);
  }
  __syncthreads();
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) decide_step(f, sum, atomicExch(&f.scratch[0], 0U) == 0U);
}

__global__ void finish_by_squares(StepFinish f) {
  decide_step_by_squares(f);
}

__global__ void write_stamp(int64_t* stamp) {
  *stamp = now();
}

void check_launch(const char* kernel) {
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string(kernel) +
                             " cannot be launched: " + cudaGetErrorString(error));
  }
}

}  // namespace

int finish_blocks() {
  return kMostBlocks;
}

void finish_step_cuda(const StepFinish& f, cudaStream_t stream) {
  if (f.squares != nullptr) {
    finish_by_squares<<<1, 1, 0, stream>>>(f);
    check_launch("finish_step");
    return;
  }
  constexpr int64_t kPerBlock = int64_t{kThreads} * 8;
  const auto blocks = static_cast<unsigned>(
      std::clamp<int64_t>((f.elements + kPerBlock - 1) / kPerBlock, 1, kMostBlocks));
  finish<<<blocks, kThreads, 0, stream>>>(f);
  check_launch("finish_step");
}

void stamp_cuda(int64_t* stamp, cudaStream_t stream) {
  write_stamp<<<1, 1, 0, stream>>>(stamp);
  check_launch("stamp");
}

}  // namespace longship::runtime
