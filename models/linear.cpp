#include <torch/nn/modules/linear.h>

#include <memory>

#include "models/registry.h"

namespace longship::models {
namespace {

// The baseline that a larger model has to beat: one linear layer from the whole window to the whole
// forecast. Parameters: linear.weight (horizon * targets * outputs, window * inputs), linear.bias;
// initialised as torch.nn.Linear is.
class LinearForecaster : public Forecaster {
 public:
  explicit LinearForecaster(const ModelShape& shape)
      : shape_(shape),
        linear_(register_module(
            "linear", torch::nn::Linear(shape.window * shape.inputs,
                                        shape.horizon * shape.targets * shape.outputs))) {}

  Forecast forward(const Inputs& inputs) override {
    return {linear_->forward(inputs.past.flatten(1))
                .view({-1, shape_.horizon, shape_.targets, shape_.outputs})};
  }

 private:
  ModelShape shape_;
  torch::nn::Linear linear_;
};

const Registration registration(ModelSpec{
    "linear",
    "one linear layer from the whole window to the whole forecast",
    {},
    [](const Options&, const ModelShape& shape) -> std::shared_ptr<Forecaster> {
      return std::make_shared<LinearForecaster>(shape);
    },
});

}  // namespace
}  // namespace longship::models
