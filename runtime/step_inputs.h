#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

#include "data/batch_loader.h"
#include "data/device_series.h"
#include "models/forecaster.h"

namespace longship::runtime {

// What one forward pass reads. On a GPU every tensor has its place for the life of the run, so that
// a captured step finds the next micro-batch where the last one was; on a CPU they are the
// micro-batch's own.
class StepInputs {
 public:
  // series: where the micro-batches are rows of device-resident series, else null; outlives this.
  StepInputs(uint64_t seed, c10::Device device, const data::DeviceSeries* series);

  // Puts a micro-batch in place. On CUDA in the order of the current stream; does not block.
  void load(const data::MicroBatch& micro_batch);
  // Cuts the windows out of the device-resident series; nothing without them. May be captured.
  void gather();

  models::Inputs model_inputs() const;
  const at::Tensor& target() const { return target_; }  // (batch, horizon, targets)
  const at::Tensor& weight() const { return weight_; }  // (batch,)
  // Samples of the whole step that are not padding: int64 scalar.
  at::Tensor samples() const { return counters_.select(0, kSamples); }

 private:
  enum Counter { kStep, kMicroBatch, kSamples, kCounters };
  void place(at::Tensor& own, const at::Tensor& given);

  uint64_t seed_;
  c10::Device device_;
  const data::DeviceSeries* series_;
  at::Tensor past_;
  at::Tensor target_;
  at::Tensor weight_;
  at::Tensor first_rows_;
  at::Tensor counters_;  // (kCounters,) int64
};

}  // namespace longship::runtime
