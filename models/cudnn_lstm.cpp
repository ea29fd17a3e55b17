#include "models/cudnn_lstm.h"

#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

namespace longship::models {
namespace {

// One call of cuDNN without it copies all weights to one piece first, and warns.
class CastWeights : public torch::autograd::Function<CastWeights> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* /*context*/,
                                                at::TensorList weights, int64_t inputs,
                                                int64_t hidden, int64_t layers) {
    torch::autograd::variable_list cast;
    for (const at::Tensor& weight : weights) cast.push_back(weight.to(at::kBFloat16));
    flatten_for_cudnn(cast, inputs, hidden, layers);
    return cast;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 const torch::autograd::variable_list& of_cast) {
    torch::autograd::variable_list gradients;
    for (const at::Tensor& gradient : of_cast) {
      gradients.push_back(gradient.defined() ? gradient.to(at::kFloat) : gradient);
    }
    gradients.resize(gradients.size() + 3);  // inputs, hidden, layers
    return gradients;
  }
};

}  // namespace

void flatten_for_cudnn(const std::vector<at::Tensor>& weights, int64_t inputs, int64_t hidden,
                       int64_t layers) {
  constexpr int64_t kWeightsOfLayer = 4;
  constexpr int64_t kLstm = 2;  // cudnnRNNMode_t
  at::_cudnn_rnn_flatten_weight(weights, kWeightsOfLayer, inputs, kLstm, hidden, /*proj_size=*/0,
                                layers, /*batch_first=*/true, /*bidirectional=*/false);
}

at::Tensor cudnn_lstm_bf16(const at::Tensor& sequence, const std::vector<at::Tensor>& weights,
                           int64_t hidden, int64_t layers, bool train) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCUDA);
  const std::vector<at::Tensor> cast =
      CastWeights::apply(at::TensorList(weights), sequence.size(2), hidden, layers);
  const at::Tensor input = sequence.to(at::kBFloat16);
  const at::Tensor zeros = at::zeros({layers, sequence.size(0), hidden}, input.options());
  return std::get<0>(at::lstm(input, {zeros, zeros}, cast, /*has_biases=*/true, layers,
                              /*dropout=*/0.0, train, /*bidirectional=*/false,
                              /*batch_first=*/true));
}

}  // namespace longship::models
