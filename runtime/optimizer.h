#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/config.h"

namespace longship::runtime {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;  // float32 leaf
};

// State of one parameter under one name, as torch.optim calls it ("exp_avg", "momentum_buffer").
struct OptimizerSlot {
  std::string parameter;
  std::string state;
  at::Tensor tensor;  // shares storage with the optimizer
};

// Changes parameters in place by their .grad. Everything that decides a step lies on the device:
// the learning rate, the count of applied steps, by what gradients are divided before they are
// used, and found_inf, with which a step does nothing.
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
  virtual std::vector<OptimizerSlot> slots() = 0;
};

// adamw: torch.optim.AdamW (decoupled decay); sgd: torch.optim.SGD with momentum (decay added to
// the gradient). decay_biases false leaves parameters of fewer than two dimensions undecayed. Both
// use LibTorch's fused kernels. Parameters must have .grad defined from now on.
std::unique_ptr<Optimizer> make_optimizer(const Config::Optimizer& config,
                                          const std::vector<NamedParameter>& parameters);

}  // namespace longship::runtime
