#include "models/fp8_linear.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include <tuple>

#include "models/fp8_cast.h"
#include "models/half_linear.h"

namespace longship::models {
namespace {

constexpr int64_t kMultiple = 16;  // of the sizes of FP8 matrix products

struct Operand {
  at::Tensor cast;     // (rows, columns)
  at::Tensor turned;   // (columns, rows)
  at::Tensor inverse;  // of the scale, float32 (1,)
};

Operand make_operand(const at::Tensor& matrix, const Fp8Layer& layer, Fp8Layer::Matrix which) {
  const bool e5m2 = which == Fp8Layer::kGradient;
  const at::Tensor values = matrix.contiguous();
  at::Tensor scale = layer.scale.narrow(0, which, 1);
  if (layer.from_itself) {
    scale =
        fp8_scale(at::linalg_vector_norm(values, INFINITY, c10::nullopt, false, at::kFloat), e5m2)
            .view(1);
  }
  const auto type = e5m2 ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn;
  Operand operand;
  operand.cast = at::empty(values.sizes(), values.options().dtype(type));
  operand.turned = at::empty({values.size(1), values.size(0)}, operand.cast.options());
  operand.inverse = scale.reciprocal();
  Fp8Cast cast;
  cast.values = values.const_data_ptr();
  cast.bfloat16 = values.scalar_type() == at::kBFloat16;
  cast.rows = values.size(0);
  cast.columns = values.size(1);
  cast.e5m2 = e5m2;
  cast.scale = scale.const_data_ptr<float>();
  cast.amax = layer.amax.mutable_data_ptr<float>() + which;
  cast.cast = operand.cast.mutable_data_ptr();
  cast.turned = operand.turned.mutable_data_ptr();
  cast_fp8_cuda(cast, c10::cuda::getCurrentCUDAStream(values.device().index()));
  return operand;
}

// a (m, k) times b_turned (n, k), transposed: cuBLAS wants the second factor column by column.
at::Tensor product(const at::Tensor& a, const at::Tensor& a_inverse, const at::Tensor& b_turned,
                   const at::Tensor& b_inverse, at::ScalarType result) {
  return at::_scaled_mm(a, b_turned.t(), a_inverse, b_inverse, {}, {}, result);
}

class Fp8Product : public torch::autograd::Function<Fp8Product> {
 public:
  // x (m, k) and weight (n, k), float32 or bfloat16 -> (m, n) bfloat16.
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const Fp8Layer& layer) {
    const Operand input = make_operand(x, layer, Fp8Layer::kInput);
    const Operand matrix = make_operand(weight, layer, Fp8Layer::kWeight);
    context->save_for_backward(
        {input.turned, input.inverse, matrix.turned, matrix.inverse, layer.scale, layer.amax});
    context->saved_data["from_itself"] = layer.from_itself;
    context->saved_data["input_type"] = static_cast<int64_t>(x.scalar_type());
    return product(input.cast, input.inverse, matrix.cast, matrix.inverse, at::kBFloat16);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    Fp8Layer layer;
    layer.scale = saved[4];
    layer.amax = saved[5];
    layer.from_itself = context->saved_data["from_itself"].toBool();
    const Operand gradient = make_operand(gradients[0], layer, Fp8Layer::kGradient);
    const auto input_type = static_cast<at::ScalarType>(context->saved_data["input_type"].toInt());
    // (m, n) (n, k), and (n, m) (m, k): both second factors were turned in forward.
    at::Tensor of_input;
    if (context->needs_input_grad(0)) {
      of_input = product(gradient.cast, gradient.inverse, saved[2], saved[3], input_type);
    }
    const at::Tensor of_weight =
        product(gradient.turned, gradient.inverse, saved[0], saved[1], at::kFloat);
    return {of_input, of_weight, at::Tensor()};
  }
};

}  // namespace

at::Tensor fp8_scale(const at::Tensor& amax, bool e5m2) {
  // Magnitudes lie below 2^exponent; the types end at 1.75 times 2^8 and 2^15.
  const int64_t top = e5m2 ? 15 : 8;
  const at::Tensor known = at::isfinite(amax).logical_and(amax.gt(0));
  const at::Tensor exponent =
      std::get<1>(at::frexp(at::where(known, amax, at::ones_like(amax)))).clamp(-100, 100);
  const at::Tensor scale = at::ldexp(at::ones_like(amax), top - exponent);
  return at::where(known, scale, at::ones_like(amax));
}

at::Tensor fp8_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const Fp8Layer& layer) {
  const int64_t inputs = weight.size(1);
  const int64_t outputs = weight.size(0);
  const int64_t rows = x.numel() / inputs;
  const bool fits =
      inputs % kMultiple == 0 && outputs % kMultiple == 0 && rows % kMultiple == 0 && rows > 0;
  if (!layer.amax.defined() || !c10::GradMode::is_enabled() || !fits) {
    const bool half = x.is_cuda() && at::autocast::is_autocast_enabled(at::kCUDA) &&
                      c10::GradMode::is_enabled() && weight.scalar_type() == at::kFloat &&
                      bias.defined() && rows > 0;
    if (!half) return at::linear(x, weight, bias);
    return half_linear(x, weight, bias, at::autocast::get_autocast_dtype(at::kCUDA));
  }
  const at::Tensor product = Fp8Product::apply(x.reshape({rows, inputs}), weight, layer);
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = outputs;
  return product.view(shape) + bias.to(at::kBFloat16);
}

}  // namespace longship::models
