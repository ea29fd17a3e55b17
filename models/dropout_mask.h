#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace longship::models {

// A dropout mask to be written: element i is `kept` or zero.
struct DropoutMask {
  void* mask = nullptr;
  int64_t elements = 0;
  int element_bytes = 4;  // 2, 4 or 8
  uint64_t kept = 0;      // the bits of 1 / (1 - probability) in the mask's type
  double keep = 1;        // 1 - probability
  uint64_t seed = 0;
  int64_t layer = 0;
  const int64_t* counters = nullptr;  // (2,): step, micro-batch; where the mask is
};

void write_mask_cpu(const DropoutMask& mask);
void write_mask_cuda(const DropoutMask& mask, cudaStream_t stream);

}  // namespace longship::models
