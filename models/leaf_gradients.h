#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace longship::models {

// For nodes of autograd's graph that add gradients of their parameters to .grad themselves, as soon
// as each is there, instead of handing all over at their end: what waits for a gradient, such as an
// all-reduce, then goes on beside the rest of the node, and nothing is added twice.

// Whether a node may do that in the backward under way: all are leaves in float32 with a dense
// .grad to add to, and the backward accumulates (torch::autograd::grad() does not), once, and is not
// differentiated itself. A node that may not returns its gradients; one that does cuts its edges to
// the parameters before it returns, since autograd calls the hook of a leaf that gets no gradient,
// too. The parameters must have no other use in the graph.
bool accumulate_in_place(const std::vector<at::Tensor>& parameters);

// Tells the parameter's post-accumulate hook that .grad is complete, on the current stream.
void announce_gradient(const at::Tensor& parameter);

}  // namespace longship::models
