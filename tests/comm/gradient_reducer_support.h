#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "comm/gradient_reducer.h"

namespace longship::comm {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline std::vector<at::Tensor> make_parameters(const std::vector<std::vector<int64_t>>& shapes) {
  std::vector<at::Tensor> parameters;
  for (const auto& shape : shapes) parameters.push_back(torch::zeros(shape).requires_grad_());
  return parameters;
}

// Runs backward so that parameter p gets the gradient gradients[p]; undefined: it is not used.
inline void backward(const std::vector<at::Tensor>& parameters,
                     const std::vector<at::Tensor>& gradients) {
  at::Tensor loss = torch::zeros({}, torch::requires_grad());
  for (size_t p = 0; p < parameters.size(); ++p) {
    if (gradients[p].defined()) loss = loss + (parameters[p] * gradients[p]).sum();
  }
  loss.backward();
}

inline std::vector<at::Tensor> filled(const std::vector<at::Tensor>& parameters, float value) {
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters) gradients.push_back(torch::full_like(parameter, value));
  return gradients;
}

// One step of a single micro-step in which all gradients are `value`.
inline void step(GradientReducer& reducer, const std::vector<at::Tensor>& parameters, float value) {
  reducer.zero();
  reducer.begin_micro_step(true);
  backward(parameters, filled(parameters, value));
  reducer.finalize();
}

inline ReducerOptions small_buckets(WireFormat wire) {
  ReducerOptions options;
  options.wire = wire;
  options.first_bucket_bytes = 64;
  options.bucket_bytes = 256;
  return options;
}

// Largest relative distance of all gradients from one number.
inline float distance(const std::vector<at::Tensor>& parameters, float want) {
  float largest = 0;
  for (const auto& parameter : parameters) {
    largest = std::fmax(largest, ((parameter.grad() - want) / want).abs().max().item<float>());
  }
  return largest;
}

inline bool all_finite(const GradientReducer& reducer) {
  for (const auto& bucket : reducer.buckets()) {
    if (!torch::isfinite(bucket).all().item<bool>()) return false;
  }
  return true;
}

// Rounding of one value in the wire's type, and of the sum.
inline float tolerance(WireFormat wire) {
  switch (wire) {
    case WireFormat::kFp32:
      return 1e-6F;
    case WireFormat::kFp16:
      return 1e-3F;
    case WireFormat::kBf16:
      return 1.2e-2F;
  }
  return 0;
}

inline const std::vector<std::vector<int64_t>> kShapes{{5, 3}, {7}, {16, 16}, {1}, {2, 9}};

inline std::string wire_name(const testing::TestParamInfo<WireFormat>& test) {
  switch (test.param) {
    case WireFormat::kFp32:
      return "fp32";
    case WireFormat::kFp16:
      return "fp16";
    case WireFormat::kBf16:
      return "bf16";
  }
  return "unknown";
}

}  // namespace longship::comm
