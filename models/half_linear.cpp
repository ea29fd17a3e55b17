#include "models/half_linear.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/row_sums.h"

namespace longship::models {
namespace {

class HalfProduct : public torch::autograd::Function<HalfProduct> {
 public:
  // x (m, k), weight (n, k), bias (n,) -> (m, n).
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& bias, int64_t type) {
    const auto half = static_cast<at::ScalarType>(type);
    const at::Tensor input = x.to(half);
    const at::Tensor matrix = weight.to(half);
    context->save_for_backward({input, matrix});
    context->saved_data["float_input"] = x.scalar_type() == at::kFloat;
    return at::addmm(bias.to(half), input, matrix.t());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor dy = gradients[0].contiguous();
    at::Tensor of_input;
    if (context->needs_input_grad(0)) {
      of_input = context->saved_data["float_input"].toBool() ? at::mm(dy, saved[1], at::kFloat)
                                                             : at::mm(dy, saved[1]);
    }
    return {of_input, at::mm(dy.t(), saved[0], at::kFloat), column_sums(dy), at::Tensor()};
  }
};

}  // namespace

at::Tensor column_sums(const at::Tensor& matrix) {
  constexpr int64_t kMultiple = 8;
  if (matrix.size(1) % kMultiple != 0 || matrix.numel() == 0) {
    return at::sum(matrix, 0, /*keepdim=*/false, at::kFloat);
  }
  const c10::cuda::CUDAGuard guard(matrix.device());
  const at::Tensor dense = matrix.contiguous();
  ColumnSums sums;
  sums.values = dense.const_data_ptr();
  sums.bfloat16 = dense.scalar_type() == at::kBFloat16;
  sums.rows = dense.size(0);
  sums.columns = dense.size(1);
  const int64_t blocks = (sums.rows + sums.rows_of_block - 1) / sums.rows_of_block;
  const at::Tensor partial = at::empty({blocks, sums.columns}, dense.options().dtype(at::kFloat));
  sums.partial = partial.mutable_data_ptr<float>();
  column_sums_cuda(sums, c10::cuda::getCurrentCUDAStream());
  return blocks == 1 ? partial[0] : partial.sum(0);
}

at::Tensor half_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       at::ScalarType type) {
  const at::Tensor rows = x.reshape({-1, weight.size(1)});
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return HalfProduct::apply(rows, weight, bias, static_cast<int64_t>(type)).view(shape);
}

}  // namespace longship::models
