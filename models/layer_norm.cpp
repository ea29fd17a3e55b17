#include "models/layer_norm.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "models/row_sums.h"

namespace longship::models {
namespace {

constexpr int64_t kWarpsOfBlock = 8;

class Normalized : public torch::autograd::Function<Normalized> {
 public:
  // x (rows, columns); all float32 and dense.
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& gamma, const at::Tensor& beta, double eps) {
    const c10::cuda::CUDAGuard guard(x.device());
    LayerNormForward norm;
    norm.rows = x.size(0);
    norm.columns = x.size(1);
    const at::Tensor y = at::empty_like(x);
    const at::Tensor mean = at::empty({norm.rows}, x.options());
    const at::Tensor rstd = at::empty({norm.rows}, x.options());
    norm.x = x.const_data_ptr<float>();
    norm.gamma = gamma.const_data_ptr<float>();
    norm.beta = beta.const_data_ptr<float>();
    norm.eps = static_cast<float>(eps);
    norm.y = y.mutable_data_ptr<float>();
    norm.mean = mean.mutable_data_ptr<float>();
    norm.rstd = rstd.mutable_data_ptr<float>();
    layer_norm_cuda(norm, c10::cuda::getCurrentCUDAStream());
    context->save_for_backward({x, gamma, mean, rstd});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor dy = gradients[0].contiguous();
    const at::Tensor& x = saved[0];
    const c10::cuda::CUDAGuard guard(x.device());
    LayerNormBackward norm;
    norm.rows = x.size(0);
    norm.columns = x.size(1);
    // Blocks that all run at once, of some rows each.
    norm.blocks = std::clamp<int64_t>(
        norm.rows / (4 * kWarpsOfBlock), 1,
        2 * int64_t{at::cuda::getCurrentDeviceProperties()->multiProcessorCount});
    const at::Tensor dx = at::empty_like(x);
    const at::Tensor partial = at::empty({norm.blocks, 2, norm.columns}, x.options());
    norm.dy = dy.const_data_ptr<float>();
    norm.x = x.const_data_ptr<float>();
    norm.gamma = saved[1].const_data_ptr<float>();
    norm.mean = saved[2].const_data_ptr<float>();
    norm.rstd = saved[3].const_data_ptr<float>();
    norm.dx = dx.mutable_data_ptr<float>();
    norm.partial = partial.mutable_data_ptr<float>();
    layer_norm_backward_cuda(norm, c10::cuda::getCurrentCUDAStream());
    const at::Tensor of_both = partial.sum(0);
    return {dx, of_both[0], of_both[1], at::Tensor()};
  }
};

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, torch::nn::LayerNormImpl& norm) {
  const at::Tensor& gamma = norm.weight;
  const at::Tensor& beta = norm.bias;
  const int64_t columns = x.size(-1);
  const bool ours = x.is_cuda() && x.scalar_type() == at::kFloat && gamma.defined() &&
                    beta.defined() && gamma.scalar_type() == at::kFloat && gamma.dim() == 1 &&
                    columns % 4 == 0 && columns <= kMostNormalizedColumns && x.numel() > 0;
  if (!ours) return norm.forward(x);
  return Normalized::apply(x.reshape({-1, columns}).contiguous(), gamma, beta, norm.options.eps())
      .view(x.sizes());
}

}  // namespace longship::models
