// AdamW over chunks of tensors, a block each. What all chunks share, the step size and the root of
// the second bias correction, thread 0 of every block computes in float64 while the others load.

#include <cstdint>
#include <stdexcept>
#include <string>

#include "runtime/adamw.h"

namespace longship::runtime {
namespace {

constexpr int kThreads = 256;
constexpr int kVectors = static_cast<int>(kAdamWChunkElements) / (4 * kThreads);  // of a thread
static_assert(kVectors * 4 * kThreads == kAdamWChunkElements);

struct Numbers {
  float inverse_divisor, kept, beta1, beta2, eps, step_size, root2;
};

__device__ void update_one(const Numbers& n, float& p, float g, float& m, float& v) {
  g *= n.inverse_divisor;
  p *= n.kept;
  m = fmaf(n.beta1, m, (1 - n.beta1) * g);
  v = fmaf(n.beta2, v, (1 - n.beta2) * g * g);
  p -= n.step_size * m / (sqrtf(v) / n.root2 + n.eps);
}

__global__ void __launch_bounds__(kThreads) adamw(AdamWUpdate u) {
  __shared__ Numbers shared;
  if (*u.found_inf != 0) return;
  const AdamWChunk chunk = u.chunks[blockIdx.x];
  const auto thread = static_cast<int>(threadIdx.x);
  const auto addresses =
      reinterpret_cast<uintptr_t>(chunk.parameter) | reinterpret_cast<uintptr_t>(chunk.gradient) |
      reinterpret_cast<uintptr_t>(chunk.first) | reinterpret_cast<uintptr_t>(chunk.second);
  // The rest is taken one by one.
  const int fours = addresses % sizeof(float4) == 0 ? static_cast<int>(chunk.elements / 4) : 0;
  float4 p[kVectors];
  float4 g[kVectors];
  float4 m[kVectors];
  float4 v[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = k * kThreads + thread;
    if (i >= fours) continue;
    p[k] = reinterpret_cast<const float4*>(chunk.parameter)[i];
    g[k] = reinterpret_cast<const float4*>(chunk.gradient)[i];
    m[k] = reinterpret_cast<const float4*>(chunk.first)[i];
    v[k] = reinterpret_cast<const float4*>(chunk.second)[i];
  }
  if (thread == 0) {
    const auto step = static_cast<double>(*u.step_number);
    const double lr = *u.lr;
    shared.inverse_divisor = 1 / *u.divisor;
    shared.kept = static_cast<float>(1 - lr * u.weight_decay);
    shared.beta1 = static_cast<float>(u.beta1);
    shared.beta2 = static_cast<float>(u.beta2);
    shared.eps = static_cast<float>(u.eps);
    shared.step_size = static_cast<float>(lr / (1 - pow(u.beta1, step)));
    shared.root2 = static_cast<float>(sqrt(1 - pow(u.beta2, step)));
  }
  __syncthreads();
  const Numbers n = shared;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = k * kThreads + thread;
    if (i >= fours) continue;
    update_one(n, p[k].x, g[k].x, m[k].x, v[k].x);
    update_one(n, p[k].y, g[k].y, m[k].y, v[k].y);
    update_one(n, p[k].z, g[k].z, m[k].z, v[k].z);
    update_one(n, p[k].w, g[k].w, m[k].w, v[k].w);
    reinterpret_cast<float4*>(chunk.parameter)[i] = p[k];
    reinterpret_cast<float4*>(chunk.first)[i] = m[k];
    reinterpret_cast<float4*>(chunk.second)[i] = v[k];
  }
  for (int64_t i = 4 * fours + thread; i < chunk.elements; i += kThreads) {
    update_one(n, chunk.parameter[i], chunk.gradient[i], chunk.first[i], chunk.second[i]);
  }
}

}  // namespace

void adamw_cuda(const AdamWUpdate& update, cudaStream_t stream) {
  if (update.count == 0) return;
  adamw<<<static_cast<unsigned>(update.count), kThreads, 0, stream>>>(update);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string("AdamW cannot be launched: ") + cudaGetErrorString(error));
  }
}

}  // namespace longship::runtime
