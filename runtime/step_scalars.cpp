#include "runtime/step_scalars.h"

#include <ATen/Functions.h>
#include <c10/cuda/CUDAStream.h>

#include <chrono>

#include "runtime/schedule.h"

namespace longship::runtime {

StepScalars::StepScalars(const Config& config, int64_t total_steps, const LossScaler& scaler,
                         c10::Device device)
    : device_(device),
      clip_norm_(config.train.clip_norm),
      scaler_(scaler),
      learning_rates_(learning_rate_table(config.optimizer, config.schedule, total_steps, device)) {
  const auto options = at::TensorOptions().device(device);
  const auto number = [&] { return at::zeros({}, options.dtype(at::kFloat)); };
  loss_sum_ = number();
  consecutive_skips_ = number();
  found_inf_ = number();
  divisor_ = number();
  lr_ = number();
  step_number_ = number();
  applied_ = at::zeros({}, options.dtype(at::kLong));
  numbers_ = at::zeros({StepFinish::kColumns}, options.dtype(at::kDouble));
  stamps_ = at::zeros({2}, options.dtype(at::kLong));
  if (device.is_cuda()) {
    partial_sums_ = at::zeros({finish_blocks()}, options.dtype(at::kDouble));
    scratch_ = at::zeros({2}, options.dtype(at::kInt));
  }
}

namespace {
void stamp(const at::Tensor& stamps, int64_t which) {
  int64_t* place = stamps.mutable_data_ptr<int64_t>() + which;
  if (stamps.is_cuda()) {
    stamp_cuda(place, c10::cuda::getCurrentCUDAStream(stamps.device().index()));
  } else {
    *place = std::chrono::duration_cast<std::chrono::nanoseconds>(
                 std::chrono::steady_clock::now().time_since_epoch())
                 .count();
  }
}
}  // namespace

void StepScalars::wait_begins() {
  stamp(stamps_, 0);
}

void StepScalars::wait_ends() {
  stamp(stamps_, 1);
}

void StepScalars::finish(const at::Tensor& gradients) {
  StepFinish f;
  f.gradients = gradients.const_data_ptr<float>();
  f.elements = gradients.numel();
  decide(f);
}

void StepScalars::finish_by_squares(const at::Tensor& squares) {
  StepFinish f;
  f.squares = squares.const_data_ptr<double>();
  f.ranks = squares.numel();
  decide(f);
}

void StepScalars::decide(StepFinish f) {
  f.learning_rates = learning_rates_.const_data_ptr<float>();
  f.learning_rate_count = learning_rates_.numel();
  f.clip_norm = clip_norm_;
  f.scaling = scaler_.enabled();
  f.growth_interval = static_cast<int>(scaler_.growth_interval());
  f.floor = LossScaler::kFloor;
  f.loss_scale = scaler_.scale().mutable_data_ptr<float>();
  f.growth_tracker = scaler_.growth_tracker().mutable_data_ptr<int>();
  f.applied = applied_.mutable_data_ptr<int64_t>();
  f.consecutive_skips = consecutive_skips_.mutable_data_ptr<float>();
  f.loss_sum = loss_sum_.const_data_ptr<float>();
  f.stamps = stamps_.const_data_ptr<int64_t>();
  f.found_inf = found_inf_.mutable_data_ptr<float>();
  f.divisor = divisor_.mutable_data_ptr<float>();
  f.lr = lr_.mutable_data_ptr<float>();
  f.step_number = step_number_.mutable_data_ptr<float>();
  f.numbers = numbers_.mutable_data_ptr<double>();
  if (device_.is_cpu()) {
    finish_step_cpu(f);
    return;
  }
  f.partial_sums = partial_sums_.mutable_data_ptr<double>();
  f.scratch = reinterpret_cast<uint32_t*>(scratch_.mutable_data_ptr<int>());
  finish_step_cuda(f, c10::cuda::getCurrentCUDAStream(device_.index()));
}

int64_t StepScalars::applied() const {
  return applied_.item<int64_t>();
}

void StepScalars::set_applied(int64_t applied) {
  applied_.fill_(applied);
}

}  // namespace longship::runtime
