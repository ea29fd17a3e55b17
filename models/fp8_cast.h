#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace longship::models {

// A matrix to be cast to FP8, row by row and turned, in one pass that also finds its largest
// magnitude. Pointers are to memory of one device; rows and columns are multiples of 16.
struct Fp8Cast {
  const void* values = nullptr;  // (rows, columns), float32 or bfloat16
  bool bfloat16 = false;
  int64_t rows = 0;
  int64_t columns = 0;
  bool e5m2 = false;  // else e4m3
  const float* scale =
      nullptr;             // (1,): values are multiplied by it and limited to the type's range
  float* amax = nullptr;   // (1,): raised to the largest magnitude, NaN where one is; or null
  void* cast = nullptr;    // (rows, columns)
  void* turned = nullptr;  // (columns, rows)
};

void cast_fp8_cuda(const Fp8Cast& cast, cudaStream_t stream);

}  // namespace longship::models
