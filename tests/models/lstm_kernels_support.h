#pragma once

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "models/lstm_kernels.h"

namespace longship::models {

struct Numbers {
  at::Tensor output;
  std::vector<at::Tensor> gradients;  // of x, then weight_ih, weight_hh, bias_ih of each layer
};

// What a case is computed from: halves, as every implementation gets them.
struct Given {
  LstmKernelShape shape;
  at::Tensor x;
  std::vector<at::Tensor> weights;  // weight_ih, weight_hh, bias_ih, bias_hh of each layer
  at::Tensor gradient;              // of the output, (batch, window, hidden)
  bool last_only = false;           // it is zero but for the last step

  explicit Given(const LstmKernelShape& s, bool last = false) : shape(s), last_only(last) {
    const auto gpu = at::TensorOptions().device(at::kCUDA);
    x = at::randn({s.batch, s.window, s.inputs}, gpu).to(s.type);
    const double bound = 1 / std::sqrt(static_cast<double>(s.hidden));
    for (int64_t layer = 0; layer < s.layers; ++layer) {
      const int64_t inputs = layer == 0 ? s.inputs : s.hidden;
      for (const std::vector<int64_t>& size : std::vector<std::vector<int64_t>>{
               {4 * s.hidden, inputs}, {4 * s.hidden, s.hidden}, {4 * s.hidden}, {4 * s.hidden}}) {
        weights.push_back(at::empty(size, gpu).uniform_(-bound, bound).to(s.type));
      }
    }
    gradient = at::randn({s.batch, s.window, s.hidden}, gpu).to(s.type);
    if (last) gradient.narrow(1, 0, s.window - 1).zero_();
  }
  std::vector<LstmLayerWeights> layers() const {
    std::vector<LstmLayerWeights> all;
    for (size_t i = 0; i < weights.size(); i += 4) {
      all.push_back({weights[i], weights[i + 1], weights[i + 2].to(at::kFloat),
                     weights[i + 3].to(at::kFloat)});
    }
    return all;
  }
};

// By autograd, in a type, through a function of x and weights.
template <typename Forward>
Numbers differentiate(const Given& given, at::ScalarType type, const Forward& forward) {
  const at::AutoGradMode grad(true);
  const auto leaf = [&](const at::Tensor& t) {
    return t.detach().to(type, /*non_blocking=*/false, /*copy=*/true).requires_grad_();
  };
  const at::Tensor x = leaf(given.x);
  std::vector<at::Tensor> weights;
  for (const at::Tensor& w : given.weights) weights.push_back(leaf(w));
  const at::Tensor output = forward(x, weights);
  output.backward(given.gradient.to(type));
  Numbers numbers{output.detach(), {x.grad()}};
  for (size_t i = 0; i < weights.size(); ++i) {
    if (i % 4 != 3) numbers.gradients.push_back(weights[i].grad());
  }
  return numbers;
}

// Step by step, from its definition.
inline at::Tensor lstm_by_definition(at::Tensor x, const std::vector<at::Tensor>& weights) {
  for (size_t i = 0; i < weights.size(); i += 4) {
    const at::Tensor projected = at::linear(x, weights[i], weights[i + 2] + weights[i + 3]);
    const int64_t hidden = weights[i + 1].size(1);
    at::Tensor h = at::zeros({x.size(0), hidden}, x.options());
    at::Tensor c = h;
    std::vector<at::Tensor> steps;
    for (int64_t t = 0; t < x.size(1); ++t) {
      const auto gates = at::addmm(projected.select(1, t), h, weights[i + 1].t()).chunk(4, 1);
      c = gates[1].sigmoid() * c + gates[0].sigmoid() * gates[2].tanh();
      h = gates[3].sigmoid() * c.tanh();
      steps.push_back(h);
    }
    x = at::stack(steps, 1);
  }
  return x;
}

inline at::Tensor lstm_by_cudnn(const at::Tensor& x, const std::vector<at::Tensor>& weights) {
  const auto layers = static_cast<int64_t>(weights.size() / 4);
  const at::Tensor zeros = at::zeros({layers, x.size(0), weights[1].size(1)}, x.options());
  return std::get<0>(at::lstm(x, {zeros, zeros}, weights, /*has_biases=*/true, layers,
                              /*dropout=*/0.0, /*train=*/true, /*bidirectional=*/false,
                              /*batch_first=*/true));
}

struct Ours {
  LstmTape tape;
  std::vector<LstmLayerGradients> gradients;
  at::Tensor input_gradient;
};

inline LstmTape run_forward(const LstmKernels& kernels, const at::Tensor& x,
                            const std::vector<LstmLayerWeights>& weights, bool keep) {
  LstmTape tape = kernels.begin(x, keep);
  kernels.forward(tape, weights);
  return tape;
}

inline Ours run_ours(const LstmKernels& kernels, const Given& given,
                     const std::vector<LstmLayerWeights>& weights, bool input_gradient = true) {
  Ours ours;
  ours.tape = run_forward(kernels, given.x, weights, /*keep=*/true);
  LstmKernels::Incoming incoming;
  if (given.last_only) {
    incoming.last = given.gradient.select(1, -1).contiguous();
  } else {
    incoming.rows = kernels.to_rows(given.gradient);
  }
  ours.gradients = kernels.zero_gradients();
  ours.input_gradient =
      kernels.backward(ours.tape, weights, incoming, ours.gradients, input_gradient);
  return ours;
}

inline Numbers numbers_of(const LstmKernels& kernels, const Given& given, const Ours& ours) {
  Numbers numbers{
      kernels.to_sequence(kernels.output_rows(ours.tape.hidden.back()), given.shape.hidden),
      {kernels.to_sequence(ours.input_gradient, given.shape.inputs)}};
  for (const LstmLayerGradients& g : ours.gradients) {
    numbers.gradients.insert(numbers.gradients.end(), {g.weight_ih, g.weight_hh, g.bias_ih});
  }
  return numbers;
}

// While it lives, memory that nobody wrote holds NaN.
class PoisonedMemory {
 public:
  PoisonedMemory() { at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true); }
  ~PoisonedMemory() { at::globalContext().setDeterministicAlgorithms(false, false); }
  PoisonedMemory(const PoisonedMemory&) = delete;
  PoisonedMemory& operator=(const PoisonedMemory&) = delete;
};

inline double error_of(const at::Tensor& found, const at::Tensor& exact) {
  return ((found.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
}

class LstmKernelsGpu : public testing::Test {
 protected:
  void SetUp() override {
    const std::string obstacle = lstm_kernels_obstacle({at::kHalf, 8, 1, 8, 64, 1}, 0);
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
    at::manual_seed(5);
  }
};

// Runs work twice as it is, then records it.
inline void record(at::cuda::CUDAGraph& graph, const std::function<void()>& work) {
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);
  for (int i = 0; i < 2; ++i) work();
  stream.synchronize();
  graph.capture_begin();
  work();
  graph.capture_end();
}

}  // namespace longship::models
