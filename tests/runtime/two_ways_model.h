#pragma once

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "models/forecaster.h"

namespace longship::tests {

// Computes the same in two ways, of which one takes its time.
class TwoWays : public models::Forecaster {
 public:
  explicit TwoWays(const models::ModelShape& shape) : shape_(shape) {
    layer_ = register_module("layer", torch::nn::Linear(shape.inputs, outputs()));
  }

  std::vector<std::string> implementations(const models::Inputs&) override {
    return {"slow", "quick"};
  }
  void use_implementation(const std::string& name) override { used = name; }
  models::Forecast forward(const models::Inputs& inputs) override {
    if (used == slow) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    if (!at::GradMode::is_enabled()) ++inferences;
    return {layer_->forward(inputs.past.select(1, -1))
                .view({-1, shape_.horizon, shape_.targets, shape_.outputs})};
  }

  std::string slow = "slow";  // or "quick"
  std::string used;
  int inferences = 0;

 private:
  int64_t outputs() const { return shape_.horizon * shape_.targets * shape_.outputs; }

  models::ModelShape shape_;
  torch::nn::Linear layer_{nullptr};
};

}  // namespace longship::tests
