#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace longship::data {

// The training data of a run in a GPU's memory, so that a micro-batch is a list of row numbers and
// the windows are cut out on the device, also inside a captured step.
class DeviceSeries {
 public:
  // Copies the columns that training uses. Throws c10::OutOfMemoryError.
  DeviceSeries(const Dataset& dataset, c10::Device device);

  // Bytes that a dataset would take on a device.
  static int64_t bytes_for(const Dataset& dataset);

  // first_rows: int64 (batch,) on the device; past float32 (batch, window, inputs) and target
  // float32 (batch, horizon, targets) are written, in the order of the current stream.
  void gather(const at::Tensor& first_rows, const at::Tensor& past, const at::Tensor& target) const;

  // Empty tensors for gather().
  at::Tensor make_past(int64_t batch) const;
  at::Tensor make_target(int64_t batch) const;

 private:
  int64_t window_;
  int64_t horizon_;
  at::Tensor inputs_;   // (rows, inputs)
  at::Tensor targets_;  // (rows, targets)
};

}  // namespace longship::data
