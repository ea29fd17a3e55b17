// Casts the weights of LSTM layers to halves, all in one launch: one after the other would be many
// small kernels, each of which has to wait for the one before.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "models/lstm_recurrence.h"

namespace longship::models {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kElementsOfBlock = 8 * kThreads;

// A block casts a run of the matrix blockIdx.y.
template <typename Half>
__global__ void __launch_bounds__(kThreads) cast(const __grid_constant__ LstmCasts casts) {
  const LstmCast& c = casts.matrices[blockIdx.y];
  const int64_t begin = int64_t{blockIdx.x} * kElementsOfBlock;
  const int64_t end = min(begin + kElementsOfBlock, c.rows * c.to_columns);
  Half* to = static_cast<Half*>(c.to);
  if (c.columns == c.to_columns) {
#pragma unroll 8
    for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) to[i] = Half(c.from[i]);
    return;
  }
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const int64_t row = i / c.to_columns;
    const int64_t column = i - row * c.to_columns;
    to[i] = Half(column < c.columns ? c.from[row * c.columns + column] : 0.0F);
  }
}

}  // namespace

void cast_lstm_weights(const LstmCasts& casts, bool bfloat16, cudaStream_t stream) {
  int64_t most = 0;
  for (int i = 0; i < casts.count; ++i) {
    most = std::max(most, casts.matrices[i].rows * casts.matrices[i].to_columns);
  }
  if (most == 0) return;
  const dim3 blocks(static_cast<unsigned>((most + kElementsOfBlock - 1) / kElementsOfBlock),
                    static_cast<unsigned>(casts.count));
  if (bfloat16) {
    cast<__nv_bfloat16><<<blocks, kThreads, 0, stream>>>(casts);
  } else {
    cast<__half><<<blocks, kThreads, 0, stream>>>(casts);
  }
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string("an LSTM's weights cannot be cast: ") +
                             cudaGetErrorString(error));
  }
}

}  // namespace longship::models
