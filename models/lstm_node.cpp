#include "models/lstm_node.h"

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <utility>

#include "models/leaf_gradients.h"

namespace longship::models {
namespace {

using torch::autograd::variable_list;

constexpr size_t kTensorsOfLayer = 4;  // weight_ih, weight_hh, bias_ih, bias_hh

LstmLayerGradients gradients_of_layer(const std::vector<at::Tensor>& parameters, size_t layer) {
  const auto of = [&](size_t i) { return parameters.at(kTensorsOfLayer * layer + i).grad(); };
  return {of(0), of(1), of(2), of(3)};
}

// What backward computes, in the order of the inputs: past, then the weights of each layer.
class LayersBackward final : public AccumulatingNode {
 public:
  // parameters: what the weights were cast from. all_steps: the output is of every step, not only
  // of the last.
  LayersBackward(const LstmKernels& kernels, std::vector<at::Tensor> parameters, LstmTape tape,
                 std::vector<LstmLayerWeights> weights, bool all_steps)
      : AccumulatingNode(std::move(parameters)),
        kernels_(kernels),
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
    // Layer by layer as they come, if whoever waits for them lets us.
    const bool in_place = may_accumulate();
    std::vector<LstmLayerGradients> gradients;
    if (in_place) {
      for (size_t layer = 0; layer < weights_.size(); ++layer) {
        gradients.push_back(gradients_of_layer(parameters(), layer));
      }
    } else {
      gradients = kernels_.zero_gradients();
    }
    const auto announce = [&](int64_t layer) {
      const auto first = parameters().begin() + layer * static_cast<int64_t>(kTensorsOfLayer);
      std::for_each(first, first + kTensorsOfLayer, announce_gradient);
    };
    const bool input_gradient = task_should_compute_output(0);
    const at::Tensor of_input =
        kernels_.backward(tape_, weights_, incoming, gradients, input_gradient,
                          in_place ? announce : LstmKernels::LayerDone());
    variable_list result(1);
    if (input_gradient) result[0] = kernels_.to_sequence(of_input, kernels_.shape().inputs);
    if (in_place) {
      result.resize(1 + parameters().size());
      cut_parameters();
    } else {
      for (const LstmLayerGradients& g : gradients) {
        result.insert(result.end(), {g.weight_ih, g.weight_hh, g.bias_ih, g.bias_hh});
      }
    }
    return result;
  }

  void release_variables() override {
    AccumulatingNode::release_variables();
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
    std::vector<LstmLayerWeights> layers = kernels.cast(weights);
    LstmTape tape = kernels.begin(past, /*keep=*/differentiated);
    kernels.wait_for_cast();
    kernels.forward(tape, layers);
    output = steps == Steps::kLast
                 ? std::exchange(tape.last, {})
                 : kernels.to_sequence(kernels.output_rows(tape.hidden.back()), shape.hidden);
    if (!differentiated) return output;
    node =
        std::shared_ptr<LayersBackward>(new LayersBackward(kernels, weights, std::move(tape),
                                                           std::move(layers), steps == Steps::kAll),
                                        torch::autograd::deleteNode);
  }
  node->set_next_edges(torch::autograd::collect_next_edges(past, weights));
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace longship::models
