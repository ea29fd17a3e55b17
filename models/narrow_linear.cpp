#include "models/narrow_linear.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <utility>

#include "models/leaf_gradients.h"
#include "models/narrow_product.h"

namespace longship::models {
namespace {

using torch::autograd::variable_list;

// In the order of the inputs: x, weight, bias.
class NarrowBackward final : public AccumulatingNode {
 public:
  NarrowBackward(at::Tensor x, const at::Tensor& weight, const at::Tensor& bias)
      : AccumulatingNode({weight, bias}), x_(std::move(x)) {}

  std::string name() const override { return "NarrowLinearBackward"; }

  variable_list apply(variable_list&& of_outputs) override {
    TORCH_CHECK(x_.defined(), "a narrow linear layer's backward was run twice");
    const at::Tensor& weight = parameters()[0];
    const at::Tensor& bias = parameters()[1];
    const at::Tensor dy = of_outputs.front().to(x_.scalar_type()).contiguous();
    const c10::cuda::CUDAGuard guard(x_.device());
    const bool in_place = may_accumulate();
    at::Tensor of_weight = in_place ? weight.grad() : at::zeros_like(weight);
    at::Tensor of_bias = in_place ? bias.grad() : at::zeros_like(bias);
    at::Tensor dx;
    NarrowGradients g;
    g.bfloat16 = x_.scalar_type() == at::kBFloat16;
    g.dy = dy.const_data_ptr();
    g.x = x_.const_data_ptr();
    g.weight = weight.const_data_ptr<float>();
    g.rows = x_.size(0);
    g.inputs = x_.size(1);
    g.outputs = weight.size(0);
    if (task_should_compute_output(0)) {
      dx = at::empty_like(x_);
      g.dx = dx.mutable_data_ptr();
    }
    g.of_weight = of_weight.mutable_data_ptr<float>();
    g.of_bias = of_bias.mutable_data_ptr<float>();
    narrow_gradients_cuda(g, c10::cuda::getCurrentCUDAStream());
    if (!in_place) return {dx, of_weight, of_bias};
    announce_gradient(weight);
    announce_gradient(bias);
    cut_parameters();
    return {dx, at::Tensor(), at::Tensor()};
  }

  void release_variables() override {
    AccumulatingNode::release_variables();
    x_.reset();
  }

 private:
  at::Tensor x_;
};

}  // namespace

bool is_narrow_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  constexpr int64_t kMultiple = 8;
  const bool dense = weight.scalar_type() == at::kFloat && weight.is_contiguous() &&
                     bias.defined() && bias.scalar_type() == at::kFloat && bias.is_contiguous();
  return x.is_cuda() && x.dim() == 2 && x.size(0) > 0 &&
         (x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16) && dense &&
         weight.size(0) <= kMostNarrowOutputs && weight.size(1) % kMultiple == 0;
}

at::Tensor narrow_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  TORCH_CHECK(is_narrow_linear(x, weight, bias), "narrow_linear does not take ", x.sizes(), " by ",
              weight.sizes());
  const bool differentiated = at::GradMode::is_enabled() &&
                              (x.requires_grad() || weight.requires_grad() || bias.requires_grad());
  at::Tensor y;
  std::shared_ptr<NarrowBackward> node;
  {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const c10::cuda::CUDAGuard device(x.device());
    const at::Tensor rows = x.contiguous();
    y = at::empty({x.size(0), weight.size(0)}, x.options());
    NarrowProduct p;
    p.bfloat16 = x.scalar_type() == at::kBFloat16;
    p.x = rows.const_data_ptr();
    p.weight = weight.const_data_ptr<float>();
    p.bias = bias.const_data_ptr<float>();
    p.y = y.mutable_data_ptr();
    p.rows = x.size(0);
    p.inputs = x.size(1);
    p.outputs = weight.size(0);
    narrow_product_cuda(p, c10::cuda::getCurrentCUDAStream());
    if (!differentiated) return y;
    node = std::shared_ptr<NarrowBackward>(new NarrowBackward(rows.detach(), weight, bias),
                                           torch::autograd::deleteNode);
  }
  node->set_next_edges(torch::autograd::collect_next_edges(x, weight, bias));
  torch::autograd::set_history(y, node);
  return y;
}

}  // namespace longship::models
