#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace longship::models {

// Raw-memory work of models/layer_norm.h and models/half_linear.h, whose matrices have many rows
// and few columns: there general reductions leave most of a GPU idle. Sums over rows come as one
// partial sum a block, in an order that depends on the sizes alone. Pointers are to memory of one
// device, aligned to 16 bytes.

// The partial sums of the columns of a matrix of halves.
struct ColumnSums {
  const void* values = nullptr;  // (rows, columns) fp16 or bfloat16
  bool bfloat16 = false;         // else fp16
  int64_t rows = 0;
  int64_t columns = 0;         // a multiple of 8
  float* partial = nullptr;    // (blocks, columns), written
  int64_t rows_of_block = 64;  // blocks = rows / rows_of_block, rounded up
};
void column_sums_cuda(const ColumnSums& sums, cudaStream_t stream);

constexpr int64_t kMostNormalizedColumns = 1024;

struct LayerNormForward {
  const float* x = nullptr;      // (rows, columns)
  const float* gamma = nullptr;  // (columns,)
  const float* beta = nullptr;   // (columns,)
  float eps = 1e-5F;
  int64_t rows = 0;
  int64_t columns = 0;    // a multiple of 4, at most kMostNormalizedColumns
  float* y = nullptr;     // (rows, columns), written
  float* mean = nullptr;  // (rows,), written
  float* rstd = nullptr;  // (rows,), written: 1 / sqrt(variance + eps)
};
void layer_norm_cuda(const LayerNormForward& norm, cudaStream_t stream);

struct LayerNormBackward {
  const float* dy = nullptr;  // (rows, columns)
  const float* x = nullptr;   // and below: as of forward
  const float* gamma = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  float* dx = nullptr;       // (rows, columns), written
  float* partial = nullptr;  // (blocks, 2, columns), written: of gamma, of beta
  int64_t blocks = 1;
};
void layer_norm_backward_cuda(const LayerNormBackward& norm, cudaStream_t stream);

}  // namespace longship::models
