#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config.h"
#include "runtime/optimizer_entry.h"

namespace longship::runtime {

// What an optimizer changes: a parameter, or the part of it that is this rank's.
struct UpdatedPart {
  std::string name;     // of the parameter
  at::Tensor values;    // float32; where `part` says of what: flat, perhaps empty
  at::Tensor gradient;  // as values
  std::optional<TensorPart> part = {};
};

// Changes parameters in place by their gradients. Everything that decides a step lies on the
// device: the learning rate, the count of applied steps, by what gradients are divided before they
// are used, and found_inf, with which a step does nothing.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Each a float32 scalar on the parameters' device.
  struct Decision {
    at::Tensor lr;
    at::Tensor step_number;  // of this step when it is applied, 1-based, for Adam's bias correction
    at::Tensor divisor;      // of the gradients
    at::Tensor found_inf;    // 1: do nothing
  };
  virtual void step(const Decision& decision) = 0;

  // State that a checkpoint keeps; writing into the tensors restores it.
  virtual std::vector<OptimizerEntry> state() = 0;
};

// adamw: torch.optim.AdamW (decoupled decay); sgd: torch.optim.SGD with momentum (decay added to
// the gradient). decay_biases false leaves parameters of fewer than two dimensions undecayed. By
// LibTorch's fused kernels, but for adamw on a GPU (runtime/adamw.h).
std::unique_ptr<Optimizer> make_optimizer(const Config::Optimizer& config,
                                          const std::vector<UpdatedPart>& parts);

}  // namespace longship::runtime
