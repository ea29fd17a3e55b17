#include "models/leaf_gradients.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

namespace longship::models {

bool AccumulatingNode::may_accumulate() const {
  const auto* executed = torch::autograd::get_current_graph_task_exec_info();
  if (executed == nullptr || !executed->empty()) return false;
  if (torch::autograd::get_current_graph_task_keep_graph() || at::GradMode::is_enabled()) {
    return false;
  }
  return std::all_of(parameters_.begin(), parameters_.end(), [](const at::Tensor& parameter) {
    const at::Tensor& gradient = parameter.grad();
    return parameter.is_leaf() && parameter.requires_grad() &&
           torch::autograd::impl::hooks(parameter).empty() && gradient.defined() &&
           gradient.scalar_type() == at::kFloat && gradient.device() == parameter.device() &&
           gradient.sizes() == parameter.sizes() && gradient.is_contiguous();
  });
}

void AccumulatingNode::cut_parameters() {
  const auto first = next_edges_.end() - static_cast<int64_t>(parameters_.size());
  cut_.assign(first, next_edges_.end());
  std::fill(first, next_edges_.end(), torch::autograd::Edge());
}

void announce_gradient(const at::Tensor& parameter) {
  const auto& hook = torch::autograd::impl::post_acc_grad_hooks(parameter);
  if (hook) (*hook)(parameter);
}

}  // namespace longship::models
