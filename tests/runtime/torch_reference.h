#pragma once

#include <ATen/ATen.h>

#include "../models/python_reference.h"

namespace longship::tests {

constexpr int64_t kReferenceSteps = 20;

// What torch_reference.py gets.
inline Tensors reference_input() {
  at::manual_seed(11);
  Tensors given;
  given["weight"] = at::randn({4, 3});
  given["bias"] = at::randn({4});
  given["gradients/weight"] = at::randn({kReferenceSteps, 4, 3});
  given["gradients/bias"] = at::randn({kReferenceSteps, 4});
  given["lr"] = 0.01 * (1 + at::arange(kReferenceSteps, at::kFloat).remainder(3));
  given["forecast"] = at::randn({5, 3, 2});
  given["target"] = at::randn({5, 3, 2});
  return given;
}

// What it finds; Python runs once a process.
inline const Tensors& torch_reference() {
  static const Tensors found = run_python("tests/runtime/torch_reference.py", reference_input());
  return found;
}

}  // namespace longship::tests
