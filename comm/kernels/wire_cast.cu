// Casts a bucket to the wire and back, one kernel each way.
//
// pack    Every block casts a share of the bucket, four elements a thread and step, and keeps the
//         largest magnitude that it saw (as bits: for numbers without sign these order like the
//         numbers, NaN above all). Blocks join theirs by atomicMax, which gives the same whatever
//         the order. The block that takes the last ticket knows that all have joined; it writes the
//         code into this rank's slot and leaves the scratch memory zero for the next call. No block
//         ever waits for another, so nothing need be resident at once.
// unpack  Every block casts a share back. History and factor are apart because the first block
//         writes the history while the others still read the factor.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "comm/wire_cast.h"
#include "comm/wire_code.h"

namespace longship::comm {
namespace {

constexpr int kThreads = 256;
constexpr int kMostBlocks = 528;  // four for each multiprocessor of an H200

__device__ __half cast(float value, __half /*type*/) {
  return __float2half_rn(value);
}
__device__ __nv_bfloat16 cast(float value, __nv_bfloat16 /*type*/) {
  return __float2bfloat16_rn(value);
}
__device__ float widen(__half value) {
  return __half2float(value);
}
__device__ float widen(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

template <typename Half>
struct alignas(4 * sizeof(Half)) Four {
  Half values[4];
};

__device__ uint32_t magnitude_bits(float value) {
  return __float_as_uint(value) & 0x7fffffffU;
}

// The largest of the block's values; valid in thread 0.
__device__ uint32_t largest_of_block(uint32_t value) {
  constexpr uint32_t kAll = 0xffffffffU;
  __shared__ uint32_t of_warps[kThreads / 32];
#if __CUDA_ARCH__ >= 800
  value = __reduce_max_sync(kAll, value);
#else
  for (int offset = 16; offset > 0; offset /= 2) {
    value = max(value, __shfl_down_sync(kAll, value, offset));
  }
#endif
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x < kThreads / 32) {
    value = of_warps[threadIdx.x];
    for (int offset = kThreads / 64; offset > 0; offset /= 2) {
      value = max(value, __shfl_down_sync((1U << (kThreads / 32)) - 1, value, offset));
    }
  }
  return value;
}

template <typename Half>
__global__ void __launch_bounds__(kThreads) pack(WireCast bucket) {
  const float loss_scale = bucket.loss_scale != nullptr ? *bucket.loss_scale : 1.0F;
  const float factor = bucket.from_history
                           ? WireCode::factor_of_history(bucket.history, bucket.rank_bits)
                           : *bucket.factor;
  const float to_wire = factor / loss_scale;
  auto* wire = static_cast<Half*>(bucket.wire);

  uint32_t largest = 0;
  const int64_t fours = bucket.elements / 4;
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  const int64_t first = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (int64_t i = first; i < fours; i += stride) {
    const float4 g = reinterpret_cast<const float4*>(bucket.gradients)[i];
    largest = max(max(max(largest, magnitude_bits(g.x)), magnitude_bits(g.y)),
                  max(magnitude_bits(g.z), magnitude_bits(g.w)));
    reinterpret_cast<Four<Half>*>(wire)[i] = {
        {cast(g.x * to_wire, Half()), cast(g.y * to_wire, Half()), cast(g.z * to_wire, Half()),
         cast(g.w * to_wire, Half())}};
  }
  for (int64_t i = fours * 4 + first; i < bucket.elements; i += stride) {
    const float g = bucket.gradients[i];
    largest = max(largest, magnitude_bits(g));
    wire[i] = cast(g * to_wire, Half());
  }

  __shared__ bool is_last;
  largest = largest_of_block(largest);
  if (threadIdx.x == 0) {
    atomicMax(&bucket.scratch[0], largest);
    __threadfence();
    // Wraps to zero at the last ticket.
    is_last = atomicInc(&bucket.scratch[1], gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  for (int r = static_cast<int>(threadIdx.x); r < bucket.ranks; r += kThreads) {
    wire[bucket.elements + r] = cast(0.0F, Half());
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    const float all = __uint_as_float(atomicExch(&bucket.scratch[0], 0U));
    const int code = WireCode::code(all * (1.0F / loss_scale));
    wire[bucket.elements + bucket.rank] = cast(static_cast<float>(code), Half());
    *bucket.factor = factor;
  }
}

template <typename Half>
__global__ void __launch_bounds__(kThreads) unpack(WireCast bucket) {
  const float loss_scale = bucket.loss_scale != nullptr ? *bucket.loss_scale : 1.0F;
  const float from_wire = loss_scale / *bucket.factor;
  const auto* wire = static_cast<const Half*>(bucket.wire);

  const int64_t fours = bucket.elements / 4;
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  const int64_t first = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (int64_t i = first; i < fours; i += stride) {
    const Four<Half> w = reinterpret_cast<const Four<Half>*>(wire)[i];
    reinterpret_cast<float4*>(bucket.gradients)[i] =
        make_float4(widen(w.values[0]) * from_wire, widen(w.values[1]) * from_wire,
                    widen(w.values[2]) * from_wire, widen(w.values[3]) * from_wire);
  }
  for (int64_t i = fours * 4 + first; i < bucket.elements; i += stride) {
    bucket.gradients[i] = widen(wire[i]) * from_wire;
  }
  if (first == 0) {
    WireCode::record(
        bucket.history, [&](int r) { return widen(wire[bucket.elements + r]); }, bucket.ranks);
  }
}

unsigned blocks_for(int64_t elements) {
  constexpr int64_t kPerBlock = int64_t{kThreads} * 4;
  return static_cast<unsigned>(
      std::clamp<int64_t>((elements + kPerBlock - 1) / kPerBlock, 1, kMostBlocks));
}

void check_launch(const char* kernel) {
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string(kernel) +
                             " cannot be launched: " + cudaGetErrorString(error));
  }
}

}  // namespace

void pack_wire_cuda(const WireCast& cast, cudaStream_t stream) {
  const unsigned blocks = blocks_for(cast.elements);
  if (cast.bfloat16) {
    pack<__nv_bfloat16><<<blocks, kThreads, 0, stream>>>(cast);
  } else {
    pack<__half><<<blocks, kThreads, 0, stream>>>(cast);
  }
  check_launch("pack_wire");
}

void unpack_wire_cuda(const WireCast& cast, cudaStream_t stream) {
  const unsigned blocks = blocks_for(cast.elements);
  if (cast.bfloat16) {
    unpack<__nv_bfloat16><<<blocks, kThreads, 0, stream>>>(cast);
  } else {
    unpack<__half><<<blocks, kThreads, 0, stream>>>(cast);
  }
  check_launch("unpack_wire");
}

}  // namespace longship::comm
