#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace longship::data {

// Windows out of series that lie on a GPU. Pointers to device memory that the caller owns.
struct WindowGather {
  const float* inputs = nullptr;        // (rows, input_columns)
  const float* targets = nullptr;       // (rows, target_columns)
  const int64_t* first_rows = nullptr;  // (batch,) where each window begins
  float* past = nullptr;                // (batch, window, input_columns)
  float* target = nullptr;              // (batch, horizon, target_columns)
  int64_t batch = 0;
  int64_t window = 0;
  int64_t horizon = 0;
  int64_t input_columns = 0;
  int64_t target_columns = 0;
};

void gather_windows_cuda(const WindowGather& gather, cudaStream_t stream);

}  // namespace longship::data
