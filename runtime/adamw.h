#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace longship::runtime {

// torch.optim.AdamW's update of a GPU's float32 tensors as one kernel that gives every processor
// something to do, also where the tensors are few. With g = gradient / divisor, step t:
//
//   p = p (1 - lr decay);  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p = p - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)

// A run of elements of one tensor.
struct AdamWChunk {
  float* parameter;
  const float* gradient;
  float* first;   // exp_avg, m
  float* second;  // exp_avg_sq, v
  int64_t elements;
};

constexpr int64_t kAdamWChunkElements = 2048;  // at most

struct AdamWUpdate {
  const AdamWChunk* chunks = nullptr;  // on the device
  int64_t count = 0;
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  double weight_decay = 0;
  // On the device, a scalar each; see Optimizer::Decision.
  const float* lr = nullptr;
  const float* step_number = nullptr;
  const float* divisor = nullptr;
  const float* found_inf = nullptr;
};

void adamw_cuda(const AdamWUpdate& update, cudaStream_t stream);

}  // namespace longship::runtime
