// The loss of a micro-batch and its gradient. Every block sums the losses of its share in float64
// and leaves the sum in a place of its own; the block that takes the last ticket adds them up in an
// order that depends on the grid alone. No block waits for another.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "runtime/step_loss.h"

namespace longship::runtime {
namespace {

constexpr int kThreads = 256;
constexpr int kMostBlocks = 1024;

struct Loss {
  float value;
  float slope;  // by the forecast
};

__device__ Loss loss_of(const LossWork& w, float forecast, float target, int64_t output) {
  const float error = forecast - target;
  const float size = fabsf(error);
  const float sign = error > 0 ? 1.0F : (error < 0 ? -1.0F : error);  // of NaN, NaN
  switch (w.kind) {
    case LossKind::kMae:
      return {size, sign};
    case LossKind::kHuber:
      if (size > w.huber_delta) {
        return {w.huber_delta * (size - 0.5F * w.huber_delta), w.huber_delta * sign};
      }
      return {0.5F * error * error, error};
    case LossKind::kQuantile: {
      const float q = w.quantiles[output];
      // At the kink the mean of both slopes, as autograd has it.
      const float slope = error > 0 ? 1 - q : (error < 0 ? -q : 0.5F - q + error);
      return {fmaxf(-q * error, (1 - q) * error) + 0 * error, slope};
    }
    default:
      return {error * error, 2 * error};
  }
}

// In a fixed order; valid in thread 0.
__device__ double sum_of_block(double value) {
  __shared__ double of_threads[kThreads];
  __syncthreads();
  of_threads[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) {
      of_threads[threadIdx.x] += of_threads[threadIdx.x + half];
    }
    __syncthreads();
  }
  return of_threads[0];
}

template <typename Number>
__global__ void __launch_bounds__(kThreads) loss(LossWork w) {
  const auto* forecast = static_cast<const Number*>(w.forecast);
  auto* gradient = static_cast<Number*>(w.gradient);
  const float share = 1.0F / static_cast<float>(w.elements);
  const auto samples = static_cast<float>(*w.samples);
  const float scale = *w.scale;
  double sum = 0;
  const int64_t count = w.batch * w.elements;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * kThreads) {
    const float weight = w.weight[i / w.elements] / samples * share;
    const Loss l =
        loss_of(w, static_cast<float>(forecast[i]), w.target[i / w.outputs], i % w.outputs);
    gradient[i] = static_cast<Number>(scale * (weight * l.slope));
    sum += static_cast<double>(weight) * static_cast<double>(l.value);
  }
  sum = sum_of_block(sum);
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    w.partial_sums[blockIdx.x] = sum;
    __threadfence();
    is_last = atomicInc(w.ticket, gridDim.x - 1) == gridDim.x - 1;  // wraps to zero
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  sum = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) sum += __ldcg(&w.partial_sums[i]);
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) *w.loss_sum += static_cast<float>(sum);
}

}  // namespace

int loss_blocks() {
  return kMostBlocks;
}

void loss_cuda(const LossWork& work, cudaStream_t stream) {
  const int64_t count = work.batch * work.elements;
  constexpr int64_t kPerBlock = int64_t{kThreads} * 4;
  const auto blocks = static_cast<unsigned>(
      std::clamp<int64_t>((count + kPerBlock - 1) / kPerBlock, 1, kMostBlocks));
  switch (work.type) {
    case ForecastType::kFloat:
      loss<float><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case ForecastType::kHalf:
      loss<__half><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case ForecastType::kBfloat16:
      loss<__nv_bfloat16><<<blocks, kThreads, 0, stream>>>(work);
      break;
  }
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string("the loss cannot be launched: ") +
                             cudaGetErrorString(error));
  }
}

}  // namespace longship::runtime
