#include "models/lstm.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include "models/dropout.h"
#include "models/registry.h"

namespace longship::models {
namespace {

// Tensor Cores take tiles whose sides are multiples of 8 elements of a half type.
constexpr int64_t kTensorCoreMultiple = 8;

int64_t rounded_up(int64_t n) {
  return (n + kTensorCoreMultiple - 1) / kTensorCoreMultiple * kTensorCoreMultiple;
}

}  // namespace

LstmForecaster::LstmForecaster(const LstmOptions& options, const ModelShape& shape)
    : options_(options), shape_(shape) {
  lstm_ = register_module("lstm",
                          torch::nn::LSTM(torch::nn::LSTMOptions(shape.inputs, options.hidden_size)
                                              .num_layers(options.num_layers)
                                              .batch_first(true)));
  head_ = register_module("head", torch::nn::Linear(options.hidden_size,
                                                    shape.horizon * shape.targets * shape.outputs));
  if (options.init == LstmInit::kSeed) {
    initialise();
  }
}

void LstmForecaster::initialise() {
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : lstm_->named_parameters()) {
    if (parameter.key().rfind("weight", 0) == 0) {
      torch::nn::init::orthogonal_(parameter.value());
    } else {
      parameter.value().zero_();
    }
  }
  torch::nn::init::kaiming_normal_(head_->weight);
  head_->bias.zero_();
}

void LstmForecaster::on_device() {
  // cuDNN wants the weights in one piece; without it every forward would copy them there.
  if (head_->weight.is_cuda()) {
    lstm_->flatten_parameters();
  }
}

// One call for all layers, or, with dropout, one a layer with masks of our own: cuDNN's multi-layer
// LSTM keeps its dropout state to itself, and a mask must follow from (seed, step, micro-batch,
// layer) alone.
at::Tensor LstmForecaster::run_layers(const Inputs& inputs) {
  const at::Tensor& past = inputs.past;
  const bool masked = is_training() && options_.dropout > 0 && options_.num_layers > 1;
  const int64_t layers_per_call = masked ? 1 : options_.num_layers;
  const std::vector<at::Tensor> weights = lstm_->all_weights();
  const at::Tensor zeros =
      at::zeros({layers_per_call, past.size(0), options_.hidden_size}, past.options());
  if (!masked) {
    return std::get<0>(at::lstm(past, {zeros, zeros}, weights, /*has_biases=*/true,
                                options_.num_layers, /*dropout=*/0.0, is_training(),
                                /*bidirectional=*/false, /*batch_first=*/true));
  }
  at::Tensor sequence = past;
  for (int64_t layer = 0; layer < options_.num_layers; ++layer) {
    const auto first = weights.begin() + 4 * layer;
    sequence =
        std::get<0>(at::lstm(sequence, {zeros, zeros}, std::vector<at::Tensor>(first, first + 4),
                             true, 1, 0.0, true, false, true));
    if (layer + 1 < options_.num_layers) {
      sequence = dropout(sequence, options_.dropout, inputs.random, layer);
    }
  }
  return sequence;
}

Forecast LstmForecaster::forward(const Inputs& inputs) {
  const at::Tensor last = run_layers(inputs).select(1, -1);
  return {head_->forward(last).view({-1, shape_.horizon, shape_.targets, shape_.outputs})};
}

std::vector<std::string> LstmForecaster::advice() const {
  std::vector<std::string> lines;
  const auto check = [&lines](const char* what, int64_t n) {
    if (n % kTensorCoreMultiple != 0) {
      lines.push_back(std::string(what) + " is " + std::to_string(n) +
                      ", not a multiple of 8, so Tensor Cores work on padding: " +
                      std::to_string(rounded_up(n)) + " costs no more");
    }
  };
  check("model.hidden_size", options_.hidden_size);
  check("the number of inputs", shape_.inputs);
  return lines;
}

namespace {

const Registration registration(ModelSpec{
    "lstm",
    "LSTM layers over the window, last step through one linear layer to all horizon steps",
    {
        {"hidden_size", int64_t{256}, 1, 65536, {}, "units", "width of each layer"},
        {"num_layers", int64_t{3}, 1, 64, {}, "layers", "number of stacked layers"},
        {"dropout", 0.0, 0, 0.99, {}, "probability", "dropout between layers"},
        {"init",
         std::string("seed"),
         0,
         -1,
         {"seed", "torch"},
         "",
         "initialisation: seed (orthogonal weights, zero biases, Kaiming normal head) or torch "
         "(PyTorch's default)"},
    },
    [](const Options& options, const ModelShape& shape) -> std::shared_ptr<Forecaster> {
      LstmOptions lstm;
      lstm.hidden_size = options.integer("hidden_size");
      lstm.num_layers = options.integer("num_layers");
      lstm.dropout = options.number("dropout");
      lstm.init = options.text("init") == "seed" ? LstmInit::kSeed : LstmInit::kTorch;
      return std::make_shared<LstmForecaster>(lstm, shape);
    },
});

}  // namespace
}  // namespace longship::models
