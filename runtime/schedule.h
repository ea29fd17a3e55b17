#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

#include "runtime/config.h"

namespace longship::runtime {

// Learning rate of the optimizer step with index `applied` (0-based, skipped steps not counted) of
// a run of `total_steps`:
//   warm-up   lr * (applied + 1) / warmup_steps while applied < warmup_steps; then, with
//   t = applied - warmup_steps and T = total_steps - warmup_steps,
//   constant  lr
//   cosine    min_lr + (lr - min_lr) * (1 + cos(pi t / (T - 1))) / 2, so the last step has min_lr
//   linear    lr + (min_lr - lr) * t / (T - 1), likewise
//   step      max(lr * gamma^(t / step_size), min_lr), integer division
double learning_rate(const Config::Optimizer& optimizer, const Config::Schedule& schedule,
                     int64_t applied, int64_t total_steps);

// The learning rates of all steps, float32 on the device, so that the rate of a step can be looked
// up there by the device's own count of applied steps (steps,); the last one is that of all later
// steps. Throws ConfigError for a run of more steps than such a table holds.
at::Tensor learning_rate_table(const Config::Optimizer& optimizer, const Config::Schedule& schedule,
                               int64_t total_steps, c10::Device device);

}  // namespace longship::runtime
