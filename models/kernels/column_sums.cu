// Sums of the columns of a matrix of halves, for biases' gradients. A block sums some rows of 128
// columns: 16 lanes across, of 8 columns (16 bytes) each, and 16 down, which meet in shared memory.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>
#include <string>
#include <type_traits>

#include "models/row_sums.h"

namespace longship::models {
namespace {

constexpr int kVector = 8;
constexpr int kAcross = 16;
constexpr int kDown = 16;
constexpr int kColumnsOfBlock = kAcross * kVector;

template <typename Half>
__device__ float2 numbers(uint32_t word) {
  if constexpr (std::is_same_v<Half, __half>) {
    return __half22float2(*reinterpret_cast<const __half2*>(&word));
  } else {
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&word));
  }
}

template <typename Half>
__global__ void __launch_bounds__(kAcross* kDown) column_sums(ColumnSums s) {
  __shared__ float sums[kDown][kColumnsOfBlock];
  const auto across = static_cast<int>(threadIdx.x) % kAcross;
  const auto down = static_cast<int>(threadIdx.x) / kAcross;
  const int64_t column = int64_t{blockIdx.y} * kColumnsOfBlock + across * kVector;
  const int64_t begin = int64_t{blockIdx.x} * s.rows_of_block;
  const int64_t end = min(begin + s.rows_of_block, s.rows);
  float sum[kVector] = {};
  if (column < s.columns) {
    const Half* values = static_cast<const Half*>(s.values) + column;
#pragma unroll 4
    for (int64_t row = begin + down; row < end; row += kDown) {
      const uint4 words = __ldg(reinterpret_cast<const uint4*>(values + row * s.columns));
      const uint32_t word[kVector / 2] = {words.x, words.y, words.z, words.w};
#pragma unroll
      for (int i = 0; i < kVector / 2; ++i) {
        const float2 v = numbers<Half>(word[i]);
        sum[2 * i] += v.x;
        sum[2 * i + 1] += v.y;
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) sums[down][across * kVector + i] = sum[i];
  __syncthreads();
  const auto mine = static_cast<int>(threadIdx.x);
  const int64_t to = int64_t{blockIdx.y} * kColumnsOfBlock + mine;
  if (mine >= kColumnsOfBlock || to >= s.columns) return;
  float whole = 0;
#pragma unroll
  for (int i = 0; i < kDown; ++i) whole += sums[i][mine];
  s.partial[int64_t{blockIdx.x} * s.columns + to] = whole;
}

}  // namespace

void column_sums_cuda(const ColumnSums& s, cudaStream_t stream) {
  const dim3 blocks(static_cast<unsigned>((s.rows + s.rows_of_block - 1) / s.rows_of_block),
                    static_cast<unsigned>((s.columns + kColumnsOfBlock - 1) / kColumnsOfBlock));
  if (s.bfloat16) {
    column_sums<__nv_bfloat16><<<blocks, kAcross * kDown, 0, stream>>>(s);
  } else {
    column_sums<__half><<<blocks, kAcross * kDown, 0, stream>>>(s);
  }
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string("column_sums cannot be launched: ") +
                             cudaGetErrorString(error));
  }
}

}  // namespace longship::models
