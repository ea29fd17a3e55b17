// A linear layer of few outputs. Forward: a warp has a row, of which a lane takes eight inputs of
// every 256. Backward, in one launch: the first blocks compute dx, a thread eight inputs of a row;
// each of the others the gradient of one output's weight for 64 inputs, which 32 groups of 8
// threads sum over every 32nd row, and whose sums meet in shared memory in a fixed order.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>
#include <string>
#include <type_traits>

#include "models/narrow_product.h"

namespace longship::models {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kVector = 8;  // inputs, of a thread
constexpr int kAcross = 8;  // threads, of a block of weights' gradients
constexpr int kDown = kThreads / kAcross;
constexpr int kInputsOfBlock = kAcross * kVector;

struct Eight {
  float of[kVector];
};

template <typename Half>
__device__ Eight load(const Half* from) {
  using Pair = std::conditional_t<std::is_same_v<Half, __half>, __half2, __nv_bfloat162>;
  const uint4 words = *reinterpret_cast<const uint4*>(from);
  const uint32_t word[4] = {words.x, words.y, words.z, words.w};
  Eight out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const Pair pair = *reinterpret_cast<const Pair*>(&word[i]);
    out.of[2 * i] = static_cast<float>(pair.x);
    out.of[2 * i + 1] = static_cast<float>(pair.y);
  }
  return out;
}

template <typename Half>
__global__ void __launch_bounds__(kThreads) product(NarrowProduct p) {
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (row >= p.rows) return;
  float sums[kMostNarrowOutputs] = {};
  const Half* x = static_cast<const Half*>(p.x) + row * p.inputs;
  for (int64_t i = kVector * lane; i < p.inputs; i += 32 * kVector) {
    const Eight v = load(x + i);
#pragma unroll
    for (int output = 0; output < kMostNarrowOutputs; ++output) {
      if (output >= p.outputs) continue;
      const float* weight = p.weight + output * p.inputs + i;
#pragma unroll
      for (int k = 0; k < kVector; ++k) sums[output] = fmaf(v.of[k], weight[k], sums[output]);
    }
  }
#pragma unroll
  for (int output = 0; output < kMostNarrowOutputs; ++output) {
    if (output >= p.outputs) continue;
    float sum = sums[output];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0U, sum, offset);
    if (lane == 0) {
      static_cast<Half*>(p.y)[row * p.outputs + output] = static_cast<Half>(sum + p.bias[output]);
    }
  }
}

template <typename Half>
__device__ void input_gradient(const NarrowGradients& g, int64_t block) {
  const int64_t pieces = g.inputs / kVector;
  const int64_t at = block * kThreads + threadIdx.x;
  if (at >= g.rows * pieces) return;
  const int64_t row = at / pieces;
  const int64_t first = (at - row * pieces) * kVector;
  const Half* dy = static_cast<const Half*>(g.dy) + row * g.outputs;
  float sums[kVector] = {};
  for (int64_t output = 0; output < g.outputs; ++output) {
    const auto d = static_cast<float>(dy[output]);
    const float* weight = g.weight + output * g.inputs + first;
#pragma unroll
    for (int k = 0; k < kVector; ++k) sums[k] = fmaf(d, weight[k], sums[k]);
  }
  Half halves[kVector];
#pragma unroll
  for (int k = 0; k < kVector; ++k) halves[k] = static_cast<Half>(sums[k]);
  *reinterpret_cast<uint4*>(static_cast<Half*>(g.dx) + row * g.inputs + first) =
      *reinterpret_cast<const uint4*>(halves);
}

template <typename Half>
__device__ void weight_gradient(const NarrowGradients& g, int64_t block) {
  // One column more, for the bias.
  __shared__ float parts[kDown][kInputsOfBlock + 1];
  const int64_t chunks = (g.inputs + kInputsOfBlock - 1) / kInputsOfBlock;
  const int64_t output = block / chunks;
  const int64_t first = (block - output * chunks) * kInputsOfBlock;
  const auto across = static_cast<int>(threadIdx.x) % kAcross;
  const auto down = static_cast<int>(threadIdx.x) / kAcross;
  const int64_t column = first + across * kVector;
  float sums[kVector] = {};
  float of_bias = 0;
  if (column < g.inputs) {
    const Half* x = static_cast<const Half*>(g.x) + column;
    const Half* dy = static_cast<const Half*>(g.dy) + output;
#pragma unroll 4
    for (int64_t row = down; row < g.rows; row += kDown) {
      const auto d = static_cast<float>(dy[row * g.outputs]);
      const Eight v = load(x + row * g.inputs);
#pragma unroll
      for (int k = 0; k < kVector; ++k) sums[k] = fmaf(d, v.of[k], sums[k]);
      of_bias += d;
    }
  }
#pragma unroll
  for (int k = 0; k < kVector; ++k) parts[down][across * kVector + k] = sums[k];
  if (across == 0) parts[down][kInputsOfBlock] = of_bias;
  __syncthreads();
  const auto mine = static_cast<int>(threadIdx.x);
  if (mine > kInputsOfBlock) return;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kDown; ++i) sum += parts[i][mine];
  if (mine < kInputsOfBlock) {
    if (first + mine < g.inputs) g.of_weight[output * g.inputs + first + mine] += sum;
  } else if (first == 0) {
    g.of_bias[output] += sum;
  }
}

template <typename Half>
__global__ void __launch_bounds__(kThreads) gradients(NarrowGradients g, int64_t input_blocks) {
  const int64_t block = blockIdx.x;
  if (block < input_blocks) {
    input_gradient<Half>(g, block);
  } else {
    weight_gradient<Half>(g, block - input_blocks);
  }
}

void check_launch() {
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string("a narrow linear layer cannot be launched: ") +
                             cudaGetErrorString(error));
  }
}

}  // namespace

void narrow_product_cuda(const NarrowProduct& p, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((p.rows + kWarps - 1) / kWarps);
  if (p.bfloat16) {
    product<__nv_bfloat16><<<blocks, kThreads, 0, stream>>>(p);
  } else {
    product<__half><<<blocks, kThreads, 0, stream>>>(p);
  }
  check_launch();
}

void narrow_gradients_cuda(const NarrowGradients& g, cudaStream_t stream) {
  const int64_t pieces = g.dx == nullptr ? 0 : g.rows * (g.inputs / kVector);
  const int64_t input_blocks = (pieces + kThreads - 1) / kThreads;
  const int64_t chunks = (g.inputs + kInputsOfBlock - 1) / kInputsOfBlock;
  const auto blocks = static_cast<unsigned>(input_blocks + g.outputs * chunks);
  if (g.bfloat16) {
    gradients<__nv_bfloat16><<<blocks, kThreads, 0, stream>>>(g, input_blocks);
  } else {
    gradients<__half><<<blocks, kThreads, 0, stream>>>(g, input_blocks);
  }
  check_launch();
}

}  // namespace longship::models
