#include "runtime/schedule.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "runtime/error.h"

namespace longship::runtime {

double learning_rate(const Config::Optimizer& optimizer, const Config::Schedule& schedule,
                     int64_t applied, int64_t total_steps) {
  const double lr = optimizer.lr;
  if (applied < schedule.warmup_steps) {
    return lr * static_cast<double>(applied + 1) / static_cast<double>(schedule.warmup_steps);
  }
  const int64_t since_warmup = applied - schedule.warmup_steps;
  const int64_t last = std::max<int64_t>(total_steps - schedule.warmup_steps - 1, 1);
  const double progress =
      std::min(1.0, static_cast<double>(since_warmup) / static_cast<double>(last));
  if (schedule.name == "cosine") {
    return schedule.min_lr +
           (lr - schedule.min_lr) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }
  if (schedule.name == "linear") {
    return lr + (schedule.min_lr - lr) * progress;
  }
  if (schedule.name == "step") {
    const int64_t drops = since_warmup / schedule.step_size;
    return std::max(lr * std::pow(schedule.gamma, static_cast<double>(drops)), schedule.min_lr);
  }
  return lr;
}

at::Tensor learning_rate_table(const Config::Optimizer& optimizer, const Config::Schedule& schedule,
                               int64_t total_steps, c10::Device device) {
  constexpr int64_t kMost = int64_t{1} << 26;
  const int64_t last = schedule.name == "constant" ? schedule.warmup_steps : total_steps;
  if (last > kMost) {
    throw ConfigError("the schedule has to reach over " + std::to_string(last) +
                      " steps, and at most " + std::to_string(kMost) +
                      " are possible: set train.steps or train.epochs lower, or schedule.name to "
                      "constant");
  }
  at::Tensor table = at::empty({last + 1}, at::kFloat);
  float* rates = table.mutable_data_ptr<float>();
  for (int64_t step = 0; step <= last; ++step) {
    rates[step] = static_cast<float>(learning_rate(optimizer, schedule, step, total_steps));
  }
  return table.to(device);
}

}  // namespace longship::runtime
