#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace longship::models {

// Raw-memory work of models/narrow_linear.h. Halves are fp16 or bfloat16, pointers to memory of one
// device; x is aligned to 16 bytes. Equal inputs give equal bits.

constexpr int64_t kMostNarrowOutputs = 16;

struct NarrowProduct {
  bool bfloat16 = false;          // halves are, else fp16
  const void* x = nullptr;        // (rows, inputs) half
  const float* weight = nullptr;  // (outputs, inputs)
  const float* bias = nullptr;    // (outputs,)
  void* y = nullptr;              // (rows, outputs) half, written
  int64_t rows = 0;
  int64_t inputs = 0;   // a multiple of 8
  int64_t outputs = 0;  // at most kMostNarrowOutputs
};
void narrow_product_cuda(const NarrowProduct& product, cudaStream_t stream);

struct NarrowGradients {
  bool bfloat16 = false;
  const void* dy = nullptr;  // (rows, outputs) half
  const void* x = nullptr;   // as of the product
  const float* weight = nullptr;
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t outputs = 0;
  void* dx = nullptr;          // (rows, inputs) half, written; or null
  float* of_weight = nullptr;  // (outputs, inputs), added to
  float* of_bias = nullptr;    // (outputs,), added to
};
void narrow_gradients_cuda(const NarrowGradients& gradients, cudaStream_t stream);

}  // namespace longship::models
