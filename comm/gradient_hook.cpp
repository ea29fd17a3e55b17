#include "comm/gradient_hook.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

namespace longship::comm {
namespace {

class Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Hook(std::function<void()> arrived) : arrived_(std::move(arrived)) {}
  void operator()(const at::Tensor& /*tensor*/) override { arrived_(); }

 private:
  std::function<void()> arrived_;
};

}  // namespace

void set_gradient_hook(const at::Tensor& parameter, std::function<void()> arrived) {
  torch::autograd::impl::set_post_acc_grad_hooks(
      parameter, arrived ? std::make_unique<Hook>(std::move(arrived)) : nullptr);
}

}  // namespace longship::comm
