#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <vector>

namespace longship::models {

// Tells the parameter's post-accumulate hook that .grad is complete, on the current stream.
void announce_gradient(const at::Tensor& parameter);

// A node of autograd's graph that can add the gradients of its parameters to .grad itself, as soon
// as each is there, instead of handing all over at its end: what waits for a gradient, such as an
// all-reduce, then goes on beside the rest of the node, and nothing is added twice. Its last edges
// lead to the parameters, which have no other use in the graph.
class AccumulatingNode : public torch::autograd::Node {
 public:
  explicit AccumulatingNode(std::vector<at::Tensor> parameters)
      : parameters_(std::move(parameters)) {}

  void release_variables() override { parameters_.clear(); }

 protected:
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  // Whether it may do so in the backward under way: all parameters are leaves in float32 with a
  // dense .grad to add to, and the backward accumulates (torch::autograd::grad() does not), once,
  // and is not differentiated itself. Else the node returns the gradients.
  bool may_accumulate() const;
  // Once it has: autograd would call the hook of a leaf that gets no gradient, too. The node
  // returns undefined gradients for the parameters.
  void cut_parameters();

 private:
  std::vector<at::Tensor> parameters_;
  torch::autograd::edge_list cut_;  // keeps alive what the engine may still look at
};

}  // namespace longship::models
