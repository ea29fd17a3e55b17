#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "models/lstm_kernels.h"

namespace longship::models {

// A stack of LSTM layers as one node of autograd's graph, by the kernels of models/lstm_kernels.h.
// In a backward that accumulates it adds a layer's gradients to .grad and calls their hooks as soon
// as they are there, the last layer's first (models/leaf_gradients.h).
class LstmNode {
 public:
  // Why a shape cannot run on a device; empty if it can. Remembered, so that it may be asked at
  // every step.
  const std::string& obstacle(const LstmKernelShape& shape, c10::DeviceIndex device);

  // What the layers put out at the last step: (batch, hidden), of the shape's type. `past` is
  // (batch, window, inputs) and `weights` are weight_ih, weight_hh, bias_ih and bias_hh of each
  // layer, of any floating type; differentiable in all of them. The shape must have no obstacle,
  // and this object must outlive the graph.
  at::Tensor last_step(const LstmKernelShape& shape, const at::Tensor& past,
                       const std::vector<at::Tensor>& weights);
  // The same at every step: (batch, window, hidden).
  at::Tensor sequence(const LstmKernelShape& shape, const at::Tensor& past,
                      const std::vector<at::Tensor>& weights);

 private:
  enum class Steps { kLast, kAll };
  at::Tensor run(const LstmKernelShape& shape, const at::Tensor& past,
                 const std::vector<at::Tensor>& weights, Steps steps);

  struct Entry {
    std::string obstacle;
    std::unique_ptr<const LstmKernels> kernels;
  };
  using Key =
      std::tuple<at::ScalarType, int64_t, int64_t, int64_t, int64_t, int64_t, c10::DeviceIndex>;
  const Entry& entry(const LstmKernelShape& shape, c10::DeviceIndex device);

  std::map<Key, Entry> entries_;
};

}  // namespace longship::models
