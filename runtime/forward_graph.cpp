#include "runtime/forward_graph.h"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "runtime/implementation_choice.h"

namespace longship::runtime {
namespace {

at::ScalarType type_of(PrecisionMode precision) {
  return precision == PrecisionMode::kFp16   ? at::kHalf
         : precision == PrecisionMode::kBf16 ? at::kBFloat16
                                             : at::kFloat;
}

}  // namespace

ForwardGraph::ForwardGraph(models::Forecaster& model, int64_t batch,
                           const models::ModelShape& shape, PrecisionMode precision,
                           c10::Device device)
    : model_(model), precision_(precision) {
  past_ = at::zeros({batch, shape.window, shape.inputs}, at::TensorOptions().device(device));
  model_.eval();
  model_.to(type_of(precision));
  model_.on_device();
  models::Inputs inputs;
  inputs.past = past_.to(type_of(precision));
  // The type is the inputs', so that there is no autocast.
  implementation_ = fastest(
      time_implementations(model_, inputs, /*precision=*/PrecisionMode::kFp32, /*as_graph=*/true));
  if (!implementation_.empty()) model_.use_implementation(implementation_);
  constexpr int kEagerPasses = 3;  // libraries make their handles and workspaces
  for (int i = 0; i < kEagerPasses; ++i) forward();
  if (!device.is_cuda()) {
    why_ = "there is no GPU";
    return;
  }
  try {
    graph_ = std::make_unique<StepGraph>(StepGraph::make_pool(), device, [this] { forward(); });
  } catch (const std::exception& error) {
    why_ = error.what();
    why_ = why_.substr(0, why_.find('\n'));
    forward();
  }
}

void ForwardGraph::forward() {
  const at::NoGradGuard no_grad;
  models::Inputs inputs;
  inputs.past = past_.to(type_of(precision_));
  forecast_ = model_.forward(inputs).values;
}

const at::Tensor& ForwardGraph::run() {
  if (graph_) {
    graph_->replay();
  } else {
    forward();
  }
  return forecast_;
}

}  // namespace longship::runtime
