#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace longship::comm {

// Calls `arrived` whenever backward has added to the gradient of this leaf, in a thread of the
// autograd engine; null takes the hook away. A parameter has one such hook.
void set_gradient_hook(const at::Tensor& parameter, std::function<void()> arrived);

}  // namespace longship::comm
