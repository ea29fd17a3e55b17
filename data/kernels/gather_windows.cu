// Copies windows out of device-resident series. All columns of a matrix are wanted, so a window's
// look-back, and its horizon, is one run of memory; a row of blocks copies each.

#include <algorithm>
#include <stdexcept>
#include <string>

#include "data/gather_windows.h"

namespace longship::data {
namespace {

constexpr int kThreads = 256;

__device__ void copy_run(const float* from, float* to, int64_t count) {
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    to[i] = from[i];
  }
}

__global__ void __launch_bounds__(kThreads) gather(WindowGather g) {
  for (int64_t sample = blockIdx.y; sample < g.batch; sample += gridDim.y) {
    const int64_t row = g.first_rows[sample];
    copy_run(g.inputs + row * g.input_columns, g.past + sample * g.window * g.input_columns,
             g.window * g.input_columns);
    copy_run(g.targets + (row + g.window) * g.target_columns,
             g.target + sample * g.horizon * g.target_columns, g.horizon * g.target_columns);
  }
}

}  // namespace

void gather_windows_cuda(const WindowGather& g, cudaStream_t stream) {
  constexpr int64_t kPerThread = 4;
  constexpr int64_t kMostRows = 65535;
  const int64_t run = std::max(g.window * g.input_columns, g.horizon * g.target_columns);
  const dim3 grid(static_cast<unsigned>(std::clamp<int64_t>(run / (kThreads * kPerThread), 1, 64)),
                  static_cast<unsigned>(std::min(g.batch, kMostRows)));
  gather<<<grid, kThreads, 0, stream>>>(g);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string("gather_windows cannot be launched: ") +
                             cudaGetErrorString(error));
  }
}

}  // namespace longship::data
