#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <memory>
#include <string>
#include <vector>

#include "models/forecaster.h"

namespace longship::models {

enum class LstmInit {
  kSeed,   // orthogonal weights, zero biases, Kaiming normal head
  kTorch,  // PyTorch's default: everything uniform in +-1/sqrt(hidden)
};

struct LstmOptions {
  int64_t hidden_size = 256;
  int64_t num_layers = 3;
  double dropout = 0;  // between layers, as torch.nn.LSTM has it
  LstmInit init = LstmInit::kSeed;
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
  std::vector<std::string> advice() const override;
  double forward_flops() const override;

 private:
  at::Tensor run_layers(const Inputs& inputs);
  // Whether each layer is a call of its own.
  bool layer_by_layer() const;
  std::vector<at::Tensor> weights_of(int64_t layer) const;

  LstmOptions options_;
  ModelShape shape_;
  torch::nn::LSTM lstm_{nullptr};
  torch::nn::Linear head_{nullptr};
};

}  // namespace longship::models
