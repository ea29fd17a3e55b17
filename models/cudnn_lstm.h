#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace longship::models {

// at::lstm(sequence, zeros, weights, ...) over `layers` layers in bfloat16 on a GPU, by cuDNN.
// Autocast would compute it in fp16, whatever type it is told, and gradients without a loss scale,
// as bfloat16 needs none, can be too small for that.
// sequence: (batch, window, inputs); weights: weight_ih, weight_hh, bias_ih, bias_hh of each layer,
// float32 -> (batch, window, hidden) bfloat16. Gradients of weights are float32.
at::Tensor cudnn_lstm_bf16(const at::Tensor& sequence, const std::vector<at::Tensor>& weights,
                           int64_t hidden, int64_t layers, bool train);

// Has cuDNN's layout made of weights, in place: all layers in one piece.
void flatten_for_cudnn(const std::vector<at::Tensor>& weights, int64_t inputs, int64_t hidden,
                       int64_t layers);

}  // namespace longship::models
