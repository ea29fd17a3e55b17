#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace longship::comm {

// One bucket on its way to the wire and back. Pointers to memory of one device, which the caller
// owns.
struct WireCast {
  float* gradients = nullptr;  // (elements,)
  void* wire = nullptr;        // (elements + ranks,) of the half type: gradients, then the codes
  int64_t elements = 0;
  bool bfloat16 = false;  // else float16
  int rank = 0;
  int ranks = 1;
  int rank_bits = 0;                  // ranks <= 2^rank_bits
  const float* loss_scale = nullptr;  // a power of two that the gradients hold; null: 1
  float* history = nullptr;           // (WireCode::kHistory,) exponents, the newest last
  float* factor = nullptr;            // (1,) this step's 2^k
  bool from_history = true;           // whether pack() makes `factor`, else it obeys it
  uint32_t* scratch = nullptr;        // (2,) zero between calls; for CUDA only
};

// Multiplies the gradients by factor / loss_scale, casts them to the wire, and puts this rank's
// code (comm/wire_scale.h) behind them: one pass over the bucket.
void pack_wire_cpu(const WireCast& cast);
void pack_wire_cuda(const WireCast& cast, cudaStream_t stream);

// The way back: gradients = wire * loss_scale / factor. Adds the codes to the history.
void unpack_wire_cpu(const WireCast& cast);
void unpack_wire_cuda(const WireCast& cast, cudaStream_t stream);

}  // namespace longship::comm
