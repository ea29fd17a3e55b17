#include "runtime/step_inputs.h"

#include <ATen/Functions.h>

namespace longship::runtime {

StepInputs::StepInputs(uint64_t seed, c10::Device device, const data::DeviceSeries* series)
    : seed_(seed),
      device_(device),
      series_(series),
      counters_(at::zeros({kCounters}, at::TensorOptions().dtype(at::kLong).device(device))) {}

void StepInputs::place(at::Tensor& own, const at::Tensor& given) {
  if (device_.is_cpu()) {
    own = given;
    return;
  }
  if (!own.defined()) own = at::empty(given.sizes(), given.options().device(device_));
  own.copy_(given, /*non_blocking=*/true);
}

void StepInputs::load(const data::MicroBatch& micro_batch) {
  if (series_ != nullptr) {
    if (!past_.defined()) {
      past_ = series_->make_past(micro_batch.first_rows.numel());
      target_ = series_->make_target(micro_batch.first_rows.numel());
    }
    place(first_rows_, micro_batch.first_rows);
  } else {
    place(past_, micro_batch.batch.past);
    place(target_, micro_batch.batch.target);
  }
  place(weight_, micro_batch.weight);

  // LibTorch's pinned memory is not handed out again before the copy is done.
  const at::Tensor counters =
      at::empty({kCounters}, at::TensorOptions().dtype(at::kLong).pinned_memory(device_.is_cuda()));
  auto* numbers = counters.mutable_data_ptr<int64_t>();
  numbers[kStep] = micro_batch.step;
  numbers[kMicroBatch] = micro_batch.micro_batch;
  numbers[kSamples] = micro_batch.samples;
  counters_.copy_(counters, /*non_blocking=*/true);
}

void StepInputs::gather() {
  if (series_ != nullptr) series_->gather(first_rows_, past_, target_);
}

models::Inputs StepInputs::model_inputs() const {
  models::Inputs inputs;
  inputs.past = past_;
  inputs.random = {seed_, counters_.narrow(0, kStep, 2)};
  return inputs;
}

}  // namespace longship::runtime
