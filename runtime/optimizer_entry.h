#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace longship::runtime {

// A run of a tensor's elements, of which ranks hold different ones (optimizer.shard).
struct TensorPart {
  std::vector<int64_t> shape;  // of the whole
  int64_t begin = 0;           // first element
};

// The optimizer's memory of one parameter under the name that torch.optim gives it, e.g.
// ("lstm.weight_ih_l0", "exp_avg").
struct OptimizerEntry {
  std::string parameter;
  std::string state;
  at::Tensor tensor;  // where `part` says of what: flat, and empty where this rank holds none
  std::optional<TensorPart> part = {};
};

}  // namespace longship::runtime
