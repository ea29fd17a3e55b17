// Casts a matrix to FP8 twice, as it is and turned, since the matrix products of forward and
// backward want their operands in both orders (models/fp8_linear.h). A block casts a tile of 64 by
// 64: values are read once, the turned bytes go through shared memory, and the block's largest
// magnitude is joined with the others' by one atomic maximum. Magnitudes are compared as the
// integers of their bits, which are in the same order, with NaN above infinity.

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <stdexcept>
#include <string>

#include "models/fp8_cast.h"

namespace longship::models {
namespace {

constexpr int kTile = 64;
constexpr int kVector = 4;
constexpr int kThreadsAcross = kTile / kVector;
constexpr int kThreadsDown = 16;

__device__ float number(float value) {
  return value;
}
__device__ float number(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

template <__nv_fp8_interpretation_t kType>
__device__ uint8_t fp8(float value) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, kType);
}

template <typename Value, __nv_fp8_interpretation_t kType>
__global__ void __launch_bounds__(kThreadsAcross* kThreadsDown) cast(Fp8Cast c) {
  __shared__ uint8_t tile[kTile][kTile + kVector];
  __shared__ int largest;
  if (threadIdx.x == 0 && threadIdx.y == 0) largest = 0;
  __syncthreads();

  const auto* values = static_cast<const Value*>(c.values);
  auto* out = static_cast<uint8_t*>(c.cast);
  auto* turned = static_cast<uint8_t*>(c.turned);
  const float scale = *c.scale;
  const int64_t first_row = int64_t{blockIdx.y} * kTile;
  const int64_t first_column = int64_t{blockIdx.x} * kTile;
  const int across = static_cast<int>(threadIdx.x) * kVector;
  int mine = 0;
  for (int down = static_cast<int>(threadIdx.y); down < kTile; down += kThreadsDown) {
    const int64_t row = first_row + down;
    const int64_t column = first_column + across;
    if (row >= c.rows || column >= c.columns) continue;
    uchar4 bytes;
    auto* parts = reinterpret_cast<uint8_t*>(&bytes);
    for (int i = 0; i < kVector; ++i) {
      const float value = number(values[row * c.columns + column + i]);
      mine = max(mine, __float_as_int(fabsf(value)));
      parts[i] = fp8<kType>(value * scale);
      tile[across + i][down] = parts[i];
    }
    *reinterpret_cast<uchar4*>(&out[row * c.columns + column]) = bytes;
  }
  if (c.amax != nullptr) atomicMax(&largest, mine);
  __syncthreads();
  for (int down = static_cast<int>(threadIdx.y); down < kTile; down += kThreadsDown) {
    const int64_t row = first_column + down;  // of the turned matrix
    const int64_t column = first_row + across;
    if (row >= c.columns || column >= c.rows) continue;
    uchar4 bytes;
    auto* parts = reinterpret_cast<uint8_t*>(&bytes);
    for (int i = 0; i < kVector; ++i) parts[i] = tile[down][across + i];
    *reinterpret_cast<uchar4*>(&turned[row * c.rows + column]) = bytes;
  }
  if (c.amax != nullptr && threadIdx.x == 0 && threadIdx.y == 0) {
    atomicMax(reinterpret_cast<int*>(c.amax), largest);
  }
}

template <typename Value>
void launch(const Fp8Cast& c, dim3 blocks, dim3 threads, cudaStream_t stream) {
  if (c.e5m2) {
    cast<Value, __NV_E5M2><<<blocks, threads, 0, stream>>>(c);
  } else {
    cast<Value, __NV_E4M3><<<blocks, threads, 0, stream>>>(c);
  }
}

}  // namespace

void cast_fp8_cuda(const Fp8Cast& c, cudaStream_t stream) {
  const dim3 blocks(static_cast<unsigned>((c.columns + kTile - 1) / kTile),
                    static_cast<unsigned>((c.rows + kTile - 1) / kTile));
  const dim3 threads(kThreadsAcross, kThreadsDown);
  if (c.bfloat16) {
    launch<__nv_bfloat16>(c, blocks, threads, stream);
  } else {
    launch<float>(c, blocks, threads, stream);
  }
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string("cast_fp8 cannot be launched: ") +
                             cudaGetErrorString(error));
  }
}

}  // namespace longship::models
