#include "runtime/step_inputs.h"

#include <ATen/Functions.h>

namespace longship::runtime {

namespace {

// The next `count` elements of a type in a piece of bytes, of which `used` are taken.
at::Tensor take(const at::Tensor& bytes, int64_t& used, at::ScalarType type, int64_t count) {
  const auto size = count * static_cast<int64_t>(c10::elementSize(type));
  const at::Tensor part = bytes.narrow(0, used, size).view(type);
  used += size;
  return part;
}

}  // namespace

StepInputs::StepInputs(uint64_t seed, c10::Device device, const data::DeviceSeries* series)
    : seed_(seed), device_(device), series_(series) {}

void StepInputs::place(at::Tensor& own, const at::Tensor& given) {
  if (device_.is_cpu()) {
    own = given;
    return;
  }
  if (!own.defined()) own = at::empty(given.sizes(), given.options().device(device_));
  own.copy_(given, /*non_blocking=*/true);
}

void StepInputs::place_numbers(const data::MicroBatch& micro_batch) {
  const int64_t batch = micro_batch.weight.numel();
  const bool rows = series_ != nullptr;
  const auto bytes = static_cast<int64_t>((kCounters + (rows ? batch : 0)) * sizeof(int64_t) +
                                          batch * sizeof(float));
  // LibTorch's pinned memory is not handed out again before the copy is done.
  const at::Tensor host =
      at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(device_.is_cuda()));
  const auto lay_out = [&](const at::Tensor& piece, at::Tensor& counters, at::Tensor& first_rows,
                           at::Tensor& weight) {
    int64_t used = 0;
    counters = take(piece, used, at::kLong, kCounters);
    if (rows) first_rows = take(piece, used, at::kLong, batch);
    weight = take(piece, used, at::kFloat, batch);
  };
  at::Tensor counters;
  at::Tensor first_rows;
  at::Tensor weight;
  lay_out(host, counters, first_rows, weight);
  auto* numbers = counters.mutable_data_ptr<int64_t>();
  numbers[kStep] = micro_batch.step;
  numbers[kMicroBatch] = micro_batch.micro_batch;
  numbers[kSamples] = micro_batch.samples;
  if (rows) first_rows.copy_(micro_batch.first_rows);
  weight.copy_(micro_batch.weight);
  if (!numbers_.defined()) {
    numbers_ = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(device_));
    lay_out(numbers_, counters_, first_rows_, weight_);
  }
  numbers_.copy_(host, /*non_blocking=*/true);
}

void StepInputs::load(const data::MicroBatch& micro_batch) {
  if (series_ == nullptr) {
    place(past_, micro_batch.batch.past);
    place(target_, micro_batch.batch.target);
  } else if (!past_.defined()) {
    past_ = series_->make_past(micro_batch.first_rows.numel());
    target_ = series_->make_target(micro_batch.first_rows.numel());
  }
  place_numbers(micro_batch);
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
