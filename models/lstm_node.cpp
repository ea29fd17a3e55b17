#include "models/lstm_node.h"

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <utility>

namespace longship::models {
namespace {

using torch::autograd::variable_list;

constexpr size_t kTensorsOfLayer = 4;  // weight_ih, weight_hh, bias_ih, bias_hh

std::vector<LstmLayerWeights> cast(const std::vector<at::Tensor>& weights, at::ScalarType type) {
  std::vector<LstmLayerWeights> layers;
  for (size_t i = 0; i < weights.size(); i += kTensorsOfLayer) {
    layers.push_back({weights[i].to(type), weights[i + 1].to(type), weights[i + 2].to(at::kFloat),
                      weights[i + 3].to(at::kFloat)});
  }
  return layers;
}

// What backward computes, in the order of the inputs: past, then the weights of each layer.
class LayersBackward final : public torch::autograd::Node {
 public:
  // all_steps: the output is of every step, not only of the last.
  LayersBackward(const LstmKernels& kernels, LstmTape tape, std::vector<LstmLayerWeights> weights,
                 bool all_steps)
      : kernels_(kernels),
        tape_(std::move(tape)),
        weights_(std::move(weights)),
        all_steps_(all_steps) {}

  std::string name() const override { return "LstmLayersBackward"; }

  variable_list apply(variable_list&& of_outputs) override {
    TORCH_CHECK(!weights_.empty(), "an LSTM's backward was run twice");
    LstmKernels::Incoming incoming;
    if (all_steps_) {
      incoming.rows = kernels_.to_rows(of_outputs.front());
    } else {
      incoming.last = of_outputs.front().contiguous();
    }
    const bool input_gradient = task_should_compute_output(0);
    const LstmGradients gradients = kernels_.backward(tape_, weights_, incoming, input_gradient);
    variable_list result(1);
    if (input_gradient) {
      result[0] = kernels_.to_sequence(gradients.input, kernels_.shape().inputs);
    }
    for (const LstmLayerGradients& layer : gradients.layers) {
      result.insert(result.end(), {layer.weight_ih, layer.weight_hh, layer.bias, layer.bias});
    }
    return result;
  }

  void release_variables() override {
    tape_ = {};
    weights_.clear();
  }

 private:
  const LstmKernels& kernels_;
  LstmTape tape_;
  std::vector<LstmLayerWeights> weights_;
  bool all_steps_;
};

}  // namespace

const LstmNode::Entry& LstmNode::entry(const LstmKernelShape& shape, c10::DeviceIndex device) {
  const Key key{shape.type,   shape.batch,  shape.window, shape.inputs,
                shape.hidden, shape.layers, device};
  const auto [found, is_new] = entries_.try_emplace(key);
  if (is_new) {
    found->second.obstacle = lstm_kernels_obstacle(shape, device);
    if (found->second.obstacle.empty()) {
      found->second.kernels = std::make_unique<const LstmKernels>(shape, device);
    }
  }
  return found->second;
}

const std::string& LstmNode::obstacle(const LstmKernelShape& shape, c10::DeviceIndex device) {
  return entry(shape, device).obstacle;
}

at::Tensor LstmNode::last_step(const LstmKernelShape& shape, const at::Tensor& past,
                               const std::vector<at::Tensor>& weights) {
  return run(shape, past, weights, Steps::kLast);
}

at::Tensor LstmNode::sequence(const LstmKernelShape& shape, const at::Tensor& past,
                              const std::vector<at::Tensor>& weights) {
  return run(shape, past, weights, Steps::kAll);
}

at::Tensor LstmNode::run(const LstmKernelShape& shape, const at::Tensor& past,
                         const std::vector<at::Tensor>& weights, Steps steps) {
  const LstmKernels& kernels = *entry(shape, past.device().index()).kernels;
  const bool differentiated =
      at::GradMode::is_enabled() &&
      (past.requires_grad() || std::any_of(weights.begin(), weights.end(),
                                           [](const at::Tensor& w) { return w.requires_grad(); }));
  at::Tensor output;
  std::shared_ptr<LayersBackward> node;
  {
    const at::AutoDispatchBelowADInplaceOrView guard;
    std::vector<LstmLayerWeights> layers = cast(weights, shape.type);
    LstmTape tape = kernels.forward(kernels.to_rows(past), layers, /*keep=*/differentiated);
    output = steps == Steps::kLast
                 ? kernels.last_step(tape.hidden.back())
                 : kernels.to_sequence(kernels.output_rows(tape.hidden.back()), shape.hidden);
    if (!differentiated) return output;
    node = std::shared_ptr<LayersBackward>(
        new LayersBackward(kernels, std::move(tape), std::move(layers), steps == Steps::kAll),
        torch::autograd::deleteNode);
  }
  node->set_next_edges(torch::autograd::collect_next_edges(past, weights));
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace longship::models
