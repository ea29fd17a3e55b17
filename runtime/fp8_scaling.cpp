#include "runtime/fp8_scaling.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "runtime/error.h"

namespace longship::runtime {

using models::Fp8Layer;

void check_fp8(const Config& config, models::Forecaster& model) {
  if (config.precision.mode == "fp8" && model.fp8_layers().empty()) {
    throw ConfigError("precision.mode fp8: model " + config.model.name +
                      " has no linear layers that compute in FP8: use bf16, or "
                      "model.name patch_transformer");
  }
}

Fp8Scaling::Fp8Scaling(models::Forecaster& model, comm::Communicator& communicator,
                       c10::Device device)
    : layers_(model.fp8_layers()), communicator_(communicator) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  const auto matrices = static_cast<int64_t>(layers_.size()) * Fp8Layer::kMatrices;
  amax_ = at::zeros({matrices}, options);
  scale_ = at::ones({matrices}, options);
  history_ = at::zeros({matrices, kHistory}, options);
  int64_t first = 0;
  for (Fp8Layer* layer : layers_) {
    layer->scale = scale_.narrow(0, first, Fp8Layer::kMatrices);
    layer->amax = amax_.narrow(0, first, Fp8Layer::kMatrices);
    layer->from_itself = true;
    first += Fp8Layer::kMatrices;
  }
}

Fp8Scaling::~Fp8Scaling() {
  for (Fp8Layer* layer : layers_) *layer = Fp8Layer{};
}

void Fp8Scaling::agree() {
  communicator_.all_reduce(amax_, comm::ReduceOp::kMax);
}

void Fp8Scaling::update() {
  const at::NoGradGuard no_grad;
  const at::Tensor tells = at::isfinite(amax_).logical_and(amax_.gt(0)).unsqueeze(1);
  const at::Tensor moved = at::cat({history_.narrow(1, 1, kHistory - 1), amax_.unsqueeze(1)}, 1);
  history_.copy_(at::where(tells, moved, history_));
  amax_.zero_();
  make_scales();
}

void Fp8Scaling::make_scales() {
  const at::Tensor largest = history_.amax(1).view({-1, Fp8Layer::kMatrices});
  at::Tensor scale = scale_.view({-1, Fp8Layer::kMatrices});
  scale.narrow(1, 0, Fp8Layer::kGradient)
      .copy_(models::fp8_scale(largest.narrow(1, 0, Fp8Layer::kGradient), /*e5m2=*/false));
  scale.narrow(1, Fp8Layer::kGradient, 1)
      .copy_(models::fp8_scale(largest.narrow(1, Fp8Layer::kGradient, 1), /*e5m2=*/true));
  for (Fp8Layer* layer : layers_) layer->from_itself = false;
}

at::Tensor Fp8Scaling::state() const {
  return history_.cpu();
}

void Fp8Scaling::load_state(const at::Tensor& state) {
  if (!state.defined() || state.sizes() != history_.sizes()) return;
  history_.copy_(state);
  if (state.gt(0).any().item<bool>()) make_scales();
}

}  // namespace longship::runtime
