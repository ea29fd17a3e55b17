#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <memory>

#include "models/registry.h"

namespace longship::models {
namespace {

// A GRU over the window; its last hidden state, with the last input row beside it unless
// `skip` is false, goes through one linear layer to the whole forecast.
class GruForecaster : public Forecaster {
 public:
  GruForecaster(int64_t hidden_size, bool skip, const ModelShape& shape)
      : shape_(shape), skip_(skip) {
    gru_ = register_module(
        "gru", torch::nn::GRU(torch::nn::GRUOptions(shape.inputs, hidden_size).batch_first(true)));
    head_ =
        register_module("head", torch::nn::Linear(hidden_size + (skip ? shape.inputs : 0),
                                                  shape.horizon * shape.targets * shape.outputs));
  }

  Forecast forward(const Inputs& inputs) override {
    at::Tensor features = std::get<0>(gru_->forward(inputs.past)).select(1, -1);
    if (skip_) {
      features = at::cat({features, inputs.past.select(1, -1)}, 1);
    }
    return {head_->forward(features).view({-1, shape_.horizon, shape_.targets, shape_.outputs})};
  }

 private:
  ModelShape shape_;
  bool skip_;
  torch::nn::GRU gru_{nullptr};
  torch::nn::Linear head_{nullptr};
};

const Registration registration(ModelSpec{
    "gru",
    "one GRU layer over the window",
    {
        {"hidden_size", int64_t{64}, 1, 65536, {}, "units", "width of the GRU"},
        {"skip", true, 0, -1, {}, "", "shows the last input row to the head as well"},
    },
    [](const Options& options, const ModelShape& shape) -> std::shared_ptr<Forecaster> {
      return std::make_shared<GruForecaster>(options.integer("hidden_size"), options.flag("skip"),
                                             shape);
    },
});

}  // namespace
}  // namespace longship::models
