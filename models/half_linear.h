#pragma once

#include <ATen/core/Tensor.h>

namespace longship::models {

// at::linear(x, weight, bias) in a half type on a GPU, from a float32 weight and bias and x of
// float32 or of that type: what autocast does, with the gradients of weight and bias, and of a
// float32 x, straight from the products' FP32 sums, and the bias's by a kernel of our own.
// x: (..., inputs); weight: (outputs, inputs); bias: (outputs,) -> (..., outputs) of `type`.
at::Tensor half_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       at::ScalarType type);

// The sum over rows of a matrix of halves on a GPU, (rows, columns) -> (columns,) float32.
at::Tensor column_sums(const at::Tensor& matrix);

}  // namespace longship::models
