#include "models/lstm.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/nn/init.h>

#include "models/cudnn_lstm.h"
#include "models/dropout.h"
#include "models/half_linear.h"
#include "models/narrow_linear.h"
#include "models/registry.h"

namespace longship::models {
namespace {

// Tensor Cores take tiles whose sides are multiples of 8 elements of a half type.
constexpr int64_t kTensorCoreMultiple = 8;

constexpr const char* kCudnnName = "cudnn";
constexpr const char* kOwnName = "own";

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
}

void LstmForecaster::initialise() {
  if (options_.init == LstmInit::kTorch) return;  // the constructor has
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
  // cuDNN wants the weights of a call in one piece; without it every forward would copy them there.
  if (!head_->weight.is_cuda()) {
    return;
  }
  if (!layer_by_layer()) {
    lstm_->flatten_parameters();
    return;
  }
  const torch::NoGradGuard no_grad;
  for (int64_t layer = 0; layer < options_.num_layers; ++layer) {
    flatten_for_cudnn(weights_of(layer), layer == 0 ? shape_.inputs : options_.hidden_size,
                      options_.hidden_size, 1);
  }
}

bool LstmForecaster::layer_by_layer() const {
  return options_.dropout > 0 && options_.num_layers > 1;
}

// weight_ih, weight_hh, bias_ih, bias_hh.
std::vector<at::Tensor> LstmForecaster::weights_of(int64_t layer) const {
  const std::vector<at::Tensor> all = lstm_->all_weights();
  const auto first = all.begin() + 4 * layer;
  return {first, first + 4};
}

// Layer by layer, with dropout between them: cuDNN's multi-layer LSTM keeps its dropout state to
// itself, and a mask must follow from (seed, step, micro-batch, layer) alone.
at::Tensor LstmForecaster::with_dropout(
    const Inputs& inputs,
    const std::function<at::Tensor(const at::Tensor& sequence, int64_t layer)>& run) {
  at::Tensor sequence = inputs.past;
  for (int64_t layer = 0; layer < options_.num_layers; ++layer) {
    sequence = run(sequence, layer);
    if (is_training() && layer + 1 < options_.num_layers) {
      sequence = dropout(sequence, options_.dropout, inputs.random, layer);
    }
  }
  return sequence;
}

// The last layer's output at every step, by LibTorch.
at::Tensor LstmForecaster::run_layers(const Inputs& inputs) {
  const auto run = [&](const at::Tensor& sequence, const std::vector<at::Tensor>& weights,
                       int64_t layers) {
    if (sequence.is_cuda() && kernel_shape(sequence).type == at::kBFloat16) {
      return cudnn_lstm_bf16(sequence, weights, options_.hidden_size, layers, is_training());
    }
    const at::Tensor zeros =
        at::zeros({layers, sequence.size(0), options_.hidden_size}, inputs.past.options());
    return std::get<0>(at::lstm(sequence, {zeros, zeros}, weights, /*has_biases=*/true, layers,
                                /*dropout=*/0.0, is_training(), /*bidirectional=*/false,
                                /*batch_first=*/true));
  };
  if (!layer_by_layer()) {
    return run(inputs.past, lstm_->all_weights(), options_.num_layers);
  }
  return with_dropout(inputs, [&](const at::Tensor& sequence, int64_t layer) {
    return run(sequence, weights_of(layer), 1);
  });
}

// The last layer's output at the last step, by own kernels.
at::Tensor LstmForecaster::run_own_kernels(const Inputs& inputs) {
  LstmKernelShape shape = kernel_shape(inputs.past);
  // Without dropout all layers are one piece of work, in evaluation too.
  if (!is_training() || !layer_by_layer()) {
    return node_.last_step(shape, inputs.past, lstm_->all_weights());
  }
  shape.layers = 1;
  return with_dropout(inputs,
                      [&](const at::Tensor& sequence, int64_t layer) {
                        shape.inputs = sequence.size(2);
                        return node_.sequence(shape, sequence, weights_of(layer));
                      })
      .select(1, -1);
}

LstmKernelShape LstmForecaster::kernel_shape(const at::Tensor& past) const {
  LstmKernelShape shape;
  shape.type = at::autocast::is_autocast_enabled(at::kCUDA)
                   ? at::autocast::get_autocast_dtype(at::kCUDA)
                   : past.scalar_type();
  shape.batch = past.size(0);
  shape.window = past.size(1);
  shape.inputs = past.size(2);
  shape.hidden = options_.hidden_size;
  shape.layers = options_.num_layers;
  return shape;
}

std::string LstmForecaster::obstacle(const at::Tensor& past) {
  if (!past.is_cuda()) return "they are for GPUs";
  LstmKernelShape shape = kernel_shape(past);
  if (is_training() && layer_by_layer()) shape.layers = 1;
  return node_.obstacle(shape, past.device().index());
}

std::vector<std::string> LstmForecaster::implementations(const Inputs& inputs) {
  if (options_.kernels != LstmImplementation::kAuto || !obstacle(inputs.past).empty()) return {};
  return {kCudnnName, kOwnName};
}

void LstmForecaster::use_implementation(const std::string& name) {
  own_chosen_ = name == kOwnName;
}

at::Tensor LstmForecaster::last_step(const Inputs& inputs) {
  const bool automatic = options_.kernels == LstmImplementation::kAuto;
  if (options_.kernels == LstmImplementation::kOwn || (automatic && inputs.past.is_cuda())) {
    const std::string why_not = obstacle(inputs.past);
    if (is_training()) obstacle_ = why_not;
    if (why_not.empty() && (own_chosen_ || !automatic)) {
      return run_own_kernels(inputs);
    }
  }
  return run_layers(inputs).select(1, -1);
}

std::vector<std::string> LstmForecaster::report() const {
  if (!obstacle_) return {};
  const bool automatic = options_.kernels == LstmImplementation::kAuto;
  if (!obstacle_->empty()) {
    return {std::string("model.kernels ") + (automatic ? "auto" : "own") +
            ": the LSTM's layers are computed without own kernels, since " + *obstacle_};
  }
  if (automatic) return {};  // whoever chose has told
  return {"the LSTM's layers are computed by own kernels (model.kernels)"};
}

at::Tensor LstmForecaster::head(const at::Tensor& last) {
  if (!at::autocast::is_autocast_enabled(at::kCUDA)) return head_->forward(last);
  if (is_narrow_linear(last, head_->weight, head_->bias)) {
    return narrow_linear(last, head_->weight, head_->bias);
  }
  const bool half = last.is_cuda() && at::isReducedFloatingType(last.scalar_type());
  return half ? half_linear(last, head_->weight, head_->bias, last.scalar_type())
              : head_->forward(last);
}

Forecast LstmForecaster::forward(const Inputs& inputs) {
  const at::Tensor last = last_step(inputs);
  return {head(last).view({-1, shape_.horizon, shape_.targets, shape_.outputs})};
}

double LstmForecaster::forward_flops() const {
  constexpr double kGates = 4;
  double products = 0;
  for (int64_t layer = 0; layer < options_.num_layers; ++layer) {
    const int64_t inputs = layer == 0 ? shape_.inputs : options_.hidden_size;
    products +=
        kGates * static_cast<double>(options_.hidden_size * (inputs + options_.hidden_size));
  }
  products *= static_cast<double>(shape_.window);
  products += static_cast<double>(head_->weight.numel());
  return 2 * products;
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
        {"kernels",
         std::string("auto"),
         0,
         -1,
         {"auto", kCudnnName, kOwnName},
         "",
         "what computes the layers on a GPU: cuDNN, or own kernels for compute capability 9.0, in "
         "fp16 and bf16, for widths of 64, 128, 192 and 256; auto measures both at the start of a "
         "run and takes the faster; where own cannot, cuDNN computes, and the log says why",
         /*free=*/true},
    },
    [](const Options& options, const ModelShape& shape) -> std::shared_ptr<Forecaster> {
      LstmOptions lstm;
      lstm.hidden_size = options.integer("hidden_size");
      lstm.num_layers = options.integer("num_layers");
      lstm.dropout = options.number("dropout");
      lstm.init = options.text("init") == "seed" ? LstmInit::kSeed : LstmInit::kTorch;
      const std::string& kernels = options.text("kernels");
      lstm.kernels = kernels == kOwnName     ? LstmImplementation::kOwn
                     : kernels == kCudnnName ? LstmImplementation::kCudnn
                                             : LstmImplementation::kAuto;
      return std::make_shared<LstmForecaster>(lstm, shape);
    },
});

}  // namespace
}  // namespace longship::models
