#pragma once

#include <ATen/core/Tensor.h>

namespace longship::models {

// at::linear of halves on a GPU with few outputs, such as a forecaster's head, whose weight and
// bias stay float32: three small kernels where autocast and autograd take a dozen, each waiting for
// the one before. Differentiable in all; the weights' gradients go to .grad directly where they may
// (see models/leaf_gradients.h).

// Whether narrow_linear takes these: x of fp16 or bfloat16 on a GPU, inputs a multiple of 8, at
// most 16 outputs, weight and bias float32 and dense.
bool is_narrow_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// x: (rows, inputs); weight: (outputs, inputs); bias: (outputs,) -> (rows, outputs) of x's type.
// Sums are float32.
at::Tensor narrow_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace longship::models
