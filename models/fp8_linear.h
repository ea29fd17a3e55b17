#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

namespace longship::models {

// The numbers by which one linear layer computes in FP8. They belong to who trains
// (runtime/fp8_scaling.h), which agrees on them over ranks; undefined: the layer does not.
//
// Note [FP8 linear layers]
// Products of FP8 matrices, summed in float32, are twice as fast as those of BF16 on GPUs that have
// them. Forward uses E4M3 (3 bits of mantissa, up to 448) for input and weight; backward E5M2 (2
// bits, up to 57344) for the gradient of the output, with E4M3 on the other side. Each matrix is
// multiplied by a power of two that brings its largest magnitude near the top of the type's range,
// and the product is divided by it again. The largest magnitude of this step's matrix is not known
// before it has been read once, so the factor comes from those of the last steps (delayed scaling);
// what exceeds the range all the same is limited to it. Only in the first step, where nothing is
// known, is the matrix read twice.
struct Fp8Layer {
  enum Matrix { kInput, kWeight, kGradient, kMatrices };

  at::Tensor scale;         // float32 (kMatrices,), powers of two
  at::Tensor amax;          // float32 (kMatrices,): raised to the largest magnitudes that came
  bool from_itself = true;  // whether factors come from the matrices at hand
};

// The factor that brings magnitudes up to `amax` below half of a type's range: a power of two, 1
// where amax is zero or not finite. amax: float32, any shape, on any device.
at::Tensor fp8_scale(const at::Tensor& amax, bool e5m2);

// x (..., inputs) times weight (outputs, inputs), transposed, plus bias (outputs,): in FP8 where
// `layer` has its numbers, gradients are wanted and all sizes are multiples of 16, with a result in
// BF16; else as at::linear, under autocast on a GPU by half_linear().
at::Tensor fp8_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const Fp8Layer& layer);

// A torch::nn::Linear whose transform() can compute in FP8, in the place of forward().
class Fp8Linear : public torch::nn::LinearImpl {
 public:
  using LinearImpl::LinearImpl;
  at::Tensor transform(const at::Tensor& x) { return fp8_linear(x, weight, bias, fp8); }

  Fp8Layer fp8;
};

}  // namespace longship::models
