#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/forecaster.h"
#include "models/lstm_node.h"

namespace longship::models {

enum class LstmInit {
  kSeed,   // orthogonal weights, zero biases, Kaiming normal head
  kTorch,  // PyTorch's default: everything uniform in +-1/sqrt(hidden)
};

enum class LstmImplementation {
  kAuto,   // the one of the others that use_implementation() names, else cuDNN
  kCudnn,  // oneDNN or ATen on CPUs
  kOwn,    // models/lstm_kernels.h where they can run, else as above
};

struct LstmOptions {
  int64_t hidden_size = 256;
  int64_t num_layers = 3;
  double dropout = 0;  // between layers, as torch.nn.LSTM has it
  LstmInit init = LstmInit::kSeed;
  LstmImplementation kernels = LstmImplementation::kAuto;
};

// A stack of LSTM layers over the window; the last layer's last hidden state goes through one
// linear layer to all horizon steps, targets and outputs. In Python:
//   lstm = torch.nn.LSTM(inputs, hidden_size, num_layers, batch_first=True)
//   head = torch.nn.Linear(hidden_size, horizon * targets * outputs)
//   head(lstm(past)[0][:, -1]).view(batch, horizon, targets, outputs)
// Parameters: lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0, ...,
// head.weight, head.bias (gate order i, f, g, o).
class LstmForecaster : public Forecaster {
 public:
  LstmForecaster(const LstmOptions& options, const ModelShape& shape);

  void initialise() override;
  Forecast forward(const Inputs& inputs) override;
  void on_device() override;
  std::vector<std::string> implementations(const Inputs& inputs) override;
  void use_implementation(const std::string& name) override;
  std::vector<std::string> advice() const override;
  std::vector<std::string> report() const override;
  double forward_flops() const override;

 private:
  at::Tensor with_dropout(
      const Inputs& inputs,
      const std::function<at::Tensor(const at::Tensor& sequence, int64_t layer)>& run);
  at::Tensor run_layers(const Inputs& inputs);
  at::Tensor run_own_kernels(const Inputs& inputs);
  at::Tensor last_step(const Inputs& inputs);
  // From the last layer's last output, (batch, hidden): (batch, horizon targets outputs).
  at::Tensor head(const at::Tensor& last);
  // What own kernels would compute; its type is that of autocast, or of the inputs without.
  LstmKernelShape kernel_shape(const at::Tensor& past) const;
  // Why they cannot; empty if they can.
  std::string obstacle(const at::Tensor& past);
  // Whether each layer is a call of its own.
  bool layer_by_layer() const;
  std::vector<at::Tensor> weights_of(int64_t layer) const;

  LstmOptions options_;
  ModelShape shape_;
  torch::nn::LSTM lstm_{nullptr};
  torch::nn::Linear head_{nullptr};
  LstmNode node_;
  bool own_chosen_ = false;  // by use_implementation()
  // Why own kernels could not run the last forward in training on a GPU; empty if they could.
  std::optional<std::string> obstacle_;
};

}  // namespace longship::models
